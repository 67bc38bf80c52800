"""What each kind of table is asked about exact rows: one subclass for each place of tables."""

from __future__ import annotations

import abc
import dataclasses
from typing import Dict, Mapping, Sequence, Tuple

from graph_opt.compat.stateful_ops import BRING_ROWS
from graph_opt.config.options import AsyncEmbeddingOptions
from graph_opt.graph.view import GraphView
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.prefetch.exact.exact_tables import (
    Follower,
    ReadAgain,
    TableWrites,
    refuse_place,
    refuse_writer,
    table_writes,
)
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.match.table import is_dynamic


@dataclasses.dataclass(frozen=True)
class Asked:
    """What is asked for, of all kinds of tables.

    Attributes:
      options: The options of prefetch.
      bounded: How many updates rows may miss, by variable; rows of others are not refreshed.
      scope: Where nodes are added.
    """

    options: AsyncEmbeddingOptions
    bounded: Mapping[str, int]
    scope: str


@dataclasses.dataclass(frozen=True)
class Written:
    """What a kind has made of its lookups.

    Attributes:
      state: The graph.
      replaced: What stands for each output of each lookup.
      changes: What the report says of the lookups; `{}` stands for how many there are.
      followers: Who follows what becomes of the rows of each bounded variable.
      side_targets: For nodes that write tables, the node that a step which runs them must run, too.
      read_again: What a session runs once rows of waiting batches may be lost.
    """

    state: PassState
    replaced: Dict[str, str]
    changes: Tuple[str, ...]
    followers: Dict[str, Follower]
    side_targets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    read_again: Tuple[ReadAgain, ...] = ()


class ExactKind(abc.ABC):
    """The lookups of one kind of table in a graph, whose results main refreshes.

    `take` is called for each lookup, and `write` after that, if any was taken.

    Args:
      view: The graph.
      asked: What is asked for.

    Attributes:
      view: The graph, as it is before any kind has written.
      asked: What is asked for.
    """

    def __init__(self, view: GraphView, asked: Asked) -> None:
        self.view = view
        self.asked = asked

    @abc.abstractmethod
    def take(self, lookup: Lookup) -> None:
        """Takes a fused op of this kind; `lookup` is its first lookup.

        Raises:
          Refusal: Its rows cannot be refreshed.
        """

    @property
    @abc.abstractmethod
    def lookups(self) -> Sequence[str]:
        """The nodes that were taken."""

    @abc.abstractmethod
    def write(self, state: PassState) -> Written:
        """Refreshes their results in main.

        Args:
          state: The graph, which other kinds may have changed for their lookups.
        """

    def require_own(self, table: str) -> None:
        """Refuses a table that others may write although this process has it."""
        if self.asked.options.is_served:
            raise refuse_place(table, "tables of a server")

    def require_in_steps(self, reader: str, at: str) -> None:
        """Refuses what reads rows that an optimizer moves in each step, by amounts known before."""
        if any(self.view.op(source) in BRING_ROWS for source in self.view.controls(reader)):
            raise refuse_writer(at, "an update that moves every row in each step")

    def require_fused_writers(self, variable: str, dynamic: str) -> TableWrites:
        """What writes a table: fused updates and assignments. Refuses one that others write.

        Args:
          variable: The table.
          dynamic: What a dynamic table is called in the refusal.
        """
        if is_dynamic(self.view, variable):
            raise refuse_place(variable, dynamic)
        writes = table_writes(self.view, variable)
        for use in writes.others:
            raise refuse_writer(use.consumer, "op " + self.view.op(use.consumer))
        return writes
