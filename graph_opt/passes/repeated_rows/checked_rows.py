"""Takes the first row of inputs, once a request has been found to have the same in all rows.

    inputs ── Pack ─┬─ [:, 0:1] ── first ──┐
                    ├─────────────────── NotEqual ── Max ── Assert (names the features)
                    └─ [:, 0:1] <── waits for the Assert ── Unpack

Inputs of one type and shape are compared together, so that a hundred of them take as many ops as
one. Numbers are compared by their bits: then nan is equal to itself, and 0.0 is not -0.0, by which
a model may divide.
"""

from __future__ import annotations

import re
from typing import (
    AbstractSet,
    Any,
    Dict,
    Hashable,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Sequence,
    Tuple,
)

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import dtype_name
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.repeated_rows.listed_inputs import FirstLists, ListedInput
from graph_opt.passes.repeated_rows.single_rows import first_row

_BITS: Mapping[int, int] = {
    tf.float16.as_datatype_enum: tf.int16.as_datatype_enum,
    tf.bfloat16.as_datatype_enum: tf.int16.as_datatype_enum,
    tf.float32.as_datatype_enum: tf.int32.as_datatype_enum,
    tf.float64.as_datatype_enum: tf.int64.as_datatype_enum,
}
_COMPARED = frozenset(
    one.as_datatype_enum
    for one in (tf.bool, tf.string, tf.int8, tf.uint8, tf.int16, tf.int32, tf.int64)
)
_FLOAT = tf.float32.as_datatype_enum
_SUMMARIZED = 8
_DIFFER = "the rows of the request differ in"
_PROMISE = "but this graph was exported for requests that repeat it in all rows (--repeated)"
_OTHER_NUMBER = "the request has other numbers of rows of {} and of {}"


class Group(NamedTuple):
    """Inputs that are compared together.

    Attributes:
      features: By name, of the same type and shape.
      suffix: Where their nodes are.
    """

    features: Mapping[str, TensorRef]
    suffix: str

    @property
    def first(self) -> TensorRef:
        """One of them: all have as many rows."""
        return next(iter(self.features.values()))


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
    elif dtype not in _COMPARED and dtype not in _BITS:
        saw = "values of {}".format(dtype_name(dtype or 0))
    if saw:
        need = "an input {!r} that has a row of numbers or strings for each row of a request"
        raise Refusal("rows_mixed", at=tensor.node, need=need.format(feature), saw=saw)


def groups_of(
    view: GraphView, features: Mapping[str, TensorRef], requests: Sequence[AbstractSet[TensorRef]]
) -> List[Group]:
    """The inputs that are compared together: alike, and fed by the same requests.

    Args:
      view: The graph.
      features: The inputs, by name.
      requests: What each kind of request feeds.
    """
    found: Dict[Hashable, Dict[str, TensorRef]] = {}
    for feature, tensor in features.items():
        shape = view.shape(tensor) or ()
        fed = tuple(tensor in request for request in requests)
        key: Hashable = (view.dtype(tensor), shape[1:], view.device(tensor.node), fed)
        if None in shape[1:]:
            key = feature
        found.setdefault(key, {})[feature] = tensor
    groups = list(found.values())
    return [Group(each, "rows/" + _plain(number, each)) for number, each in enumerate(groups)]


def _plain(number: int, features: Mapping[str, TensorRef]) -> str:
    """A name of nodes for features, whose own may have any characters."""
    first = re.sub(r"[^A-Za-z0-9_.-]", "_", next(iter(features)))
    more = "_and_{}_more".format(len(features) - 1) if len(features) > 1 else ""
    return "{}_{}{}".format(number, first, more)


class CheckedRows:
    """Writes the checks.

    Args:
      view: The graph.
      writer: Where new nodes go.
    """

    def __init__(self, view: GraphView, writer: NodeWriter) -> None:
        self._view = view
        self._writer = writer
        self._slices: Dict[str, Any] = {}

    def first_rows(self, group: Group) -> Dict[TensorRef, Tensor]:
        """The first rows, [1, ...], of inputs all of whose rows are the same."""
        suffix, device = group.suffix, self._view.device(group.first.node)
        tensors = list(group.features.values())
        packed = self._writer.call(suffix + "/packed", "Pack", device, values=tensors).result
        compared = first_row(self._writer, suffix + "/first", packed, device, axis=1)
        checked = first_row(self._writer, suffix, packed, device, axis=1)
        self._slices[suffix] = self._writer.nodes[-1]
        self._require_same(group, self._differ(group, packed, compared))
        parts = self._writer.call(
            suffix + "/parts", "Unpack", device, value=checked, num=len(tensors)
        )
        return dict(zip(tensors, parts.outputs("output")))

    def first_list(
        self, feature: str, listed: ListedInput, rows: Tensor
    ) -> Dict[TensorRef, Tensor]:
        """The first row of a feature of any number of values, by its parts.

        Args:
          feature: Its name.
          listed: The feature.
          rows: How many rows the request has.
        """
        suffix = "rows/lists/{}".format(_plain(listed.values.index, {feature: listed.values}))
        texts = [_DIFFER, feature, _PROMISE]
        bits = _BITS.get(self._view.dtype(listed.values) or 0, 0)
        return FirstLists(self._writer, suffix, listed, rows, texts).written(bits)

    def same_number(self, group: Group, names: Tuple[str, str], counts: Sequence[Tensor]) -> None:
        """Has first rows wait until two inputs were found to have as many rows."""
        suffix = "{}/count_{}".format(group.suffix, len(self._writer.nodes))
        same = self._writer.call(suffix, "Equal", x=counts[0], y=counts[1]).result
        text = self._writer.constant(suffix + "/message", _OTHER_NUMBER.format(*names))
        self._wait(group, suffix + "/assert", same, [text])

    def _differ(self, group: Group, packed: Tensor, row: Tensor) -> Tensor:
        """For each input, 1 if any value differs from its first row's; 0 or less if none does."""
        suffix, writer = group.suffix, self._writer
        sides = [packed, row]
        bits = _BITS.get(self._view.dtype(group.first) or 0)
        if bits is not None:
            sides = [
                writer.call(
                    "{}/bits_{}".format(suffix, number), "Bitcast", input=side, type=bits
                ).result
                for number, side in enumerate(sides)
            ]
        differs = writer.call(suffix + "/differs", "NotEqual", x=sides[0], y=sides[1]).result
        # Any takes ten times as long as a cast and a maximum of numbers.
        number = writer.call(suffix + "/number", "Cast", x=differs, DstT=_FLOAT).result
        rank = len(self._view.shape(group.first) or ())
        return self._largest(suffix + "/of_each", number, range(1, rank + 1))

    def _largest(self, suffix: str, numbers: Tensor, axes: Iterable[int]) -> Tensor:
        along = self._writer.constant(suffix + "/axes", np.array(list(axes), np.int32))
        return self._writer.call(suffix, "Max", input=numbers, reduction_indices=along).result

    def _require_same(self, group: Group, differ: Tensor) -> None:
        suffix, writer = group.suffix + "/same", self._writer
        least = writer.constant(suffix + "/least", np.float32(1))
        largest = self._largest(suffix + "/largest", differ, [0])
        same = writer.call(suffix, "Less", x=largest, y=least).result
        names = writer.constant(suffix + "/names", np.array(list(group.features), object))
        is_named = writer.call(suffix + "/is_named", "GreaterEqual", x=differ, y=least).result
        places = writer.call(suffix + "/places", "Where", input=is_named).result
        named = writer.call(suffix + "/named", "GatherNd", params=names, indices=places).result
        texts = [
            writer.constant("{}/{}".format(suffix, key), text)
            for key, text in (("differ", _DIFFER), ("promise", _PROMISE))
        ]
        self._wait(group, suffix + "/assert", same, [texts[0], named, texts[1]])

    def _wait(self, group: Group, suffix: str, condition: Tensor, texts: Sequence[Tensor]) -> None:
        check = self._writer.call(
            suffix, "Assert", condition=condition, data=list(texts), summarize=_SUMMARIZED
        )
        self._slices[group.suffix].input.append("^" + check.name)
