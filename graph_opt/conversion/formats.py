"""The formats by name, and which one a path is of."""

from __future__ import annotations

import os
from typing import List, Mapping, NamedTuple, Optional, Sequence

from graph_opt.conversion.asked_keys import OfAskedKeys
from graph_opt.table_files.layouts import DYNAMIC, Layout
from graph_opt.table_files.slot_names import lacking_slots
from graph_opt.table_files.tables import Array, Choice, Source, Table, Target

CHECKPOINT = "checkpoint"
SOK = "sok"
NPY = "npy"
FORMATS = (CHECKPOINT, SOK, NPY)


class Request(NamedTuple):
    """What to convert.

    Attributes:
      sources: A path, or several checkpoints that have the parts of the tables.
      target: The path to write.
      source_format: One of `FORMATS`; None: what the path is.
      target_format: One of `FORMATS`.
      chosen: The tables; none for all, which a checkpoint does not tell.
      source_layout: How rows lie in a checkpoint that is read.
      layout: How they lie in a checkpoint that is written.
      others: The checkpoint whose other tensors a new one gets; None: the source, if it is one.
      asked: Which keys the rows of tables shall be of (`asked_keys`).
      weights_only: Whether slots are left out, so that a file may lack some.
    """

    sources: Sequence[str]
    target: str
    source_format: Optional[str]
    target_format: str
    chosen: Sequence[Choice]
    source_layout: Layout
    layout: Layout
    others: Optional[str]
    asked: Mapping[str, Array]
    weights_only: bool

    @property
    def makes_dynamic(self) -> bool:
        """Whether dynamic tables are written."""
        return self.target_format == CHECKPOINT and self.layout.rule == DYNAMIC

    @property
    def keeps_keys(self) -> bool:
        """Whether tables of any keys stay what they are."""
        return self.makes_dynamic or self.target_format == SOK


def open_source(request: Request) -> Source:
    """Opens what is to be read.

    Raises:
      ValueError: There is nothing of the format, or no such table.
    """
    source = _source(request)
    for table in source.tables:
        _check_slots(table)
    if not request.asked:
        return source
    for table in source.tables if request.keeps_keys else ():
        if table.has_keys or source.is_dynamic(table):
            raise ValueError(
                "{!r} keeps its keys in this format: --rows and --keys are for formats that number "
                "rows, or for tables without keys".format(table.name)
            )
    return OfAskedKeys(source, request.asked)


def _check_slots(table: Table) -> None:
    """Makes sure that no optimizer has only some of its slots."""
    for optimizer in sorted({column.optimizer for column in table.columns if column.is_slot}):
        slots = [column.slot for column in table.columns if column.optimizer == optimizer]
        lacking = lacking_slots(optimizer, slots)
        if lacking:
            raise ValueError(
                "{!r} has {} of {}, but not {}: --weights-only converts without any".format(
                    table.name, " and ".join(sorted(slots)), optimizer, " and ".join(lacking)
                )
            )


def _source(request: Request) -> Source:
    found = request.source_format or format_of(request.sources[0])
    path = request.sources[0]
    if found == CHECKPOINT:
        return _checkpoint_source([prefix_of(one) for one in request.sources], request)
    if len(request.sources) > 1:
        raise ValueError("{} sources: only checkpoints are in parts".format(len(request.sources)))
    if not os.path.exists(path):
        raise ValueError("there is no {}".format(path))
    if found == SOK:
        from graph_opt.table_files.dump_files import DumpSource

        source: Source = DumpSource(path, request.chosen, request.weights_only)
    else:
        from graph_opt.table_files.npy_files import NpySource

        source = NpySource(path, request.chosen)
    if not source.tables:
        raise ValueError("{} has no tables in format {}".format(path, found))
    return source


def open_target(request: Request, source: Source) -> Target:
    """Prepares what is to be written; writes nothing.

    Raises:
      ValueError: It exists, or is not of the format.
    """
    path = request.target
    exists = os.path.exists(path + ".index" if request.target_format == CHECKPOINT else path)
    if exists:
        raise ValueError("{} exists: remove it, or choose another name".format(path))
    if request.target_format == SOK:
        from graph_opt.table_files.dump_files import DumpTarget

        return DumpTarget(path)
    if request.target_format == NPY:
        from graph_opt.table_files.npy_files import NpyTarget

        _require_rows(source)
        return NpyTarget(path)
    if request.layout.parts is None:
        raise ValueError("layout {} needs the number of parts".format(request.layout))
    if os.path.isdir(path) or not os.path.basename(path):
        raise ValueError(
            "{} is a folder; a checkpoint needs a name, such as {}".format(
                path, os.path.join(path, "model.ckpt")
            )
        )
    from graph_opt.table_files.checkpoint_target import CheckpointTarget
    from graph_opt.table_files.dynamic_target import DynamicTarget

    made = DynamicTarget if request.layout.rule == DYNAMIC else CheckpointTarget
    if made is CheckpointTarget:
        _require_rows(source)
    if request.others is not None:
        return made(path, request.layout, prefix_of(request.others), ())
    if source.used_names and len(request.sources) == 1:
        return made(path, request.layout, prefix_of(request.sources[0]), source.used_names)
    return made(path, request.layout, None, ())


def _require_rows(source: Source) -> None:
    """Makes sure that dynamic tables can become variables."""
    for table in source.tables:
        key = source.unnumbered_key(table)
        if key is not None:
            raise ValueError(
                "{!r} has {} rows, and key {} is none of 0, 1, ..., {}: only --to sok and --layout "
                "dynamic:N keep keys; --rows and --keys say which keys become rows".format(
                    table.name, table.num_rows, key, table.num_rows - 1
                )
            )


def _checkpoint_source(prefixes: Sequence[str], request: Request) -> Source:
    """Tables of checkpoints: the dynamic ones, the others, or both."""
    from graph_opt.table_files.checkpoint_rows import CheckpointRows
    from graph_opt.table_files.checkpoint_source import CheckpointSource
    from graph_opt.table_files.dynamic_source import DynamicSource
    from graph_opt.table_files.dynamic_tensors import parts_of, tables_in
    from graph_opt.table_files.joined_source import JoinedSource

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
    return sources[0] if len(sources) == 1 else JoinedSource(sources)


def format_of(path: str) -> str:
    """The format of what is at a path.

    Raises:
      ValueError: It is of none.
    """
    if os.path.isdir(path):
        names = os.listdir(path)
        if any(name.endswith("-key") for name in names):
            return SOK
        if any(name.endswith(".npy") for name in names):
            return NPY
    elif path.endswith(".npy"):
        return NPY
    prefix_of(path)
    return CHECKPOINT


def prefix_of(path: str) -> str:
    """The prefix of a checkpoint, given itself, one of its files or its folder.

    Raises:
      ValueError: There is none.
    """
    for prefix in (path, os.path.splitext(path)[0]):
        if os.path.exists(prefix + ".index"):
            return prefix
    if os.path.isdir(path):
        from graph_opt.compat import tf

        latest: Optional[str] = tf.train.latest_checkpoint(path)
        if latest is not None:
            return latest
    raise ValueError(
        "{}: there is no checkpoint, no files of sok.dump (*-key) and no .npy file".format(path)
    )
