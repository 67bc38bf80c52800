"""Ops that parse serialized Examples, and can be one of ours.

    ParseExampleV2(serialized, names, sparse_keys, dense_keys, ragged_keys, dense_defaults)
    ParseExample(serialized, names, sparse_keys ..., dense_keys ..., dense_defaults)

The first is that of TensorFlow 2, the second that of TensorFlow 1, with an input for each name.
Both have the same outputs, to which the first adds those of ragged features.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Union

from graph_opt.graph.op_call import inputs_by_name
from graph_opt.graph.view import GraphView, TensorRef

PARSERS = ("ParseExampleV2", "ParseExample")

Keys = Union[TensorRef, Sequence[bytes]]


class ParsedExamples(NamedTuple):
    """An op that parses Examples.

    Attributes:
      node: Its name.
      features: How many features it takes out of each.
      serialized: The Examples.
      names: What errors call them.
      sparse_keys: The names of sparse features, or the tensor that has them.
      dense_keys: The same of dense ones.
      defaults: What dense features are where an Example lacks them.
      unusual: What only TensorFlow's parser can do of it; "" if there is nothing.
    """

    node: str
    features: int
    serialized: TensorRef
    names: TensorRef
    sparse_keys: Keys
    dense_keys: Keys
    defaults: Sequence[TensorRef]
    unusual: str


def parsed_examples(view: GraphView, node: str) -> ParsedExamples:
    """What an op of `PARSERS` parses.

    Example:
      >>> parsed_examples(view, "ParseExample/ParseExampleV2").unusual
      'ragged features'
    """
    given, attributes = inputs_by_name(view, node), view.nodes[node].attr
    shapes = attributes["dense_shapes"].list.shape
    sparse, dense = (_keys(view, node, given[name]) for name in ("sparse_keys", "dense_keys"))
    (serialized,), (names,) = given["serialized"], given["names"]
    ragged = "ragged_value_types" in attributes and attributes["ragged_value_types"].list.type
    unusual = ""
    if ragged:
        unusual = "ragged features"
    elif not all(_is_known(shape) for shape in shapes):
        unusual = "dense features of variable length"
    elif sparse is None or dense is None:
        unusual = "names of features that are not constant"
    return ParsedExamples(
        node,
        len(attributes["sparse_types"].list.type) + len(shapes),
        serialized,
        names,
        sparse or (),
        dense or (),
        given["dense_defaults"],
        unusual,
    )


def _keys(view: GraphView, node: str, given: List[TensorRef]) -> Optional[Keys]:
    if view.op(node) == "ParseExampleV2":
        return given[0]
    values = [view.constant(key) for key in given]
    if any(value is None for value in values):
        return None
    return [bytes(value.item()) for value in values if value is not None]


def _is_known(shape: Any) -> bool:
    return not shape.unknown_rank and all(side.size >= 0 for side in shape.dim)
