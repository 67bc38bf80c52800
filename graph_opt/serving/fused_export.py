"""Writes a SavedModel whose lookups are fused, beside the same graph in TensorFlow's own ops."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.saved_models import SavedModel, parse_saved_model
from graph_opt.config.messages import ConfigProto, SessionConfig
from graph_opt.config.options import session_options
from graph_opt.ops.library import serving_library
from graph_opt.reporting.report import Report
from graph_opt.reporting.summary import summary
from graph_opt.reporting.text import refusals_text
from graph_opt.saved_models.files import (
    EXTRA,
    copy_all_but_graphs,
    copy_file,
    folder_of,
    graphs_file,
    remove_graphs,
    replace_graphs,
)
from graph_opt.saved_models.graphs import FUSED, graph_tags, graph_with
from graph_opt.serving.fused_meta_graph import fused_meta_graph
from graph_opt.serving.mapped_export import mapped_from_files
from graph_opt.serving.source_models import write_saved_model
from graph_opt.serving.written_whole import refuse_existing, written_whole
from graph_opt.table_files.low_precision_names import LOW_PRECISION

COPYING, FUSING, WRITING = "copying the model", "fusing lookups", "writing"
_GROUP = "group_embedding_options"


class FusedExport(NamedTuple):
    """What was written.

    Attributes:
      report: What was fused, and why other lookups were not.
      stock_tags: Tags of the graph in TensorFlow's own ops, as the model had them.
      fused_tags: Tags of the graph with fused lookups.
      stock_nodes: Nodes of the former, those of functions that it calls included.
      fused_nodes: Nodes of the latter.
      library: The file of the ops, which a process loads before the latter.
      once: What is computed once for repeated inputs, and what is not although it reads nothing
        else of a request, a line each.
      mapped: What is read from files, and which variables are not, a line each.
    """

    report: Report
    stock_tags: Sequence[str]
    fused_tags: Sequence[str]
    stock_nodes: int
    fused_nodes: int
    library: str
    once: Sequence[str] = ()
    mapped: Sequence[str] = ()

    def __str__(self) -> str:
        return (
            "{}; {:,} nodes in place of {:,}\n{}"
            "tags {}: in TensorFlow's own ops, as before\n"
            "tags {}: fused; load {} first"
        ).format(
            summary(self.report),
            self.fused_nodes,
            self.stock_nodes,
            "".join(line + "\n" for line in (*self.once, *self.report.changes, *self.mapped)),
            ",".join(self.stock_tags),
            ",".join(self.fused_tags),
            self.library,
        )


def export_fused(
    model: str,
    output: str,
    tags: Optional[Sequence[str]] = None,
    inputs: Optional[Mapping[str, str]] = None,
    outputs: Optional[Mapping[str, str]] = None,
    config: Optional[SessionConfig] = None,
    repeated: Sequence[str] = (),
    map_tables: bool = False,
    table_dtype: str = "",
    watch: Callable[[str], None] = lambda _: None,
) -> FusedExport:
    """Writes a SavedModel for servers, with fused lookups.

    It has the model's own graph under its own tags, so that a server without graph_opt's ops serves
    as before, and the graph with fused lookups under the same tags and `graph_opt`. Both have the
    same signatures and share the variables. The library with the ops, which needs TensorFlow and
    nothing else, is in the SavedModel's `assets.extra`.

    Args:
      model: Folder of a SavedModel; or a checkpoint's folder or prefix, or a frozen graph.
      output: Folder to write, which must not exist.
      tags: For a SavedModel with several graphs, those of the one to serve.
      inputs: For a checkpoint or a frozen graph, the tensors that requests feed, by the names that
        the signature gives them: `{"user": "user:0"}`. What an iterator gives may be one.
      outputs: In the same way, what they fetch.
      config: A `graph_opt.ConfigProto` whose `group_embedding_options` say what is fused; by
        default, all lookups.
      repeated: Inputs of signatures, or features of their examples, that are the same in all rows
        of a request: what depends on them alone is computed once. Requests are checked.
      map_tables: Whether the fused graph reads its variables from files, which processes on a
        machine share in memory, and which `update_served` replaces while requests run.
      table_dtype: `float16`, `bfloat16` or `int8`, which the fused graph has tables in that fused
        lookups alone read: int8 with a scale for each row. They are read from files, with or
        without `map_tables`. Empty: tables stay as they are.
      watch: Told which part of the work begins: `COPYING`, `FUSING` or `WRITING`.

    Returns:
      What was written.

    Raises:
      tf.errors.AlreadyExistsError: There is something at `output`.
      tf.errors.FailedPreconditionError: No lookup could be fused, or no table mapped or stored in
        that dtype: the message says why. Nothing is written.
      tf.errors.InvalidArgumentError: The model, a tag, a tensor's name or the dtype is wrong, or a
        table has a number that is not finite in that dtype.
      tf.errors.NotFoundError: There is no such model.
      tf.errors.PermissionDeniedError: Nothing can be written there.
      tf.errors.ResourceExhaustedError: The disk is full. Nothing is left there.
      ImportError: The library is missing.

    Example:
      >>> print(graph_opt.export_fused("export/1", "served/1"))
      26 of 26 lookups fused into 1 op, 1,204 nodes in place of 2,310
      Examples of 26 features parsed by an op of ours
      tags serve: in TensorFlow's own ops, as before
      tags serve,graph_opt: fused; load served/1/assets.extra/libgraph_opt_serving.tf2.15.so first
    """
    model, output = folder_of(model), os.path.normpath(output)
    refuse_existing(output)
    _require_dtype(table_dtype)
    library = serving_library()
    mapped: Sequence[str] = ()
    with written_whole(output) as folder:
        watch(COPYING)
        saved_model = _copied(model, folder, inputs, outputs)
        watch(FUSING)
        stock = graph_with(saved_model, tags, model)
        _refuse_export(saved_model, stock, model)
        fused = fused_meta_graph(stock, session_options(_fusing(config)), repeated)
        if fused.meta_graph is stock:
            raise tf.errors.FailedPreconditionError(None, None, _nothing_fused(model, fused.report))
        watch(WRITING)
        if map_tables or table_dtype:
            stored = model if graphs_file(model) else folder
            mapped = mapped_from_files(
                fused.meta_graph, folder, stored, table_dtype, only_these=not map_tables
            )
        saved_model.meta_graphs.add().CopyFrom(fused.meta_graph)
        copy_file(library, os.path.join(folder, EXTRA, os.path.basename(library)))
        replace_graphs(folder, saved_model.SerializeToString(deterministic=True))
    return FusedExport(
        fused.report,
        tuple(stock.meta_info_def.tags),
        tuple(fused.meta_graph.meta_info_def.tags),
        fused.stock_nodes,
        len(fused.meta_graph.graph_def.node),
        os.path.join(output, EXTRA, os.path.basename(library)),
        fused.once,
        mapped,
    )


def _require_dtype(table_dtype: str) -> None:
    if table_dtype and table_dtype not in LOW_PRECISION:
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "table_dtype is {!r}; need one of {}".format(table_dtype, ", ".join(LOW_PRECISION)),
        )


def _refuse_export(saved_model: SavedModel, stock: Any, model: str) -> None:
    """Makes sure that no server would have to choose between two fused graphs."""
    tags = sorted({*graph_tags(stock), FUSED})
    if FUSED not in graph_tags(stock) and tags in map(graph_tags, saved_model.meta_graphs):
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "{}: has a graph tagged {} already: give the model that it was made from".format(
                model, ",".join(tags)
            ),
        )


def ineffective_options(config: ConfigProto) -> List[str]:
    """Paths of the options of a config that `export_fused` does not heed.

    Example:
      >>> ineffective_options(config)
      ['graph_options.optimizer_options.do_async_embedding']
    """
    left = ConfigProto()
    left.CopyFrom(config)
    optimizer = left.graph_options.optimizer_options
    optimizer.ClearField("group_embedding_options")
    optimizer.ClearField("do_group_embedding")
    return sorted(_paths(left))


def _paths(message: Any, prefix: str = "") -> Iterator[str]:
    for field, value in message.ListFields():
        path = prefix + field.name
        if hasattr(value, "ListFields"):
            yield from _paths(value, path + ".")
        else:
            yield path


def _fusing(config: Optional[Any]) -> Any:
    """The config, with fusing and nothing else that changes graphs."""
    fusing = ConfigProto()
    optimizer = fusing.graph_options.optimizer_options
    if config is not None and hasattr(config.graph_options.optimizer_options, _GROUP):
        given = getattr(config.graph_options.optimizer_options, _GROUP)
        getattr(optimizer, _GROUP).CopyFrom(given)
    optimizer.do_group_embedding = True
    return fusing


def _copied(
    model: str,
    folder: str,
    inputs: Optional[Mapping[str, str]],
    outputs: Optional[Mapping[str, str]],
) -> SavedModel:
    """Puts all of a model but its graphs into an empty folder; returns these as a SavedModel.

    Without the file of its graphs, a folder is no SavedModel, whatever ends the export.
    """
    if graphs_file(model) is None:
        if not outputs:
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                "{}: is no SavedModel, so say what requests feed and fetch: --feed and --fetch "
                "NAME=TENSOR, or inputs and outputs in a script".format(model),
            )
        os.rmdir(folder)  # TensorFlow makes it.
        write_saved_model(model, folder, inputs or {}, outputs)
        saved_model = parse_saved_model(folder)
        remove_graphs(folder)
        return saved_model
    if inputs or outputs:
        raise tf.errors.InvalidArgumentError(
            None, None, "{}: a SavedModel has signatures; give no inputs and outputs".format(model)
        )
    _refuse_inside(folder, model)
    copy_all_but_graphs(model, folder)
    return parse_saved_model(model)


def _refuse_inside(folder: str, model: str) -> None:
    """Makes sure that a folder is not copied into itself."""
    inside, outside = (os.path.realpath(path) + os.sep for path in (folder, model))
    if inside.startswith(outside):
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "{}: the export cannot be a part of it; give a folder elsewhere".format(model),
        )


def _nothing_fused(model: str, report: Report) -> str:
    reasons = [refusals_text(report), *report.left_alone, *report.warnings]
    said = "\n".join(text for text in reasons if text)
    return "{}: no lookup can be fused, nothing was written\n{}".format(model, said)
