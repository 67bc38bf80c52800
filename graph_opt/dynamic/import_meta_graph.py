"""`tf.train.import_meta_graph` of graphs with dynamic tables, to train them on."""

from __future__ import annotations

from typing import Any, Optional

from graph_opt.compat import tf
from graph_opt.compat.savers import read_meta_graph, stock_import_meta_graph
from graph_opt.export.original_nodes import bring_back_originals
from graph_opt.export.users_graph import export_users_graph
from graph_opt.ops.library import register_ops


def import_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    import_scope: Optional[str] = None,
    **kwargs: Any,
) -> Any:
    """As `tf.train.import_meta_graph`, except that dynamic tables are what they were.

    Graphs leave graph_opt with TensorFlow's ops, which look ids up in dynamic tables, but give no
    rows to new ones. Imported by this function they can be trained, too.

    Args:
      meta_graph_or_file: A MetaGraphDef, or the name of its file.
      clear_devices: Whether to leave out devices.
      import_scope: Name scope of the nodes.
      **kwargs: As for `tf.train.import_meta_graph`.

    Returns:
      A `tf.train.Saver`, or None if the graph has no variables.

    Raises:
      OSError: There is no such file.
      RuntimeError: Execution is eager.

    Example:
      >>> saver = graph_opt.train.import_meta_graph("model/model.ckpt-1000.meta")
      >>> with tf.Session() as session:
      ...     saver.restore(session, "model/model.ckpt-1000")
      ...     session.run("train_op")
    """
    if tf.executing_eagerly():
        return stock_import_meta_graph(meta_graph_or_file, clear_devices, import_scope, **kwargs)
    meta = read_meta_graph(meta_graph_or_file)
    is_ours = bring_back_originals(meta.graph_def)
    if is_ours:
        register_ops()
        del meta.meta_info_def.stripped_op_list.op[:]  # of the graph that was exported
    saver = stock_import_meta_graph(meta, clear_devices, import_scope, **kwargs)
    if is_ours:
        export_users_graph(tf.get_default_graph())
    return saver
