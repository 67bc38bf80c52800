"""The variables that were sharded, for what follows the passes."""

from __future__ import annotations

import dataclasses
from typing import Mapping, Tuple

from graph_opt.sharding.placement import RowsRule


@dataclasses.dataclass(frozen=True)
class ShardedVariable:
    """A variable of the user's graph, of which each rank has some rows.

    Attributes:
      name: Name of its op.
      table: Name of the variable whose slot it is; its own name if it is a table.
      shape: Shape of the whole variable, which the user's objects still have.
      dtype: DataType number of its elements.
      is_resource: Whether it is a resource variable.
      rows: How rows are sharded.
      rank: Number of this rank.
      scope: Name scope of the nodes that were added for it.
    """

    name: str
    table: str
    shape: Tuple[int, int]
    dtype: int
    is_resource: bool
    rows: RowsRule
    rank: int
    scope: str

    @property
    def local_rows(self) -> int:
        """Rows of this rank's part."""
        return self.rows.num_local_rows(self.rank)

    @property
    def keys(self) -> str:
        """The node with the rows of the whole variable that this rank has, int64 [rows]."""
        return self.scope + "/keys"

    @property
    def whole(self) -> str:
        """The node that fails, since its value would be the whole variable."""
        return self.scope + "/rows_are_sharded_across_ranks"

    def local_shape(self) -> Tuple[int, int]:
        """Shape of this rank's part."""
        return self.local_rows, self.shape[1]


@dataclasses.dataclass(frozen=True)
class ShardedVariables:
    """All of a graph.

    Attributes:
      variables: The variables.
      fed: Maps tensors that are assigned to a variable to its name: feeds of them are whole values.
      unread: Maps first values that are made without the tensor that the user's graph has for them
        to the variable's name.
      values: Maps tensors with the value of a variable, of which there is only a part, to its name.
      assigned: Maps those that are what was just assigned to the whole value of that.
    """

    variables: Tuple[ShardedVariable, ...] = ()
    fed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unread: Mapping[str, str] = dataclasses.field(default_factory=dict)
    values: Mapping[str, str] = dataclasses.field(default_factory=dict)
    assigned: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def named(self, name: str) -> ShardedVariable:
        """The variable of this name."""
        return next(one for one in self.variables if one.name == name)
