"""Tables whose rows come and go, in checkpoints of all ranks: a share of each.

    users/part_0-keys, users/part_0-values, ...    of rank 0
    users/part_1-keys, users/part_1-values, ...    of rank 1

What a rank has of such a table changes whenever it looks something up, and so its rows are saved as
they are at one moment, by the rank that has them, and not read by another one block by block. The
rank whose saver runs joins the shares as parts of one checkpoint.
"""

from __future__ import annotations

import abc
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.graph_lifetime import kept_with


class RankShare(NamedTuple):
    """What a saver saves or restores of a table and of its slots.

    Attributes:
      table: Name of the op of the table's variable.
      name: Of the whole table in the checkpoint; empty if only slots are saved or restored.
      slots: For each slot, name of the op of its variable, and its name in the checkpoint, with
        `ops.dynamic_checkpoint.TABLE` in place of the table's; in the order of these names.
    """

    table: str
    name: str
    slots: Tuple[Tuple[str, str], ...]

    @property
    def variables(self) -> Set[str]:
        """Names of the ops of all variables."""
        return {variable for variable, _ in self.slots} | ({self.table} if self.name else set())

    def plain(self) -> List[Any]:
        """As JSON."""
        return [self.table, self.name, [list(slot) for slot in self.slots]]


def share_of_plain(plain: List[Any]) -> RankShare:
    """The opposite of `RankShare.plain`."""
    table, name, slots = plain
    return RankShare(table, name, tuple((variable, pattern) for variable, pattern in slots))


class TableShares(abc.ABC):
    """A table of which every rank has rows, in one graph.

    Attributes:
      name: Name of the op of its variable, the same on all ranks.
    """

    name: str

    @property
    @abc.abstractmethod
    def usual_share(self) -> RankShare:
        """What a saver of all variables saves, under their own names."""

    @abc.abstractmethod
    def is_initialized(self, share: RankShare) -> tf.Tensor:
        """Whether the table and the slots of a share are: a bool scalar."""

    @abc.abstractmethod
    def save(self, prefix: tf.Tensor, share: RankShare) -> Any:
        """The op that writes what this rank has, as a checkpoint of its own."""

    @abc.abstractmethod
    def restore(self, prefix: tf.Tensor, share: RankShare) -> Any:
        """The op that reads what this rank has from a checkpoint of any number of ranks."""


def note_shares(graph: Any, table: TableShares) -> None:
    """Makes a table known."""
    table_shares(graph)[table.name] = table


def table_shares(graph: Any) -> Dict[str, TableShares]:
    """The tables of a graph, by name."""
    known: Dict[str, TableShares] = kept_with(graph, "shared tables", dict)
    return known


def mark(operation: Any, share: RankShare) -> None:
    """Notes of an op of a saver that it saves or restores a share."""
    _marked(operation.graph)[operation.name] = share


def share_of(operation: Any) -> Optional[RankShare]:
    """The share that an op saves or restores; None if it does neither."""
    return _marked(operation.graph).get(operation.name)


def _marked(graph: Any) -> Dict[str, RankShare]:
    known: Dict[str, RankShare] = kept_with(graph, "ops that save or restore shares", dict)
    return known


def share_prefix(folder: str, rank: int, number: int) -> str:
    """Where a rank writes the share with this number among those that are asked for."""
    return "{}/share-{:05d}-{:05d}".format(folder, rank, number)
