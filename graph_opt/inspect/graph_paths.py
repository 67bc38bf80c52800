"""Finds the file with the graph, given a folder or prefix as TensorFlow uses them."""

from __future__ import annotations

import os
import re

from graph_opt.compat import tf
from graph_opt.saved_models.files import graphs_file

_CHECKPOINT_PART = re.compile(r"(.*)\.(index|data-\d{5}-of-\d{5})$", re.DOTALL)


def graph_path(path: str) -> str:
    """Finds the file that holds the graph of a SavedModel or a checkpoint.

    Args:
      path: A graph file; a SavedModel's folder; a folder of checkpoints, which means the latest; a
        checkpoint's prefix (`model.ckpt-100`) or another of its files.

    Returns:
      A path that can be opened; `path` itself if it is none of these.

    Raises:
      tf.errors.NotFoundError: There is no graph in the folder, or no .meta file for the checkpoint.

    Example:
      >>> graph_path("model")  # a folder with checkpoints
      'model/model.ckpt-100.meta'
    """
    if os.path.isdir(path):
        return _within(path)
    part = _CHECKPOINT_PART.match(path)
    if part is not None and os.path.exists(path):
        return _meta_of(part.group(1))
    if not os.path.exists(path) and os.path.exists(path + ".index"):
        return _meta_of(path)
    if not os.path.exists(path) and os.path.exists(path + ".meta"):
        return path + ".meta"
    return path


def _within(folder: str) -> str:
    file = graphs_file(folder)
    if file is not None:
        return file
    try:
        state = tf.train.get_checkpoint_state(folder)
    except (tf.errors.OpError, OSError):
        state = None
    if state is not None and state.model_checkpoint_path:
        return _meta_of(state.model_checkpoint_path)
    raise tf.errors.NotFoundError(
        None,
        None,
        "{}: the folder has neither a SavedModel (saved_model.pb) nor a checkpoint".format(folder),
    )


def _meta_of(prefix: str) -> str:
    if os.path.exists(prefix + ".meta"):
        return prefix + ".meta"
    raise tf.errors.NotFoundError(
        None,
        None,
        "{}: the checkpoint has no graph next to it ({}.meta)".format(
            prefix, os.path.basename(prefix)
        ),
    )
