"""Copies of nodes that exist in prefetch alone, computed from the batch that main has taken.

    prefetch   source ──> ids ──> unique ids ──> rows ──> buffer
    main       take ────> copy of ids ──> copy of unique ids ──> what a script fetches

All that a source returns is taken with the batch, so whatever depends on nothing else has the same
value in main. Rows do not: tables may have been written since they were looked up.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import is_stateful
from graph_opt.compat.stateful_ops import READS, VARIABLES
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.control_flow import ENTERS
from graph_opt.passes.stock_copy import CannotCopy

SCOPE = "graph_opt_of_batch"
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


def batch_copies(
    view: GraphView, wanted: str, regions: Regions, before: Mapping[str, str]
) -> Tuple[Rewrite, Dict[str, str]]:
    """Copies what a tensor needs of prefetch.

    Args:
      view: The graph with all rewrites.
      wanted: A tensor, as `node:index`.
      regions: What tensors stand for in main.
      before: Maps nodes to the copies that there are already.

    Returns:
      What adds the copies; and `before` with them.

    Raises:
      CannotCopy: The tensor depends on state, or on what does not reach main.
    """
    copier = _Copier(view, regions, before)
    copier.copy_all(TensorRef.parse(wanted).node)
    return Rewrite(nodes=tuple(copier.copies)), copier.names


class _Copier:
    def __init__(self, view: GraphView, regions: Regions, before: Mapping[str, str]) -> None:
        self._view = view
        self._regions = regions
        self._known: Dict[str, bool] = {}
        self.names = dict(before)
        self.copies: List[Any] = []

    def copy_all(self, wanted: str) -> None:
        """Copies a node, after all that it reads."""
        copied = {name for name in self._behind(wanted) if self._needs_copy(name)}
        needed = self._read_by(wanted, copied)
        for name, for_its_value in needed.items():
            self._check(name, for_its_value)
        for name in needed:
            if name not in self.names:
                self.names[name] = "{}/{}".format(SCOPE, name)
        for name in needed:
            if "{}/{}".format(SCOPE, name) not in self._view.nodes:
                self.copies.append(self._copied(name))

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
        reads = op in READS or any(self._is_variable(one) for one in self._view.inputs(name))
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

    def _copied(self, name: str) -> Any:
        copy = tf.NodeDef()
        copy.CopyFrom(self._view.nodes[name])
        copy.name = self.names[name]
        copy.attr.pop(_CLASS, None)
        # Copies have no state, so they need not wait for what exists in prefetch alone.
        waits = [each for each in self._view.controls(name) if not self._known.get(each, False)]
        del copy.input[:]
        copy.input.extend(self._input(tensor) for tensor in self._view.inputs(name))
        copy.input.extend("^" + each for each in waits)
        return copy

    def _input(self, tensor: TensorRef) -> str:
        found = self._in_main(str(tensor))
        if found is not None:
            return TensorRef.parse(found).input_name
        return TensorRef(self.names.get(tensor.node, tensor.node), tensor.index).input_name
