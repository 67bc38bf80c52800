"""Embedding columns that are looked up together."""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import Any, Iterator, List, NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.compat.embedding_columns import (
    ColumnLookup,
    Lookup,
    embedding_columns_with,
    restore_from_checkpoint,
)
from graph_opt.compat.live_graph import set_attribute, set_input
from graph_opt.embedding.group_lookup import LookupRequest, devices_of, lookup_group
from graph_opt.embedding.separate_lookups import is_elsewhere
from graph_opt.ops.group_embedding import SUPERSEDED

# That of TensorFlow's embedding columns.
PARTITION_STRATEGY = "div"


@contextlib.contextmanager
def group_embedding_column_scope(name: Optional[str] = None) -> Iterator[None]:
    """Embedding columns made in this scope are looked up together.

    `tf.feature_column.embedding_column` is called as ever, and so are `input_layer`,
    `linear_model` and `DenseFeatures`; variables and results keep their names. Columns with a
    `max_norm`, with `use_safe_embedding_lookup=False`, of a sequence, or with a table on parameter
    servers are looked up as TensorFlow does; `do_group_embedding` packs the last of these.

    Args:
      name: Name scope of the lookups, `group_embedding` by default.

    Example:
      >>> with group_embedding_column_scope():
      ...     columns = [tf.feature_column.embedding_column(c, 16) for c in categorical]
      >>> tf.feature_column.input_layer(features, columns)
    """
    group = _ColumnGroup(name or "group_embedding")
    with embedding_columns_with(group.add):
        yield


# Taken here, since `install` puts our own function under this name.
_stock_embedding_column = tf.feature_column.embedding_column


@functools.wraps(_stock_embedding_column)
def embedding_column(*arguments: Any, **named: Any) -> Any:
    """`tf.feature_column.embedding_column` with DeepRec's `do_fusion`, which changes no value.

    There it makes one column's lookup one op; here `do_group_embedding` and
    `group_embedding_column_scope` decide that, for all columns.
    """
    named.pop("do_fusion", None)
    return _stock_embedding_column(*arguments, **named)


class _Member(NamedTuple):
    """A column that was looked up: its request, and the node whose input is the result."""

    request: LookupRequest
    result: tf.Operation


class _InputLayer:
    """The columns of a group that were looked up for one model input so far.

    Columns come one by one, and each must give its result at once. So results are Identity nodes:
    when more columns have come, one lookup for all replaces the earlier ones as their input. To
    keep that cheap, batches of equal size are joined, as in counting in binary, and all of them
    when the last column of the group has come. Nothing reads the lookups left behind.

        1 column   [1]         3 columns   [2][1]        the last of 26   [26]
        2 columns  [2]         4 columns   [4]           25 of 26, one never used  [16][8][1]

    The lookups left behind are marked, so that passes do not take them for the model's.
    """

    def __init__(self, inputs: Any, graph: tf.Graph) -> None:
        self._inputs = weakref.ref(inputs)
        self._graph = weakref.ref(graph)
        self._batches: List[List[_Member]] = []

    def is_for(self, inputs: Any, graph: tf.Graph) -> bool:
        return self._inputs() is inputs and self._graph() is graph

    def is_over(self) -> bool:
        return self._inputs() is None or self._graph() is None

    def look_up(self, request: LookupRequest, scope: str, name: str, columns: int) -> tf.Tensor:
        pooled = lookup_group([request], PARTITION_STRATEGY, scope)[0]
        result = tf.identity(pooled, name=name)
        self._batches.append([_Member(request, result.op)])
        if sum(len(batch) for batch in self._batches) == columns:
            self._join(0, scope)
        while len(self._batches) > 1 and len(self._batches[-1]) == len(self._batches[-2]):
            self._join(len(self._batches) - 2, scope)
        return result

    def _join(self, first: int, scope: str) -> None:
        members = [member for batch in self._batches[first:] for member in batch]
        del self._batches[first:]
        self._batches.append(members)
        if len(members) == 1:
            return
        requests = [member.request for member in members]
        pooled = lookup_group(requests, PARTITION_STRATEGY, scope)
        for member, tensor in zip(members, pooled):
            earlier = member.result.inputs[0].op
            set_attribute(tensor.graph, earlier.name, SUPERSEDED, tf.AttrValue(b=True))
            set_input(tensor.graph, member.result.name, 0, tensor.name)


class _ColumnGroup:
    """The columns of one scope."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._columns = 0
        self._layers: List[_InputLayer] = []

    def add(self, column: Any) -> Lookup:
        """Counts a column, and gives its lookup."""
        if _is_stock(column):
            return lambda lookup: lookup.stock()
        self._columns += 1
        return self._look_up

    def _look_up(self, lookup: ColumnLookup) -> tf.Tensor:
        if is_elsewhere(devices_of(lookup.table), lookup.ids.values.device):
            return lookup.stock()
        restore_from_checkpoint(lookup.column, lookup.table)
        request = LookupRequest(lookup.table, lookup.ids, lookup.column.combiner, lookup.weights)
        layer = self._layer(lookup.inputs)
        name = "{}_weights".format(lookup.column.name)
        return layer.look_up(request, self._name, name, self._columns)

    def _layer(self, inputs: Any) -> _InputLayer:
        self._layers = [layer for layer in self._layers if not layer.is_over()]
        graph = tf.get_default_graph()
        for layer in self._layers:
            if layer.is_for(inputs, graph):
                return layer
        self._layers.append(_InputLayer(inputs, graph))
        return self._layers[-1]


def _is_stock(column: Any) -> bool:
    is_safe = getattr(column, "use_safe_embedding_lookup", True)
    return column.max_norm is not None or not is_safe
