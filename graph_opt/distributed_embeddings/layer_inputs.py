"""Inputs of a layer as bags of ids, and pooled bags as its outputs."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.ops.stock_lookup import LookupIds


class BagInput(NamedTuple):
    """An input of a layer.

    Attributes:
      ids: As group lookups take them, but for the combiner: each id is a bag where there is none.
      combiner: `sum`, `mean` or `sqrtn`.
      as_output: From [bags, D] to the layer's output.
      of_samples: Whether there is one bag for each sample.
    """

    ids: LookupIds
    combiner: str
    as_output: Callable[[tf.Tensor], Any]
    of_samples: bool = True


def read_input(place: int, given: Any, combiner: Optional[str], layer: str) -> BagInput:
    """Reads an input; what is neither int32 nor int64 becomes int32.

    Args:
      place: Its number, for errors.
      given: Dense ids [b] or [b, ..., ids of a bag]; or ragged or sparse ones [b, ids of a bag].
      combiner: Of its table; None for a row for each id.
      layer: Name of the layer, for errors.

    Raises:
      ValueError: The rank does not fit the combiner, or sparse ids have none.
    """
    ids = integers(given)
    if isinstance(ids, tf.SparseTensor):
        if combiner is None:
            raise _unfit(layer, place, ids, "a combiner for sparse ids, or a RaggedTensor")
        return BagInput(read_ids(place, ids, None), combiner, _unchanged)
    if isinstance(ids, tf.RaggedTensor):
        if ids.shape.rank not in (None, 2):
            raise _unfit(layer, place, ids, "ragged ids of rank 2")
        if combiner is None:
            return BagInput(
                read_ids(place, ids.flat_values, None), "sum", ids.with_flat_values, False
            )
        return BagInput(read_ids(place, ids, None), combiner, _unchanged)
    rank = ids.shape.rank
    if rank is None or rank < 1 or (rank < 2 and combiner is not None):
        raise _unfit(layer, place, ids, "ids of rank {}".format(1 if combiner is None else 2))
    if rank == 1 or (rank == 2 and combiner is not None):
        return BagInput(read_ids(place, ids, None), combiner or "sum", _unchanged)
    shape = ids.shape if combiner is None else ids.shape[:-1]
    sizes = tf.shape(ids) if combiner is None else tf.shape(ids)[:-1]
    bags = tf.reshape(ids, [-1] if combiner is None else tf.stack([-1, tf.shape(ids)[-1]]))

    def as_output(pooled: tf.Tensor) -> tf.Tensor:
        width = pooled.shape[-1]
        shaped = tf.reshape(pooled, tf.concat([sizes, [width]], axis=0))
        shaped.set_shape(shape.concatenate(width))
        return shaped

    return BagInput(read_ids(place, bags, None), combiner or "sum", as_output, False)


def integers(given: Any) -> Any:
    """Ids of any kind, of int32 or int64."""
    if isinstance(given, (tf.SparseTensor, tf.SparseTensorValue)):
        ids = tf.convert_to_tensor_or_sparse_tensor(given)
        return tf.SparseTensor(ids.indices, _integers(ids.values), ids.dense_shape)
    if isinstance(given, tf.RaggedTensor):
        return given.with_flat_values(_integers(given.flat_values))
    return _integers(tf.convert_to_tensor(given))


def batch_size(given: Any) -> Optional[int]:
    """Samples of an input, or of its shape, if they are known before it runs."""
    shape = tf.TensorShape(getattr(given, "shape", given))
    if shape.rank is None:
        return None
    sizes: List[Optional[int]] = shape.as_list()
    return sizes[0] if sizes else None


def _integers(ids: tf.Tensor) -> tf.Tensor:
    return ids if ids.dtype in (tf.int32, tf.int64) else tf.cast(ids, tf.int32)


def _unchanged(pooled: tf.Tensor) -> tf.Tensor:
    return pooled


def _unfit(layer: str, place: int, ids: Any, need: str) -> ValueError:
    return ValueError(
        "input {} of layer {!r} has shape {}; need {}".format(place, layer, ids.shape, need)
    )
