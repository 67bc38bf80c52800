"""SavedModels of checkpoints, whose variables are copied and never read as a whole."""

from __future__ import annotations

import os
import shutil
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.compat.unwatched_sessions import unwatched_sessions
from graph_opt.saved_models.files import EXTRA
from graph_opt.sharding.transport_in_use import transport_in_use
from graph_opt.strategy.first_rank import on_first_rank
from graph_opt.table_files.checkpoint_rows import CheckpointRows, tensorflow_errors
from graph_opt.table_files.checkpoint_slices import (
    CheckpointParts,
    file_steps,
    merge_parts,
    read_tensor,
    slices_of,
    whole_tensor,
)
from graph_opt.table_files.row_blocks import block_bytes


def export_saved_model(
    savedmodel_dir: str,
    checkpoint_dir: Optional[str],
    signature_def_fn: Optional[Callable[[], Any]],
    assets_extra: Optional[Mapping[str, str]] = None,
    as_text: bool = False,
    clear_devices: bool = True,
    strip_default_attrs: bool = True,
) -> str:
    """Writes a SavedModel, which TensorFlow alone serves, with the variables of a checkpoint.

    Rank 0 writes it, and the others wait. Variables are copied from the checkpoint a block at a
    time, so that no rank needs room for a whole table.

    Args:
      savedmodel_dir: A folder that does not exist yet.
      checkpoint_dir: The folder whose latest checkpoint is exported, or a checkpoint's prefix.
      signature_def_fn: Builds the model that is to be served, in a new graph, and returns its
        `SignatureDef`, or several by name; or a pair of these and an op that initializes what
        variables and lookup tables do not.
      assets_extra: Files to copy into the SavedModel's `assets.extra`: paths by names there.
      as_text: Whether the SavedModel's graph is written as text.
      clear_devices: Whether devices are left out of it.
      strip_default_attrs: Whether attributes that have their default are left out of it.

    Returns:
      `savedmodel_dir`.

    Raises:
      ValueError: An argument is missing, or the function returns no signature.
      FileExistsError: The folder exists.
      tf.errors.NotFoundError: There is no checkpoint, or it lacks one of the model's variables.
      RuntimeError: Rank 0 failed; names its error.

    Example:
      >>> def signature():
      ...     ids = tf.placeholder(tf.int64, [None], "ids")
      ...     return tf.saved_model.predict_signature_def({"ids": ids}, {"score": model(ids)})
      >>> strategy.export_saved_model("served/1", "model", signature)
    """
    for name, value in (("checkpoint_dir", checkpoint_dir), ("signature_def_fn", signature_def_fn)):
        if value is None:
            raise ValueError("export_saved_model needs {}".format(name))
    assert checkpoint_dir is not None and signature_def_fn is not None

    def write() -> str:
        folder = os.path.normpath(savedmodel_dir)
        if tf.gfile.Exists(folder):
            raise FileExistsError("the folder '{}' exists: export to another one".format(folder))
        unfinished = folder + ".parts"
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            with tf.Graph().as_default():
                signatures, initializer = _signatures(signature_def_fn())
                builder = tf.saved_model.Builder(unfinished)
                _add_model(
                    builder,
                    signatures,
                    initializer,
                    _prefix(checkpoint_dir),
                    clear_devices=clear_devices,
                    strip_default_attrs=strip_default_attrs,
                )
                builder.save(as_text=as_text)
            _copy_assets(assets_extra or {}, os.path.join(unfinished, EXTRA))
            tf.gfile.Rename(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return savedmodel_dir

    return on_first_rank(write, transport_in_use())


def _add_model(
    builder: Any, signatures: Any, initializer: Any, prefix: str, **options: Any
) -> None:
    graph = tf.get_default_graph()
    tables = graph.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
    initializers = [*tables, *([] if initializer is None else [initializer])]
    variables = tf.global_variables()
    with unwatched_sessions() as session_class, session_class() as session:
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.SERVING],
            signature_def_map=signatures,
            assets_collection=graph.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.group(*initializers) if initializers else None,
            saver=_CopyingSaver(variables, prefix) if variables else None,
            **options,
        )


def _copy_assets(assets: Mapping[str, str], folder: str) -> None:
    for name, path in assets.items():
        target = os.path.join(folder, name)
        tf.gfile.MakeDirs(os.path.dirname(target))
        tf.gfile.Copy(path, target)


class _CopyingSaver(tf.train.Saver):
    """A saver that takes the values from a checkpoint instead of the session."""

    def __init__(self, variables: Sequence[Any], prefix: str) -> None:
        super().__init__(list(variables))
        self._names = sorted({one.op.name for one in variables})
        self._prefix = prefix

    def save(self, sess: Any, save_path: str, *arguments: Any, **named: Any) -> str:
        """Copies the values to `save_path`."""
        folder = save_path + ".parts"
        with file_steps() as steps:
            parts = CheckpointParts(folder, steps)
            self._copy(steps, parts)
            merge_parts(parts.prefixes, save_path, steps)
        shutil.rmtree(folder, ignore_errors=True)
        return save_path

    def _copy(self, steps: ArraySteps, parts: CheckpointParts) -> None:
        with tensorflow_errors():
            checkpoint = CheckpointRows(self._prefix)
        names = {_saved_name(name, checkpoint.tensors, self._prefix) for name in self._names}
        for name in sorted(names):
            for block in _blocks(steps, checkpoint, name):
                parts.write(block)


def _blocks(steps: ArraySteps, checkpoint: CheckpointRows, name: str) -> Any:
    tensor = checkpoint.tensors[name]
    num_bytes = tensor.dtype.size * int(np.prod(tensor.shape, dtype=np.int64))
    if num_bytes <= block_bytes():  # among them strings, and numbers without a dimension
        yield whole_tensor(name, read_tensor(steps, checkpoint.prefix, name, tensor.dtype))
        return
    with tensorflow_errors():
        checkpoint.check(name)
        yield from slices_of(checkpoint, name)


def _saved_name(name: str, shapes: Mapping[str, Any], prefix: str) -> str:
    """The name in a checkpoint of a variable, which may be a part of a partitioned one."""
    whole, _, part = name.rpartition("/part_")
    for one in (name, whole if part.isdigit() else ""):
        if one in shapes:
            return one
    raise tf.errors.NotFoundError(
        None,
        None,
        "the checkpoint '{}' has no variable '{}' of the model that signature_def_fn builds".format(
            prefix, name
        ),
    )


def _prefix(checkpoint_dir: str) -> str:
    if tf.gfile.Exists(checkpoint_dir + ".index"):
        return checkpoint_dir
    latest: Optional[str] = tf.train.latest_checkpoint(checkpoint_dir)
    if latest is None:
        raise tf.errors.NotFoundError(
            None, None, "there is no checkpoint in '{}'".format(checkpoint_dir)
        )
    return latest


def _signatures(returned: Any) -> Tuple[Mapping[str, Any], Any]:
    given, initializer = returned if isinstance(returned, tuple) else (returned, None)
    if isinstance(given, Mapping) and given:
        return given, initializer
    if given is None or isinstance(given, Mapping):
        raise ValueError(
            "signature_def_fn returned no signature; return what "
            "tf.saved_model.predict_signature_def makes"
        )
    return {tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: given}, initializer
