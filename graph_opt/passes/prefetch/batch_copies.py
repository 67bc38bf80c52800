"""Copies of nodes that exist in prefetch alone, computed from the batch that main has taken.

    prefetch   source ──> ids ──> unique ids ──> rows ──> buffer
    main       take ────> copy of ids ──> copy of unique ids ──> what a script fetches

All that a source returns is taken with the batch, so whatever depends on nothing else has the same
value in main. Rows do not: tables may have been written since they were looked up.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import is_stateful
from graph_opt.compat.stateful_ops import READS, VARIABLES
from graph_opt.graph.control_flow_ops import ENTERS
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.stock_copy import CannotCopy

_SCOPE = "graph_opt_of_batch"
_CLASS = "_class"
_STATE = "'{}' ({}) reads or changes state, which may have another value by now"
_LOOP = "'{}' is in a loop"
# Of what they read, the shape alone decides what they return.
_SHAPES = frozenset(["Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike"])
_PASS_ON = frozenset(["Identity", "EnsureShape", "ReadVariableOp"])


class Regions(NamedTuple):
    """What the user's tensors stand for in main.

    Attributes:
      taken: Maps tensors to what a take passes on to main as their values.
      substitutes: Maps tensors to those that replace them.
      prefetched: Nodes whose values exist only in prefetch.
    """

    taken: Mapping[str, str]
    substitutes: Mapping[str, str]
    prefetched: AbstractSet[str]


class NotOfBatch(Exception):
    """Something other than the batch decides the value of a tensor.

    Attributes:
      tensor: As `node:index`.
    """

    def __init__(self, tensor: str, reason: str) -> None:
        super().__init__(reason)
        self.tensor = tensor


def batch_copies(view: GraphView, wanted: Sequence[str], regions: Regions) -> Rewrite:
    """Copies what tensors need of prefetch; the copy of a node is called `copy_name(node)`.

    Args:
      view: The graph with all rewrites, and with the copies that there are already.
      wanted: Tensors, as `node:index`.
      regions: What tensors stand for in main.

    Raises:
      NotOfBatch: A tensor depends on state, or on what does not reach main.
    """
    copier = _Copier(view, regions)
    for tensor in wanted:
        try:
            copier.copy_all(TensorRef.parse(tensor).node)
        except CannotCopy as error:
            raise NotOfBatch(tensor, str(error)) from None
    return Rewrite(nodes=tuple(copier.copies.values()))


def copy_name(node: str) -> str:
    """The name of a node's copy for main's batch."""
    return "{}/{}".format(_SCOPE, node)


class _Copier:
    def __init__(self, view: GraphView, regions: Regions) -> None:
        self._view = view
        self._regions = regions
        self._known: Dict[str, bool] = {}
        self.copies: Dict[str, Any] = {}

    def copy_all(self, wanted: str) -> None:
        """Copies a node, after all that it reads."""
        copied = {name for name in self._behind(wanted) if self._needs_copy(name)}
        needed = self._read_by(wanted, copied)
        for name, for_its_value in needed.items():
            self._check(name, for_its_value)
        for name in needed:
            if copy_name(name) not in self._view.nodes and name not in self.copies:
                self.copies[name] = self._copied(name, copied)

    def _behind(self, wanted: str) -> List[str]:
        """The nodes behind one as far as main has nothing in their place, sources first."""
        order: Dict[str, None] = {}
        waiting: List[Tuple[str, bool]] = [(wanted, False)]
        seen = set()
        while waiting:
            name, is_done = waiting.pop()
            if is_done:
                order[name] = None
            elif name not in seen:
                seen.add(name)
                waiting.append((name, True))
                waiting.extend((each, False) for each in self._before(name))
        return list(order)

    def _before(self, name: str) -> List[str]:
        tensors = self._view.inputs(name)
        read = [tensor.node for tensor in tensors if self._in_main(str(tensor)) is None]
        return read + list(self._view.controls(name))

    def _read_by(self, wanted: str, copied: AbstractSet[str]) -> Dict[str, bool]:
        """Those of these nodes that a node needs, and whether it needs more than their shapes."""
        found: Dict[str, bool] = {}
        waiting = [(wanted, True)]
        while waiting:
            name, for_its_value = waiting.pop()
            known = found.get(name)
            if name not in copied or known or known is for_its_value:
                continue
            found[name] = for_its_value
            tensors = self._view.inputs(name)
            for_value = for_its_value and self._view.op(name) not in _SHAPES
            waiting += [(one.node, for_value) for one in tensors if self._in_main(str(one)) is None]
        return found

    def _needs_copy(self, name: str) -> bool:
        """Whether a node is in prefetch, or reads what is or what main has something else for."""
        found = self._known.get(name)
        if found is None:
            found = (
                name in self._regions.prefetched
                or any(self._in_main(str(tensor)) is not None for tensor in self._view.inputs(name))
                or any(self._known.get(each, False) for each in self._view.predecessors(name))
            )
            self._known[name] = found
        return found

    def _check(self, name: str, for_its_value: bool) -> None:
        op = self._view.op(name)
        if op in ENTERS:
            raise CannotCopy(_LOOP.format(name))
        # What reads a table in main, such as a lookup that a script has added since, may do so now.
        reads = name in self._regions.prefetched and (
            op in READS or any(self._is_variable(one) for one in self._view.inputs(name))
        )
        if (reads and for_its_value) or (is_stateful(op) and op not in READS):
            raise CannotCopy(_STATE.format(name, op))

    def _is_variable(self, tensor: TensorRef) -> bool:
        name = tensor.node
        while self._view.op(name) in _PASS_ON:
            name = self._view.inputs(name)[0].node
        return self._view.op(name) in VARIABLES

    def _in_main(self, tensor: str) -> Optional[str]:
        """What main has for a tensor; None for the tensor itself, or nothing."""
        replaced = self._regions.substitutes.get(tensor, tensor)
        taken = self._regions.taken.get(replaced)
        return taken if taken is not None else (replaced if replaced != tensor else None)

    def _copied(self, name: str, copied: AbstractSet[str]) -> Any:
        copy = tf.NodeDef()
        copy.CopyFrom(self._view.nodes[name])
        copy.name = copy_name(name)
        copy.attr.pop(_CLASS, None)
        # Copies have no state, so they need not wait for what exists in prefetch alone.
        waits = [each for each in self._view.controls(name) if each not in copied]
        del copy.input[:]
        copy.input.extend(self._input(tensor, copied) for tensor in self._view.inputs(name))
        copy.input.extend("^" + each for each in waits)
        return copy

    def _input(self, tensor: TensorRef, copied: AbstractSet[str]) -> str:
        found = self._in_main(str(tensor))
        if found is not None:
            return TensorRef.parse(found).input_name
        name = copy_name(tensor.node) if tensor.node in copied else tensor.node
        return TensorRef(name, tensor.index).input_name
