"""A graph in which the bodies of functions stand where they are called.

    x ─> StatefulPartitionedCall ─> y        x ─> call/gather ─> call/sum ─> y

In a body that TensorFlow 2 has traced, results wait for all that the function runs, what merely
reads included. In a graph they wait for what acts, such as an assignment or an assertion, so that
what reads can be replaced. Calls that say so stay calls, and so do those inside loops and
conditionals of TensorFlow 1, where a body without inputs would run in any case.

The rules are those of TensorFlow's own executor (core/common_runtime/inline_function_utils.h), by
which a session runs such calls anyway.
"""

from __future__ import annotations

from collections import deque
from typing import AbstractSet, Any, Deque, Dict, FrozenSet, List, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.function_bodies import FunctionBody, free_scope, function_body
from graph_opt.compat.op_definitions import is_stateful
from graph_opt.compat.stateful_ops import (
    HANDLES,
    PLACEHOLDERS,
    READS,
    VARIABLES,
    called_functions,
)
from graph_opt.graph.rewrite import OUTPUT_SHAPES
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.graph.walks import reach

_CALLS = ("StatefulPartitionedCall", "PartitionedCall")
_FRAMES = ("Switch", "RefSwitch", "Enter", "RefEnter")
# Attributes of calls or functions that are not for inlining: compiled as a whole, or exchanged for
# another implementation on another device.
_STAYS = ("_noinline", "_XlaMustCompile", "api_implements", "_implements")
_HARMLESS = VARIABLES | HANDLES | PLACEHOLDERS | READS


def inline_calls(graph_def: Any, named: AbstractSet[str]) -> int:
    """Puts bodies in place of calls, and calls in bodies, and removes functions without calls.

    Args:
      graph_def: A GraphDef, which is changed.
      named: Nodes that something outside of the graph names. A call among them becomes a node of
        the same name that passes its results on.

    Returns:
      How many calls there were.

    Raises:
      tf.errors.InvalidArgumentError: The graph is not valid.
    """
    if not graph_def.library.function:
        return 0
    inlining = _Inlining(graph_def)
    if not inlining.results:
        return 0
    nodes = inlining.without_passed_on(named)
    del graph_def.node[:]
    graph_def.node.extend(nodes)
    _keep_called(graph_def)
    return len(inlining.results)


class _Inlining:
    """The nodes of a graph and of its bodies.

    Attributes:
      results: For each call the tensors that it returns.
    """

    def __init__(self, graph_def: Any) -> None:
        view = GraphView(graph_def)
        self.results: Dict[str, List[str]] = {}
        self._library = {one.signature.name: one for one in graph_def.library.function}
        self._names = set(view.nodes)
        self._framed = view.descendants(view.of_op(*_FRAMES))
        self._nodes: Dict[str, Any] = {}
        self._added: List[str] = []
        self._add_all(graph_def)

    def without_passed_on(self, named: AbstractSet[str]) -> List[Any]:
        """The nodes, which read results where these are computed, and what nothing needs left out.

        A call stays between them if something has to be done before its results are used.
        """
        self._wait_for_what_acts()
        for node in self._nodes.values():
            for slot, text in enumerate(node.input):
                node.input[slot] = self._computed(text)
        graph = tf.GraphDef()
        graph.node.extend(self._nodes.values())
        added = set(self._added)
        own = [name for name in self._nodes if name not in added or name in named]
        kept = GraphView(graph).ancestors(own)
        return [node for name, node in self._nodes.items() if name in kept]

    def _add_all(self, graph_def: Any) -> None:
        waiting: Deque[Tuple[Any, Tuple[str, ...]]] = deque()
        for node in graph_def.node:
            waiting.append((node, ()))
            while waiting:
                waiting.extendleft(reversed(self._add(*waiting.popleft())))

    def _add(self, node: Any, within: Tuple[str, ...]) -> List[Tuple[Any, Tuple[str, ...]]]:
        """Adds a node, or what is returned of a call; returns the nodes of its body."""
        copy = tf.NodeDef()
        copy.CopyFrom(node)
        function = None if node.name in self._framed else self._function(node, within)
        body = None if function is None else self._body(node, function)
        if function is None or body is None:
            self._nodes[node.name] = copy
            return []
        _return(copy, function, body)
        self.results[node.name] = body.results
        self._nodes[node.name] = copy
        self._added += [node.name, *(inner.name for inner in body.nodes)]
        self._names.update(inner.name for inner in body.nodes)
        waits = [text for text in node.input if text.startswith("^")]
        for inner in body.nodes:
            inner.device = inner.device or node.device
            if is_stateful(inner.op) or not any(not text.startswith("^") for text in inner.input):
                inner.input.extend(text for text in waits if text not in inner.input)
        return [(inner, (*within, function.signature.name)) for inner in body.nodes]

    def _function(self, node: Any, within: Tuple[str, ...]) -> Optional[Any]:
        """The function whose body is to stand for a node; None if there is none."""
        name = node.attr["f"].func.name if node.op in _CALLS else node.op
        function = self._library.get(name)
        if function is None or name in within:
            return None
        for attributes in (node.attr, function.attr):
            if any(key in attributes and _is_set(attributes[key]) for key in _STAYS):
                return None
        values = [value for inner in function.node_def for value in inner.attr.values()]
        return None if any(value.placeholder for value in values) else function

    def _body(self, call: Any, function: Any) -> Optional[FunctionBody]:
        given = [text for text in call.input if not text.startswith("^")]
        if len(given) != len(function.signature.input_arg):
            return None
        return function_body(function, given, free_scope(call.name, function, self._names))

    def _wait_for_what_acts(self) -> None:
        """Has nodes of bodies wait for what acts, in place of what comes behind it or reads.

        What acts itself waits as before: it may change what was to be read first.
        """
        graph = tf.GraphDef()
        graph.node.extend(self._nodes.values())
        acting = _acting_before(GraphView(graph))
        for name in self._added:
            node = self._nodes[name]
            if node.op == "NoOp" or _acts(node):
                continue
            data = [text for text in node.input if not text.startswith("^")]
            waits = [text[1:] for text in node.input if text.startswith("^")]
            before = {each for source in waits for each in acting.get(source, ())}
            before.difference_update(*(acting.get(TensorRef.parse(one).node, ()) for one in data))
            node.input[:] = [*data, *("^" + each for each in sorted(before))]

    def _computed(self, text: str) -> str:
        """The tensor that one of a call is, unless it has to wait there."""
        while not text.startswith("^"):
            name, index = TensorRef.parse(text)
            results = self.results.get(name, ())
            if index >= len(results) or any(one[0] == "^" for one in self._nodes[name].input):
                break
            text = results[index]
        return text


def _return(call: Any, function: Any, body: FunctionBody) -> None:
    """Makes a call the place where its results come together, behind all that it ran."""
    waits = [text for text in call.input if text.startswith("^")]
    waits += ["^" + TensorRef.parse(text).node for text in call.input if not text.startswith("^")]
    waits += ["^" + name for name in body.controls]
    shapes = call.attr[OUTPUT_SHAPES] if OUTPUT_SHAPES in call.attr else None
    kept = tf.NodeDef(name=call.name, device=call.device, op="NoOp")
    dtypes = [result.type for result in function.signature.output_arg]
    kept.input.extend([*body.results, *dict.fromkeys(waits)])
    if dtypes:
        kept.op = "IdentityN" if len(dtypes) > 1 else "Identity"
        if len(dtypes) > 1:
            kept.attr["T"].list.type.extend(dtypes)
        else:
            kept.attr["T"].type = dtypes[0]
        if shapes is not None:
            kept.attr[OUTPUT_SHAPES].CopyFrom(shapes)
    call.CopyFrom(kept)


def _acting_before(view: GraphView) -> Dict[str, FrozenSet[str]]:
    """For each node the last ones before it that act, or itself."""
    found: Dict[str, FrozenSet[str]] = {}
    none: FrozenSet[str] = frozenset()
    for name in view.topological_order() or ():
        if _acts(view.nodes[name]):
            found[name] = frozenset([name])
            continue
        before = {found[source] for source in view.predecessors(name)} - {none}
        found[name] = none.union(*before) if len(before) != 1 else before.pop()
    return found


def _acts(node: Any) -> bool:
    """Whether it matters that and when a node runs, beside what it computes."""
    return node.op not in _HARMLESS and is_stateful(node.op)


def _is_set(value: Any) -> bool:
    return bool(value.b or value.s)


def _keep_called(graph_def: Any) -> None:
    """Removes the functions that no node calls any more, itself or by others."""
    library = {one.signature.name: one for one in graph_def.library.function}
    gradients = {one.function_name: one.gradient_func for one in graph_def.library.gradient}

    def called(nodes: Any) -> List[str]:
        names = [*called_functions(nodes), *(node.op for node in nodes)]
        return [name for name in names if name in library]

    def needed(name: str) -> List[str]:
        return [*called(library[name].node_def), *filter(None, [gradients.get(name)])]

    kept = reach(called(graph_def.node), needed)
    remaining = type(graph_def.library)()
    remaining.function.extend(one for name, one in library.items() if name in kept)
    remaining.gradient.extend(
        one for one in graph_def.library.gradient if one.function_name in kept
    )
    graph_def.library.CopyFrom(remaining)
