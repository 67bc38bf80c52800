"""Where the ids of a lookup come from: outputs of the input, with the names of their features."""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Sequence, Set

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.report_page.feature_names import FeatureNames
from graph_opt.rules.op_names import VARIABLES

# Where ids enter a graph, or get the name of their feature.
_SOURCES = re.compile(
    r"^(IteratorGetNext(Sync)?|QueueDequeue\w*|TensorBufferTake|Placeholder\w*|ParseExample(V2)?"
    r"|ParseSingleExample|DecodeCSV|E?PyFunc\w*|Stage|Unstage|ReaderRead\w*)$"
)
_EACH_BY_ITSELF = "IdentityN"  # Its outputs are its inputs, each in its place.
_MOST_STEPS = 3000
_MOST_SOURCES = 4


class IdSources:
    """Finds the inputs of lookups.

    Args:
      view: The graph in which the lookups are.
    """

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._features = FeatureNames(view)

    def text(self, output: str) -> str:
        """The tensors of the input that a lookup depends on, the nearest first.

        Args:
          output: The tensor with the result of the lookup.

        Example:
          >>> IdSources(view).text("C3_embedding/C3_embedding_weights:0")
          '"C3" of ParseExample/ParseExampleV2:2,28'
        """
        found: Dict[str, List[int]] = {}
        for tensor in self._found(output):
            found.setdefault(tensor.node, []).append(tensor.index)
        texts = [self._outputs(node, indices) for node, indices in found.items()]
        if len(texts) > _MOST_SOURCES:
            texts[_MOST_SOURCES:] = ["{} more".format(len(texts) - _MOST_SOURCES)]
        return "  ".join(texts)

    def _outputs(self, node: str, indices: Sequence[int]) -> str:
        given = dict.fromkeys(self._features.of(TensorRef(node, index)) for index in indices)
        names = [name for name in given if name]
        if len(names) > _MOST_SOURCES:
            names[_MOST_SOURCES:] = ["{} more".format(len(names) - _MOST_SOURCES)]
        if len(indices) > _MOST_SOURCES:
            where = "{} ({} outputs)".format(node, len(indices))
        else:
            where = "{}:{}".format(node, ",".join(map(str, indices)))
        return "{} of {}".format(", ".join(names), where) if names else where

    def _found(self, output: str) -> Iterator[TensorRef]:
        view, start = self._view, TensorRef.parse(output)
        return sources(view, start) if start.node in view else iter(())


def sources(view: GraphView, start: TensorRef) -> Iterator[TensorRef]:
    """The tensors of the input that a tensor depends on, other than by variables; nearest first."""
    queue: Deque[TensorRef] = deque([start])
    seen: Set[Any] = set()
    for _ in range(_MOST_STEPS):
        if not queue:
            return
        tensor = queue.popleft()
        op = view.op(tensor.node)
        by_output = op == _EACH_BY_ITSELF or _SOURCES.match(op) is not None
        key = tensor if by_output else tensor.node
        if key in seen or op in VARIABLES:
            continue
        seen.add(key)
        if _SOURCES.match(op):
            yield tensor
        elif by_output:
            queue.extend(view.inputs(tensor.node)[tensor.index : tensor.index + 1])
        else:
            queue.extend(view.inputs(tensor.node))
