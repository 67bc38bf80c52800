"""Slots of one number for each row, as checkpoints of DeepRec have them.

The variable is of floats and has a row's number in all columns of the row, for fused updates.
Savers convert it, by TensorFlow's own ops:

    like_table   [rows, ...] of integers: element i of all, row after row, is that of row i
    otherwise    [rows]

Relies on `_save_slice_info` of partitioned variables, and on the function by which
`tf.train.init_from_checkpoint` initializes a variable.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from tensorflow.python.ops import variables as variables_module
from tensorflow.python.training import checkpoint_utils
from tensorflow.python.training.saving import saveable_object

from graph_opt.compat import tf
from graph_opt.compat.savers import SaverParts, build_savers_with

_FORM = "_graph_opt_row_numbers"


class RowNumbers(NamedTuple):
    """How checkpoints have a slot.

    Attributes:
      dtype: Of the numbers.
      like_table: Whether their tensor has the table's shape.
    """

    dtype: Any
    like_table: bool


def store_as_row_numbers(variable: Any, form: RowNumbers) -> None:
    """Has savers that are made from now on save and restore a variable in this form.

    Args:
      variable: Of floats; of static shape.
      form: The form.
    """
    setattr(variable, _FORM, form)
    build_savers_with(_PARTS)
    _replace_initialization()


class _Saveable(saveable_object.SaveableObject):
    def __init__(self, variable: Any, name: str, form: RowNumbers) -> None:
        self._form = form
        info = _slice_of(variable, form)
        spec = saveable_object.SaveSpec(
            self._stored,
            "" if info is None else info.spec,
            name if info is None else info.full_name,
            dtype=form.dtype,
            device=variable.device,
        )
        super().__init__(variable, [spec], name)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        return _restored(self.op, restored_tensors[0])

    def _stored(self) -> Any:
        with tf.device(self.op.device):
            rows = self.op.read_value()
            numbers = tf.cast(tf.reshape(rows, [rows.shape[0], -1])[:, 0], self._form.dtype)
            if not self._form.like_table:
                return numbers
            rest = tf.zeros([rows.shape.num_elements() - rows.shape[0]], numbers.dtype)
            return tf.reshape(tf.concat([numbers, rest], 0), rows.shape)


def _restored(variable: Any, stored: Any) -> Any:
    shape = variable.shape
    with tf.device(variable.device):
        numbers = tf.cast(tf.reshape(stored, [-1])[: shape[0]], variable.dtype.base_dtype)
        in_first_axis = tf.reshape(numbers, [shape[0]] + [1] * (shape.rank - 1))
        assigned = variable.assign(tf.broadcast_to(in_first_axis, shape))
    return getattr(assigned, "op", assigned)


def _slice_of(variable: Any, form: RowNumbers) -> Any:
    """Where a part of a partitioned variable is in the whole one's tensor; None for others."""
    info = variable._save_slice_info
    if info is None or form.like_table:
        return info
    return variables_module.Variable.SaveSliceInfo(
        info.full_name, info.full_shape[:1], info.var_offset[:1], info.var_shape[:1]
    )


def _saveables(variable: Any, name: Optional[str]) -> Optional[List[Any]]:
    form = getattr(variable, _FORM, None)
    return None if form is None else [_Saveable(variable, name or variable.op.name, form)]


def _nothing_to_save(prefix: Any, saveables: List[Any]) -> Tuple[List[Any], List[Any]]:
    return [], []


def _nothing_to_restore(prefix: Any, saveables: List[Any]) -> None:
    return None


_PARTS = SaverParts(_saveables, _nothing_to_save, _nothing_to_restore)


@functools.lru_cache(maxsize=None)
def _replace_initialization() -> None:
    module: Any = checkpoint_utils
    module._set_checkpoint_initializer = _initializing(module._set_checkpoint_initializer)


def _initializing(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def set_checkpoint_initializer(
        variable: Any, ckpt_file: Any, tensor_name: str, slice_spec: str, *given: Any, **named: Any
    ) -> Any:
        form = getattr(variable, _FORM, None)
        if form is None:
            return stock(variable, ckpt_file, tensor_name, slice_spec, *given, **named)
        (stored,) = tf.raw_ops.RestoreV2(
            prefix=ckpt_file,
            tensor_names=[tensor_name],
            shape_and_slices=[slice_spec],
            dtypes=[form.dtype],
        )
        variable._initializer_op = _restored(variable, stored)
        return None

    return set_checkpoint_initializer
