"""Tables of several sources as one: static and dynamic ones of a checkpoint."""

from __future__ import annotations

from typing import Optional, Sequence

from graph_opt.table_files.tables import Array, Source, Table, Waiting


class JoinedSource(Source):
    """Tables of other sources, each of which has its own.

    Args:
      sources: The sources.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._of = {table.name: source for source in sources for table in source.tables}
        self.tables = [table for source in sources for table in source.tables]
        self.left_out = sorted(set.intersection(*[set(source.left_out) for source in sources]))
        self.used_names = sorted({name for source in sources for name in source.used_names})

    def check(self) -> str:
        """See `Source`."""
        return "; ".join(dict.fromkeys(source.check() for source in self._sources))

    def keys(self, table: Table, first: int, count: int) -> Array:
        """See `Source`."""
        return self._of[table.name].keys(table, first, count)

    def rows(self, table: Table, column: int, first: int, count: int) -> Array:
        """See `Source`."""
        return self._of[table.name].rows(table, column, first, count)

    def is_dynamic(self, table: Table) -> bool:
        """See `Source`."""
        return self._of[table.name].is_dynamic(table)

    def unnumbered_key(self, table: Table) -> Optional[int]:
        """See `Source`."""
        return self._of[table.name].unnumbered_key(table)

    def waiting(self, table: Table) -> Waiting:
        """See `Source`."""
        return self._of[table.name].waiting(table)

    def default_values(self, table: Table, part: int) -> Array:
        """See `Source`."""
        return self._of[table.name].default_values(table, part)

    def default_rows(self, table: Table, keys: Array) -> Array:
        """See `Source`."""
        return self._of[table.name].default_rows(table, keys)
