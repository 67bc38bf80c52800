"""SavedModels of sharded tables, which TensorFlow alone serves."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from graph_opt.compat import tf
from graph_opt.sharding import exporting
from graph_opt.sharding.transport_in_use import transport_in_use


def export_saved_model(
    session: Any,
    export_dir: str,
    inputs: Mapping[str, tf.Tensor],
    outputs: Mapping[str, tf.Tensor],
    tags: Sequence[str] = (tf.saved_model.SERVING,),
) -> None:
    """`tf.saved_model.simple_save` for graphs with sharded tables. All ranks must call it.

    The SavedModel has whole tables and no messages between ranks: a process without graph_opt and
    Horovod serves it. Each rank writes its own rows.

    Args:
      session: Holds the variables; its graph may be finalized.
      export_dir: A folder that does not exist yet, on a file system that all ranks see.
      inputs: The tensors that are fed, by the names that clients use.
      outputs: The tensors that are returned.
      tags: Of the SavedModel.

    Raises:
      RuntimeError: Another rank failed; names it and its error.
      FileExistsError: The folder exists.
      ValueError: The outputs need a collective of the script's own.

    Example:
      >>> sok.export_saved_model(session, "export/1", {"ids": ids}, {"scores": scores})
    """
    exporting.export_saved_model(session, export_dir, inputs, outputs, transport_in_use(), tags)
