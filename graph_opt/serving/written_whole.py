"""Folders that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from typing import Any, Iterator, Optional, Tuple, Type

from graph_opt.compat import tf

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def refuse_existing(output: str) -> None:
    """Makes sure that there is nothing at a path.

    Raises:
      tf.errors.AlreadyExistsError: There is.
    """
    if os.path.exists(output):
        raise _exists(output)


@contextlib.contextmanager
def written_whole(output: str) -> Iterator[str]:
    """A folder that gets its name when the block succeeds, and is removed otherwise.

    Raises:
      tf.errors.AlreadyExistsError: Something else has got that name meanwhile.
      tf.errors.PermissionDeniedError: The system refuses to write there.
      tf.errors.ResourceExhaustedError: The disk is full.
    """
    parent = os.path.dirname(output) or "."
    with _told_by_tensorflow(output):
        os.makedirs(parent, exist_ok=True)
        folder = tempfile.mkdtemp(prefix=os.path.basename(output) + ".", dir=parent)
    try:
        with _told_by_tensorflow(output, passed=(FileNotFoundError,)):  # It is a file that is read.
            yield folder
            os.chmod(folder, 0o755)
            _name(folder, output)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _name(folder: str, output: str) -> None:
    try:
        os.rename(folder, output)
    except OSError as error:
        if os.path.exists(output):
            raise _exists(output) from error
        raise


@contextlib.contextmanager
def _told_by_tensorflow(output: str, passed: Tuple[Type[OSError], ...] = ()) -> Iterator[None]:
    """Raises TensorFlow's errors for those of the system, but for those that are passed on."""
    try:
        yield
    except passed:
        raise
    except tf.errors.ResourceExhaustedError as error:  # A saver's tells every call up to it.
        reason = os.strerror(errno.ENOSPC)
        if reason not in error.message:
            raise
        text = "{}: cannot be written: {}".format(output, reason)
        raise tf.errors.ResourceExhaustedError(None, None, text) from error
    except OSError as error:
        kind = tf.errors.PermissionDeniedError
        path: Optional[Any] = error.filename
        if error.errno in _FULL:
            kind, path = tf.errors.ResourceExhaustedError, None  # It may name what was read.
        text = "{}: cannot be written: {}{}".format(
            output, error.strerror or error, " ({})".format(path) if path else ""
        )
        raise kind(None, None, text) from error


def _exists(output: str) -> Exception:
    return tf.errors.AlreadyExistsError(
        None, None, "{}: exists already; give a folder that does not".format(output)
    )
