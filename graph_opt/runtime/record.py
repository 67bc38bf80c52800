"""Converts nests of features to the flat records of a buffer, and back."""

from __future__ import annotations

from typing import Any, List, NoReturn, Sequence, Tuple

from graph_opt.compat import tf

_STATE_DTYPES = (tf.resource, tf.variant)


def flatten_features(features: Any) -> List[Any]:
    """The tensors of a nest, in the order of `tf.nest`; composites become their components.

    Args:
      features: A nest (dict, list, tuple, namedtuple) of tensors, SparseTensors, RaggedTensors,
        None, and what `tf.convert_to_tensor` takes.

    Returns:
      The tensors; None leaves are left out.

    Raises:
      tf.errors.InvalidArgumentError: there is no tensor in it, or one that is state, not a value.
    """
    tensors = [_as_tensor(leaf) for leaf in tf.nest.flatten(features, expand_composites=True)]
    record = [tensor for tensor in tensors if tensor is not None]
    if not record:
        _refuse("there is no tensor in features={!r}: a stage needs at least one".format(features))
    return record


def pack_features(features: Any, record: Sequence[Any]) -> Any:
    """The structure of `features`, filled with the tensors of `record` as they are.

    Args:
      features: The argument of `flatten_features`.
      record: One tensor for each that it returned.
    """
    tensors = iter(record)
    flat = [
        None if leaf is None else next(tensors)
        for leaf in tf.nest.flatten(features, expand_composites=True)
    ]
    return tf.nest.pack_sequence_as(features, flat, expand_composites=True)


def common_signature(records: Sequence[Sequence[Any]]) -> Tuple[List[Any], List[Any]]:
    """The dtypes and the most general static shapes of records that share a buffer.

    Raises:
      tf.errors.InvalidArgumentError: they differ in length or dtypes.
    """
    dtypes = [tensor.dtype.base_dtype for tensor in records[0]]
    shapes = [tensor.shape for tensor in records[0]]
    for position, record in enumerate(records):
        others = [tensor.dtype.base_dtype for tensor in record]
        if others != dtypes:
            _refuse(
                "features of thread {} have dtypes {}, those of thread 0 {}: all threads of a "
                "stage fill one buffer".format(position, _names(others), _names(dtypes))
            )
        shapes = [_common(a, tensor.shape) for a, tensor in zip(shapes, record)]
    return dtypes, shapes


def _as_tensor(leaf: Any) -> Any:
    if leaf is None:
        return None
    if hasattr(leaf, "read_value"):
        _refuse("variable '{}' is state and no batch: leave it out of features".format(leaf.name))
    try:
        tensor = tf.convert_to_tensor(leaf)
    except (TypeError, ValueError) as error:
        _refuse("features have a {}, no tensor: {}".format(type(leaf).__name__, error))
    if tensor.dtype in _STATE_DTYPES or tensor.dtype != tensor.dtype.base_dtype:
        _refuse(
            "tensor '{}' of dtype {} is state and no batch: leave it out of features".format(
                tensor.name, tensor.dtype.name
            )
        )
    return tensor


def _common(first: Any, second: Any) -> Any:
    if first.rank is None or first.rank != second.rank:
        return tf.TensorShape(None)
    pairs = zip(first.as_list(), second.as_list())
    return tf.TensorShape([a if a == b else None for a, b in pairs])


def _names(dtypes: Sequence[Any]) -> str:
    return "[" + ", ".join(dtype.name for dtype in dtypes) + "]"


def _refuse(fault: str) -> NoReturn:
    raise tf.errors.InvalidArgumentError(None, None, "staged: " + fault)
