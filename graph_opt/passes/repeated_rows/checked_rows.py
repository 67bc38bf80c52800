"""Takes the first row of inputs, once a request has been found to have the same in all rows.

    user, history, ... ── FirstOfSameRows ── their first rows, or an error that names the features

All inputs of a request are compared by one op, so that a hundred of them cost no more nodes than
one.
"""

from __future__ import annotations

import re
from typing import AbstractSet, Dict, Hashable, List, Mapping, NamedTuple, Sequence

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import dtype_name
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.repeated_rows.listed_inputs import ListedInput

_COMPARED = frozenset(
    one.as_datatype_enum
    for one in (
        tf.bool, tf.string, tf.int8, tf.uint8, tf.int16, tf.int32, tf.int64,
        tf.float16, tf.bfloat16, tf.float32, tf.float64,
    )
)  # fmt: skip
_OP, _DEVICE = "FirstOfSameRows", "/device:CPU:0"


class Group(NamedTuple):
    """Inputs that are compared together.

    Attributes:
      features: By name.
      suffix: Where their node is.
    """

    features: Mapping[str, TensorRef]
    suffix: str


def require_rows(view: GraphView, feature: str, tensor: TensorRef) -> None:
    """Refuses an input whose rows cannot be taken, or not be compared.

    Raises:
      Refusal: Why.
    """
    shape, dtype = view.shape(tensor), view.dtype(tensor)
    saw = ""
    if not shape:
        saw = "an unknown rank" if shape is None else "a single value"
    elif shape[0] is not None:
        saw = "{} rows in each request".format(shape[0])
    elif dtype not in _COMPARED:
        saw = "values of {}".format(dtype_name(dtype or 0))
    if saw:
        need = "an input {!r} that has a row of numbers or strings for each row of a request"
        raise Refusal("rows_mixed", at=tensor.node, need=need.format(feature), saw=saw)


def groups_of(
    features: Mapping[str, TensorRef], requests: Sequence[AbstractSet[TensorRef]]
) -> List[Group]:
    """The inputs that are compared together: those that the same requests feed.

    Args:
      features: The inputs, by name.
      requests: What each kind of request feeds.
    """
    found: Dict[Hashable, Dict[str, TensorRef]] = {}
    for feature, tensor in features.items():
        fed = tuple(tensor in request for request in requests)
        found.setdefault(fed, {})[feature] = tensor
    groups = list(found.values())
    return [Group(each, _suffix("rows", number, each)) for number, each in enumerate(groups)]


def _suffix(scope: str, number: int, features: Mapping[str, object]) -> str:
    """Of a node for features, whose own names may have any characters."""
    first = re.sub(r"[^A-Za-z0-9_.-]", "_", next(iter(features)))
    more = "_and_{}_more".format(len(features) - 1) if len(features) > 1 else ""
    return "{}/{}_{}{}".format(scope, number, first, more)


def first_rows(
    writer: NodeWriter, group: Group, others: Mapping[str, TensorRef]
) -> Dict[TensorRef, Tensor]:
    """The first rows, [1, ...], of inputs all of whose rows are the same.

    Args:
      writer: Where the node goes.
      group: The inputs.
      others: Inputs that must have as many rows, by name.
    """
    tensors = list(group.features.values())
    call = writer.call(
        group.suffix,
        _OP,
        _DEVICE,
        rows=tensors,
        indices=[],
        values=[],
        shapes=[],
        others=list(others.values()),
        names=list(group.features),
        other_names=list(others),
    )
    return dict(zip(tensors, call.outputs("first_rows")))


def first_lists(writer: NodeWriter, listed: Mapping[str, ListedInput]) -> Dict[TensorRef, Tensor]:
    """The first row of features of any number of values, by their parts.

    Args:
      writer: Where the nodes go: one for each parser.
      listed: The features, by name.
    """
    first: Dict[TensorRef, Tensor] = {}
    for parser in dict.fromkeys(each.indices.node for each in listed.values()):
        of_parser = {name: each for name, each in listed.items() if each.indices.node == parser}
        features = list(of_parser.values())
        call = writer.call(
            _suffix("lists", len(first), of_parser),
            _OP,
            _DEVICE,
            rows=[],
            indices=[each.indices for each in features],
            values=[each.values for each in features],
            shapes=[each.dense_shape for each in features],
            others=[],
            names=list(of_parser),
            other_names=[],
        )
        parts = zip(*(each.tensors for each in features))
        for part, tensors in zip(("indices", "values", "shapes"), parts):
            first.update(zip(tensors, call.outputs("first_" + part)))
    return first
