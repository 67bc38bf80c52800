"""The tables of a group: which lookups share one, and which of its shards has an id."""

from __future__ import annotations

from typing import Container, List, Sequence, Tuple

from graph_opt.passes.fusion.candidates import Candidate
from graph_opt.rules.lookup import Lookup

RowKey = Tuple[str, Tuple[str, ...]]


def tables_of(
    candidates: Sequence[Candidate], shared_tables: bool
) -> Tuple[List[int], List[Lookup]]:
    """The number of each lookup's table, and for each table a lookup that reads it."""
    if not shared_tables:
        return list(range(len(candidates))), [candidate.lookup for candidate in candidates]
    lookups = {candidate.tables: candidate.lookup for candidate in candidates}
    places = {names: place for place, names in enumerate(lookups)}
    return [places[candidate.tables] for candidate in candidates], list(lookups.values())


def table_name(lookup: Lookup) -> str:
    """A table's name for errors: that of its variable, or what the shards' names share."""
    name = lookup.tables[0].name
    head, _, tail = name.rpartition("/")
    return head if head and tail.startswith("part_") else name


def strategies(
    candidates: Sequence[Candidate], tables: Sequence[Lookup], rows: Container[RowKey]
) -> List[str]:
    """Which shard of each of the group's tables has an id, as ops are told.

    Args:
      candidates: The lookups.
      tables: A lookup of each table.
      rows: Those lookups of dynamic tables whose rows are known: these are numbered as for mod.
    """
    parted = [c for c in candidates if len(c.tables) > 1 and not c.is_dynamic]
    static = parted[0].inputs.partition_strategy if parted else "mod"
    numbered = {c.tables for c in candidates if row_key(c) in rows}
    found = []
    for lookup in tables:
        names = tuple(table.name for table in lookup.tables)
        of_keys = "mod" if names in numbered else by_key(lookup)
        found.append(of_keys if lookup.tables[0].is_dynamic else static)
    return found


def by_key(lookup: Lookup) -> str:
    """Which part of a dynamic table has a key, for ops that take keys."""
    return lookup.partition_strategy or "key"


def row_key(candidate: Candidate) -> RowKey:
    """What tells the rows of one lookup from those of others."""
    return candidate.name, candidate.tables
