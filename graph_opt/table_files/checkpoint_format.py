"""TensorFlow's checkpoints: which tables are dynamic, and where a checkpoint is."""

from __future__ import annotations

import os
from typing import List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.table_files.checkpoint_rows import CheckpointRows
from graph_opt.table_files.checkpoint_source import CheckpointSource
from graph_opt.table_files.checkpoint_target import CheckpointTarget
from graph_opt.table_files.dynamic_source import DynamicSource
from graph_opt.table_files.dynamic_target import DynamicTarget
from graph_opt.table_files.dynamic_tensors import parts_of, tables_in
from graph_opt.table_files.format import Format, Request
from graph_opt.table_files.tables import Array, Source, Table, Target, Waiting


def prefix_of(path: str) -> str:
    """The prefix of a checkpoint, given itself, one of its files or its folder.

    Raises:
      ValueError: There is none.
    """
    for prefix in (path, os.path.splitext(path)[0]):
        if os.path.exists(prefix + ".index"):
            return prefix
    if os.path.isdir(path):
        latest: Optional[str] = tf.train.latest_checkpoint(path)
        if latest is not None:
            return latest
    raise ValueError(
        "{}: there is no checkpoint, no files of sok.dump (*-key) and no .npy file".format(path)
    )


def _source(request: Request) -> Source:
    """Tables of checkpoints: the dynamic ones, the others, or both."""
    prefixes = [prefix_of(one) for one in request.sources]
    tensors = {name for prefix in prefixes for name in CheckpointRows(prefix).tensors}
    dynamic = [one for one in request.chosen if parts_of(one.name, tensors)]
    others = [one for one in request.chosen if one not in dynamic]
    sources: List[Source] = []
    if dynamic or (not others and tables_in(tensors)):
        by_key = not request.makes_dynamic
        sources.append(DynamicSource(prefixes, dynamic, by_key, request.weights_only))
    if others or not sources:
        layout, weights_only = request.source_layout, request.weights_only
        sources.append(CheckpointSource(prefixes, others, layout, weights_only))
    return sources[0] if len(sources) == 1 else _Joined(sources)


def _target(request: Request, source: Source) -> Target:
    path = request.target
    if request.layout.parts is None:
        raise ValueError("layout {} needs the number of parts".format(request.layout))
    if os.path.isdir(path) or not os.path.basename(path):
        raise ValueError(
            "{} is a folder; a checkpoint needs a name, such as {}".format(
                path, os.path.join(path, "model.ckpt")
            )
        )
    made = DynamicTarget if request.makes_dynamic else CheckpointTarget
    if request.others is not None:
        return made(path, request.layout, prefix_of(request.others), ())
    if source.used_names and len(request.sources) == 1:
        return made(path, request.layout, prefix_of(request.sources[0]), source.used_names)
    return made(path, request.layout, None, ())


class _Joined(Source):
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


FORMAT = Format(
    lambda path: bool(prefix_of(path)), _source, _target, in_parts=True, ending=".index"
)
