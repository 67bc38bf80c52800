"""What `tf.data` has gained since TensorFlow 1.15, from what the installed release has."""

from __future__ import annotations

import inspect
from typing import Any, Callable, NamedTuple, Sequence

import tensorflow as stock

from graph_opt.compat import tf

# Every dataset is one of these, whichever of TensorFlow's two APIs made it.
DATASET: Any = stock.compat.v2.data.Dataset


class RaggedParts(NamedTuple):
    """What a `tf.RaggedTensorSpec` says, which tells it by no public name before TensorFlow 2.2."""

    shape: Any
    dtype: Any
    ragged_rank: int
    row_splits_dtype: Any


def ragged_parts(spec: Any) -> RaggedParts:
    """The parts of a `tf.RaggedTensorSpec`."""
    return RaggedParts(spec._shape, spec._dtype, spec._ragged_rank, spec._row_splits_dtype)


def from_generator(make: Callable[..., Any], signature: Any, arguments: Sequence[Any]) -> Any:
    """A dataset of the elements that `make(*arguments)` yields.

    Args:
      make: A generator.
      signature: A nest of `tf.TensorSpec`s.
      arguments: Tensors, which `make` is given as arrays.
    """
    if "output_signature" in inspect.signature(tf.data.Dataset.from_generator).parameters:
        return tf.data.Dataset.from_generator(
            make, args=tuple(arguments), output_signature=signature
        )
    dtypes = tf.nest.map_structure(lambda spec: spec.dtype, signature)
    shapes = tf.nest.map_structure(lambda spec: spec.shape, signature)
    return tf.data.Dataset.from_generator(make, dtypes, shapes, tuple(arguments))


def interleave(
    dataset: Any, read: Callable[[Any], Any], num_parallel: int, block_length: int
) -> Any:
    """The datasets that `read` makes of the elements, read in parallel.

    In no certain order, so that none waits for another, where the release can do so for one step of
    a pipeline.
    """
    order = {"deterministic": False}
    if "deterministic" not in inspect.signature(dataset.interleave).parameters:
        order.clear()
    return dataset.interleave(read, num_parallel, block_length, num_parallel, **order)


def concatenated(first: Any, second: Any) -> Any:
    """The elements of two datasets of one structure, one after the other."""
    try:
        return first.concatenate(second)
    except TypeError:  # TensorFlow 1: ragged tensors have different numbers of rows.
        return _of_any_rows(first).concatenate(_of_any_rows(second))


def _of_any_rows(dataset: Any) -> Any:
    def of_any_rows(*element: Any) -> Any:
        is_tuple = isinstance(dataset.element_spec, tuple)
        return tf.nest.map_structure(_forget_rows, element if is_tuple else element[0])

    return dataset.map(of_any_rows)


def _forget_rows(tensor: Any) -> Any:
    if not isinstance(tensor, tf.RaggedTensor):
        return tensor
    outer, *inner = tensor.nested_row_splits
    splits = [tf.placeholder_with_default(outer, [None]), *inner]
    return tf.RaggedTensor.from_nested_row_splits(tensor.flat_values, splits)


def without_errors(dataset: Any) -> Any:
    """The elements of a dataset that can be made."""
    if hasattr(dataset, "ignore_errors"):
        return dataset.ignore_errors()
    return dataset.apply(tf.data.experimental.ignore_errors())


def single_element(dataset: Any) -> Any:
    """The element of a dataset that has one."""
    if hasattr(dataset, "get_single_element"):
        return dataset.get_single_element()
    return tf.data.experimental.get_single_element(dataset)
