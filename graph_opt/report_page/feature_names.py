"""The features that outputs of parsers and iterators have: keys of examples, columns of lines.

A tensor of `ParseExample` is one of several lists of outputs, which attributes count: for each
sparse key its indices, values and shape, for each dense key its values, for each ragged key its
values and row splits. An iterator's outputs are traced through its dataset: functions that map
elements are graphs of their own.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.function_bodies import function_body
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.stage_nodes import BUFFER_PUT, BUFFER_TAKE

_PARSERS = ("ParseExample", "ParseExampleV2", "ParseSingleExample", "DecodeCSV")
_ITERATORS = ("IteratorGetNext", "IteratorGetNextSync")
_MAPS = re.compile(r"^(Parallel)?Map(AndBatch)?Dataset(V\d)?$")
_PARSED = re.compile(r"^ParseExampleDataset(V\d)?$")
# Their elements have the components of those that they read, each in its place.
_SAME_COMPONENTS = re.compile(
    r"^(Prefetch|PaddedBatch|Batch|ParallelBatch|Unbatch|ShuffleAndRepeat|Shuffle|Repeat|Take|Skip"
    r"|Shard|Cache|Options|Filter|Model|Optimize|Rebatch|IgnoreErrors|TakeWhile|PrivateThreadPool"
    r"|MaxIntraOpParallelism|NonSerializable|Finalize|Snapshot)Dataset(V\d)?$"
)
_MOST_STAGES = 5
_MOST_DATASETS = 100
_MOST_NODES = 2000
_ARGUMENT = "Placeholder"


class FeatureNames:
    """Names outputs of a graph's input, as far as it has their names.

    Args:
      view: The graph.
    """

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._bodies: Dict[str, Optional[_Body]] = {}
        puts = view.of_op(BUFFER_PUT)
        self._puts = {view.nodes[put].attr["shared_name"].s: put for put in puts}

    def of(self, tensor: TensorRef) -> str:
        """The feature of one output, in quotes; "" if it has none or that is not known.

        Example:
          >>> FeatureNames(view).of(TensorRef("ParseExample/ParseExampleV2", 2))
          '"C3"'
        """
        try:
            source = self._behind_buffers(tensor)
            if source is None:
                return ""
            if self._view.op(source.node) in _ITERATORS:
                return self._of_iterator(source)
            return _of_parser(self._view, source)
        except (LookupError, ValueError):  # The file's nodes lack what such nodes have.
            return ""

    def _behind_buffers(self, tensor: TensorRef) -> Optional[TensorRef]:
        """The tensor of the input that a stage's buffer hands on; others are what they are."""
        found: Optional[TensorRef] = tensor
        for _ in range(_MOST_STAGES):
            if found is None or self._view.op(found.node) != BUFFER_TAKE:
                return found
            put = self._puts[self._view.nodes[found.node].attr["shared_name"].s]
            given = self._view.inputs(put)[found.index]
            found = _nearest(self._view, given, (*_PARSERS, *_ITERATORS, BUFFER_TAKE))
        return None

    def _of_iterator(self, tensor: TensorRef) -> str:
        iterator = self._view.inputs(tensor.node)[0]
        for use in self._view.uses(iterator):
            if self._view.op(use.consumer) == "MakeIterator":
                dataset = self._view.inputs(use.consumer)[0]
                return self._of_component(self._view, dataset, tensor.index)
        factory = self._view.attribute(iterator.node, "dataset_factory")
        body = None if factory is None else self._body(factory.func.name)
        return "" if body is None else self._of_component(body.view, body.results[0], tensor.index)

    def _of_component(self, view: GraphView, dataset: TensorRef, index: int) -> str:
        """The feature of one component of a dataset's elements."""
        for _ in range(_MOST_DATASETS):
            dataset = view.through_identity(dataset)
            op = view.op(dataset.node)
            if _PARSED.match(op):
                keys = [key for name in _KEYS for key in _list_of(view, dataset.node, name)]
                return _quoted(sorted(keys)[index])
            if _MAPS.match(op):
                name, argument = self._through_map(view, dataset.node, index)
                if name or argument is None:
                    return name
                index = argument
            elif not _SAME_COMPONENTS.match(op):
                return ""
            dataset = view.inputs(dataset.node)[0]
        return ""

    def _through_map(self, view: GraphView, node: str, index: int) -> Tuple[str, Optional[int]]:
        """The feature of a result of a function, or else the argument that it comes from."""
        body = self._body(view.nodes[node].attr["f"].func.name)
        if body is None:
            return "", None
        found = _nearest(body.view, body.results[index], (*_PARSERS, _ARGUMENT))
        if found is None:
            return "", None
        if found.node in body.arguments:
            return "", body.arguments[found.node]
        return _of_parser(body.view, found), None

    def _body(self, name: str) -> Optional[_Body]:
        if name not in self._bodies:
            self._bodies[name] = self._built(name) if name in self._view.functions else None
        return self._bodies[name]

    def _built(self, name: str) -> Optional[_Body]:
        function = self._view.functions[name]
        arguments = ["argument_{}".format(i) for i in range(len(function.signature.input_arg))]
        body = function_body(function, arguments, "body")
        if body is None:
            return None
        graph_def = tf.GraphDef()
        for argument in arguments:
            graph_def.node.add(name=argument, op=_ARGUMENT)
        graph_def.node.extend(body.nodes)
        try:
            view = GraphView(graph_def)
        except tf.errors.InvalidArgumentError:
            return None
        numbers = {argument: number for number, argument in enumerate(arguments)}
        return _Body(view, [TensorRef.parse(result) for result in body.results], numbers)


class _Body:
    """A function as a graph, whose arguments are placeholders."""

    def __init__(self, view: GraphView, results: List[TensorRef], arguments: Dict[str, int]):
        self.view = view
        self.results = results
        self.arguments = arguments


def _nearest(view: GraphView, start: TensorRef, ops: Sequence[str]) -> Optional[TensorRef]:
    """The nearest tensor, upstream of this one or itself, that is of one of these ops."""
    queue: Deque[TensorRef] = deque([start])
    seen = {start}
    for _ in range(_MOST_NODES):
        if not queue:
            return None
        tensor = queue.popleft()
        if view.op(tensor.node) in ops:
            return tensor
        for source in view.inputs(tensor.node):
            if source not in seen:
                seen.add(source)
                queue.append(source)
    return None


def _of_parser(view: GraphView, tensor: TensorRef) -> str:
    """The feature of an output of a parser; "" for any other op."""
    op = view.op(tensor.node)
    if op == "DecodeCSV":
        return "column {}".format(tensor.index)
    keys = _KEYS_OF.get(op)
    if keys is None:
        return ""
    sparse, dense, ragged = keys(view, tensor.node)
    return _quoted([*sparse * 3, *dense, *ragged * 2][tensor.index])


_Keys = Tuple[List[str], List[str], List[str]]


def _keys_of_lists(view: GraphView, node: str) -> _Keys:
    """Of ParseExample, each of whose keys is an input."""
    sparse, dense = (_number(view, node, name) for name in ("Nsparse", "Ndense"))
    keys = [_strings(view, source)[0] for source in view.inputs(node)[2 : 2 + sparse + dense]]
    return keys[:sparse], keys[sparse:], []


def _keys_of_vectors(view: GraphView, node: str) -> _Keys:
    """Of ParseExampleV2, which has an input for all keys of a kind."""
    sparse, dense, ragged = (_strings(view, source) for source in view.inputs(node)[2:5])
    return sparse, dense, ragged


def _keys_of_attributes(view: GraphView, node: str) -> _Keys:
    """Of ParseSingleExample, whose keys are attributes."""
    return _list_of(view, node, "sparse_keys"), _list_of(view, node, "dense_keys"), []


_KEYS = ("sparse_keys", "dense_keys", "ragged_keys")
_KEYS_OF: Dict[str, Callable[[GraphView, str], _Keys]] = {
    "ParseExample": _keys_of_lists,
    "ParseExampleV2": _keys_of_vectors,
    "ParseSingleExample": _keys_of_attributes,
}


def _number(view: GraphView, node: str, name: str) -> int:
    return int(view.nodes[node].attr[name].i)


def _list_of(view: GraphView, node: str, name: str) -> List[str]:
    given = view.attribute(node, name)
    return [] if given is None else [_text(one) for one in given.list.s]


def _strings(view: GraphView, tensor: TensorRef) -> List[str]:
    value = view.constant(tensor)
    return [] if value is None else [_text(one) for one in np.ravel(value)]


def _text(value: Any) -> str:
    return bytes(value).decode("utf-8", "replace")


def _quoted(name: str) -> str:
    return '"{}"'.format(name)
