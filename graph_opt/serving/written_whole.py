"""Folders that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import Iterator

from graph_opt.compat import tf


def refuse_existing(output: str) -> None:
    """Makes sure that there is nothing at a path.

    Raises:
      tf.errors.AlreadyExistsError: There is.
    """
    if os.path.exists(output):
        raise tf.errors.AlreadyExistsError(
            None, None, "{}: exists already; give a folder that does not".format(output)
        )


@contextlib.contextmanager
def written_whole(output: str) -> Iterator[str]:
    """A folder that gets its name when the block succeeds, and is removed otherwise.

    Raises:
      tf.errors.PermissionDeniedError: No folder can be made there.
    """
    parent = os.path.dirname(output) or "."
    try:
        os.makedirs(parent, exist_ok=True)
        folder = tempfile.mkdtemp(prefix=os.path.basename(output) + ".", dir=parent)
    except OSError as error:
        raise tf.errors.PermissionDeniedError(
            None, None, "{}: cannot be written: {}".format(output, error.strerror)
        ) from error
    try:
        yield folder
        os.chmod(folder, 0o755)
        os.rename(folder, output)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
