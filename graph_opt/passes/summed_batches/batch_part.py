"""What is computed anew for each batch: all between a source and the gradients.

Loops belong to it as a whole, with their arrays and stacks. What changes state does not.
"""

from __future__ import annotations

import re
from typing import AbstractSet, Dict, FrozenSet, Iterable, NamedTuple, Set, Tuple

from graph_opt.compat.op_definitions import is_stateful
from graph_opt.compat.stateful_ops import (
    FUNCTION_CALLS,
    PLACEHOLDERS,
    RANDOM,
    functions_only_read,
    may_draw,
)
from graph_opt.graph.control_flow_ops import ENTERS
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.passes.control_flow import frame_of, loops_of
from graph_opt.passes.io_stages import BATCH_SOURCES, BUFFER_TAKE

# Made anew in each step, so each batch needs its own.
_OF_ONE_STEP = ("TensorArray", "Stack")
_COLLECTIVE = re.compile(r"^(Horovod|Nccl|Collective)|AllToAll$")


class BatchPart(NamedTuple):
    """The nodes that a step runs once for each of its batches.

    Attributes:
      sources: Those that return a batch.
      nodes: All others, each after its inputs.
      needed: These, and all else that gradients need.
    """

    sources: Tuple[str, ...]
    nodes: Tuple[str, ...]
    needed: FrozenSet[str]


def batch_part(view: GraphView, ends: Iterable[str]) -> BatchPart:
    """Finds what these nodes are computed by.

    Args:
      view: The graph.
      ends: Nodes that return gradients.

    Raises:
      Refusal: no_source_to_pull, step_not_repeatable.
    """
    return _Search(view, tuple(ends)).part()


class _Search:
    def __init__(self, view: GraphView, ends: Tuple[str, ...]) -> None:
        self._view = view
        self._ends = ends
        self._needed = self._before(ends)
        self._frames = loops_of(view)

    def part(self) -> BatchPart:
        view = self._view
        sources = tuple(name for name in self._needed if _is_source(view, name))
        if not sources:
            need = "gradients of batches that an iterator, a queue or an IO stage returns"
            fed = [name for name in self._needed if view.op(name) in PLACEHOLDERS]
            at, saw = (fed[0], "batches that are fed") if fed else (self._ends[0], "none")
            raise Refusal("no_source_to_pull", at=at, need=need, saw=saw)
        begins = {name for name in self._needed if view.op(name) in RANDOM}.union(sources)
        found: Set[str] = set()
        while True:
            found = self._behind(begins)
            more = begins.union(self._of_one_step(found), self._entries(found))
            if more == begins:
                break
            begins = more
        for name in sources:
            if self._frames.get(name):
                need = "batches that are pulled once in a step"
                raise Refusal("no_source_to_pull", at=name, need=need, saw="a loop")
        self._refuse_state(found, frozenset(view.descendants(sources)))
        found.update(self._computed_from_constants(found))
        order = view.topological_order() or ()
        inside = found.difference(sources)
        nodes = tuple(name for name in order if name in inside)
        return BatchPart(sources, nodes, frozenset(self._needed))

    def _before(self, ends: Tuple[str, ...]) -> Dict[str, None]:
        """What is needed for these, up to sources and to what changes state."""
        found, pending = dict.fromkeys(ends), list(ends)
        while pending:
            name = pending.pop()
            if _is_source(self._view, name) or self._changes_state(name):
                continue
            # Back edges of loops count: a loop is copied whole.
            before = [tensor.node for tensor in self._view.inputs(name)]
            for each in (*before, *self._view.controls(name)):
                if each not in found:
                    found[each] = None
                    pending.append(each)
        return found

    def _behind(self, begins: AbstractSet[str]) -> Set[str]:
        view = self._view
        found, pending = set(begins), list(begins)
        while pending:
            for each in view.successors(pending.pop()):
                if each in self._needed and each not in found and not self._changes_state(each):
                    found.add(each)
                    pending.append(each)
        return found

    def _of_one_step(self, found: AbstractSet[str]) -> Set[str]:
        """Arrays and stacks of this step that these nodes read or fill."""
        view = self._view
        read = {tensor.node for name in found for tensor in view.inputs(name)}
        return {name for name in read.difference(found) if view.op(name).startswith(_OF_ONE_STEP)}

    def _entries(self, found: AbstractSet[str]) -> Set[str]:
        """All that enters loops of which some nodes are among these."""
        loops = {frame for name in found for frame in self._frames.get(name, ())}
        return {
            name
            for name in self._view.of_op(*ENTERS)
            if name in self._needed and frame_of(self._view, name) in loops
        }

    def _computed_from_constants(self, found: AbstractSet[str]) -> Set[str]:
        """Shapes and the like that these nodes read.

        The gradient of a lookup is recognised by them, so each batch has its own.
        """
        view = self._view
        constant: Set[str] = set()
        for name in view.topological_order() or ():
            before = view.predecessors(name)
            computes = before and constant.issuperset(before) and not is_stateful(view.op(name))
            if view.op(name) == "Const" or (computes and name not in self._frames):
                constant.add(name)
        added: Set[str] = set()
        pending = list(found)
        while pending:
            for tensor in view.inputs(pending.pop()):
                name = tensor.node
                if name in constant and name not in added and view.op(name) != "Const":
                    added.add(name)
                    pending.append(name)
        return added.difference(found)

    def _refuse_state(self, found: AbstractSet[str], batch: AbstractSet[str]) -> None:
        """Refuses what reads the result of something that cannot run once for each batch."""
        view = self._view
        for name in found:
            for tensor in view.inputs(name):
                other = tensor.node
                if other not in found and other in batch and self._changes_state(other):
                    need = "layers and gradients of ops that may run once for each batch"
                    raise Refusal("step_not_repeatable", at=other, need=need, saw=view.op(other))

    def _changes_state(self, name: str) -> bool:
        view, op = self._view, self._view.op(name)
        if op in FUNCTION_CALLS:
            return not functions_only_read(view.nodes[name], view.functions)
        if _COLLECTIVE.search(op):
            return True
        if op in RANDOM or op.startswith("Ref") or _is_source(view, name):
            return False
        return may_draw(op)


def _is_source(view: GraphView, name: str) -> bool:
    return view.op(name) in BATCH_SOURCES or view.op(name) == BUFFER_TAKE
