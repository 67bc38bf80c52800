"""What the kind of its tables determines about a group's ops.

forward    ids ──> write_lookup ──> pooled rows             on the worker
backward   gradients of pooled rows ──> write_update        wherever the tables are
                                    or  write_gradient      IndexedSlices, on the worker
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Dict, Hashable, Optional, Sequence, Tuple, Type, TypeVar

from graph_opt.graph.op_call import Call
from graph_opt.graph.view import GraphView
from graph_opt.passes.fusion.candidates import Candidate, Member
from graph_opt.passes.fusion.group_nodes import Columns, GroupNodes
from graph_opt.passes.fusion.row_gradients import write_rows_of_gradient
from graph_opt.rules.gradients.rows import Slices
from graph_opt.rules.optimizers.sparse_update import SparseUpdate

_Own = TypeVar("_Own", bound="FusedKind")


@dataclasses.dataclass(frozen=True)
class FusedKind(abc.ABC):
    """Where the tables of a group are, seen from their reader, and thus what its ops look like.

    Attributes:
      worker: The device that ids come from and pooled rows go to.
    """

    worker: str

    @classmethod
    @abc.abstractmethod
    def of(cls: Type[_Own], view: GraphView, candidate: Candidate) -> Optional[_Own]:
        """What fuses a lookup with others, or None if its tables are of another kind."""

    @abc.abstractmethod
    def group_key(self, table_dtype: int) -> Hashable:
        """Lookups with equal keys may become one op; so may updates.

        Args:
          table_dtype: DataType number of the lookup's table.
        """

    @property
    def tasks_needing_ops(self) -> Tuple[str, ...]:
        """Tasks, other than the session's own, that must have loaded graph_opt's ops."""
        return ()

    @property
    def takes_own_powers(self) -> bool:
        """Whether one update takes hyperparameters of which each variable has its own value."""
        return False

    def joined_with(self: _Own, others: Sequence[_Own]) -> _Own:
        """What fuses a group whose first lookup has this; all have equal keys."""
        del others
        return self

    @abc.abstractmethod
    def write_lookup(
        self, nodes: GroupNodes, members: Sequence[Member], columns: Optional[Columns]
    ) -> Call:
        """Writes the lookup of a group.

        Args:
          nodes: Collects the nodes.
          members: The lookups, in the order of their results.
          columns: The columns, if all results are one tensor; else None.

        Returns:
          The call that returns the rows, as its output `pooled`.
        """

    @abc.abstractmethod
    def write_catch_up(self, nodes: GroupNodes, members: Sequence[Member], lookup: Call) -> None:
        """Makes a lookup wait until the rows that it reads are current, if any may be behind.

        Args:
          nodes: Collects the nodes, and knows which tables are `deferred`.
          members: The lookups.
          lookup: What `write_lookup` returned.
        """

    @abc.abstractmethod
    def write_update(
        self,
        nodes: GroupNodes,
        members: Sequence[Member],
        updates: Dict[str, SparseUpdate],
        controls: Sequence[str],
        columns: Optional[Columns],
    ) -> Dict[str, str]:
        """Writes the update of the group's tables from the gradients of its pooled rows.

        Args:
          nodes: Collects the nodes.
          members: The lookups, each with its gradient.
          updates: The stock update of each shard, by name of the variable.
          controls: Nodes that the update waits for.
          columns: The columns with their gradient, if all results are one tensor; else None.

        Returns:
          For each shard's variable, the node that updates it.
        """

    def write_gradient(
        self,
        view: GraphView,
        nodes: GroupNodes,
        members: Sequence[Member],
        columns: Optional[Columns],
    ) -> Dict[Slices, Slices]:
        """Writes the gradient of some lookups on the worker, as separate IndexedSlices for each.

        Returns:
          For each lookup's slices, those that replace them.
        """
        parts = [slices for m in members if m.gradient is not None for slices in m.gradient.slices]
        made = write_rows_of_gradient(
            view, nodes, members, self.worker, columns, [slices.indices for slices in parts]
        )
        return dict(zip(parts, made))
