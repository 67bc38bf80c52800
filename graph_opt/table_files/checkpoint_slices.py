"""Tensors of TensorFlow's checkpoints, written a slice at a time.

A checkpoint is written as parts, each a small checkpoint of its own, which are then merged. A
tensor that is in slices reads like any other.
"""

from __future__ import annotations

import abc
import contextlib
import os
from typing import Any, Callable, Iterator, List, NamedTuple, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.compat.unwatched_sessions import unwatched_sessions
from graph_opt.table_files.row_blocks import blocks_of


class TensorSlice(NamedTuple):
    """Rows [first, first + n) of a tensor.

    Attributes:
      name: Name of the tensor.
      rows: How many rows it has in all.
      first: Number of the first row.
      values: [n, ...]; or a scalar, which is the only row.
    """

    name: str
    rows: int
    first: int
    values: np.ndarray

    @property
    def spec(self) -> str:
        """What SaveV2 calls `shape_and_slices`."""
        if not self.values.shape:
            return ""
        shape = [self.rows] + list(self.values.shape[1:])
        return slice_spec(shape, self.first, len(self.values))


class SliceWriter(abc.ABC):
    """Takes slices of tensors."""

    @abc.abstractmethod
    def write(self, *slices: TensorSlice) -> None:
        """Writes slices, of any tensors."""


class CheckpointParts(SliceWriter):
    """Writes the parts of a checkpoint.

    Args:
      folder: Where they are until they are merged.
      steps: What runs the steps.

    Attributes:
      prefixes: Of the parts.
    """

    def __init__(self, folder: str, steps: ArraySteps) -> None:
        self.prefixes: List[str] = []
        self._folder = folder
        self._steps = steps

    def write(self, *slices: TensorSlice) -> None:
        """See `SliceWriter`; they become one part."""
        self.prefixes.append(os.path.join(self._folder, "part-{:05d}".format(len(self.prefixes))))
        write_slices(self._steps, self.prefixes[-1], slices)


def write_slices(steps: ArraySteps, prefix: str, slices: Sequence[TensorSlice]) -> None:
    """Writes a checkpoint with slices of any tensors."""
    values = [one.values for one in slices]
    key = ("save",) + tuple((one.dtype.name, one.ndim) for one in values)
    names, specs = [one.name for one in slices], [one.spec for one in slices]
    steps.run(key, _save, prefix, names, specs, *values)


def whole_tensor(name: str, values: np.ndarray) -> TensorSlice:
    """All of a tensor."""
    return TensorSlice(name, len(values) if values.shape else 1, 0, values)


def slices_of(checkpoint: Any, name: str) -> Iterator[TensorSlice]:
    """All of a tensor of another checkpoint, block by block.

    Args:
      checkpoint: A `CheckpointRows`, or what reads one on another rank.
      name: Of the tensor, which has rows.
    """
    tensor = checkpoint.tensors[name]
    num_rows = tensor.shape[0]
    row_bytes = int(np.prod(tensor.shape[1:], dtype=np.int64)) * tensor.dtype.size
    for first, count in blocks_of(num_rows, row_bytes):
        yield TensorSlice(name, num_rows, first, checkpoint.rows(name, first, count))


@contextlib.contextmanager
def file_steps() -> Iterator[ArraySteps]:
    """Steps that write files, in a session of their own."""
    with tf.Graph().as_default(), unwatched_sessions() as session_class:
        with session_class() as session:
            yield ArraySteps(session)


def merge_parts(prefixes: Sequence[str], prefix: str, steps: ArraySteps) -> None:
    """Makes a checkpoint of its parts, which are moved and not copied."""

    def merge(parts: Any, whole: Any) -> Any:
        return tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=whole)

    steps.run("merge", merge, list(prefixes), prefix)


def copy_tensors(
    steps: ArraySteps, prefix: str, new_prefix: str, names: Sequence[str], dtypes: Sequence[Any]
) -> None:
    """Makes a checkpoint with some tensors of another, which do not pass through Python."""
    specs = [""] * len(names)

    def copy(prefix: Any, new_prefix: Any) -> Any:
        read = tf.raw_ops.RestoreV2(
            prefix=prefix, tensor_names=names, shape_and_slices=specs, dtypes=dtypes
        )
        return _save(new_prefix, names, specs, *read)

    steps.run(("copy", tuple(names)), copy, prefix, new_prefix)


def read_tensor(steps: ArraySteps, prefix: str, name: str, dtype: Any) -> np.ndarray:
    """A tensor as a whole."""
    values: np.ndarray = steps.run(("restore", dtype), _restore(dtype), prefix, [name], [""])
    return values


def slice_spec(shape: Sequence[int], first: int, count: int) -> str:
    """What SaveV2 calls `shape_and_slices`."""
    if count == shape[0]:
        return ""
    dimensions = " ".join(str(size) for size in shape)
    return "{} {}".format(
        dimensions, ":".join(["{},{}".format(first, count)] + ["-"] * (len(shape) - 1))
    )


def _save(prefix: Any, names: Any, specs: Any, *values: Any) -> Any:
    return tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=names, shape_and_slices=specs, tensors=list(values)
    )


def _restore(dtype: Any) -> Callable[[Any, Any, Any], Any]:
    def restore(prefix: Any, names: Any, specs: Any) -> Any:
        return tf.raw_ops.RestoreV2(
            prefix=prefix, tensor_names=names, shape_and_slices=specs, dtypes=[dtype]
        )[0]

    return restore
