"""Embedding columns that are looked up together."""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import Any, ContextManager, Iterator, List, NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.compat.accepted_arguments import accepting
from graph_opt.compat.columns_of_keys import table_of
from graph_opt.compat.embedding_columns import (
    ColumnLookup,
    Lookup,
    embedding_columns_with,
    restore_from_checkpoint,
)
from graph_opt.compat.live_graph import set_attribute, set_input
from graph_opt.embedding.group_lookup import LookupRequest, lookup_group
from graph_opt.embedding.lookup_builders import builder_of, own_builder
from graph_opt.embedding.tables import devices_of
from graph_opt.ops.group_embedding import SUPERSEDED
from graph_opt.reporting.warnings_given import warn_once

# The strategy that TensorFlow's embedding columns use.
PARTITION_STRATEGY = "div"


@contextlib.contextmanager
def group_embedding_column_scope(name: Optional[str] = None) -> Iterator[None]:
    """Looks up the embedding columns created in this scope together.

    `tf.feature_column.embedding_column`, `input_layer`, `linear_model` and `DenseFeatures` are
    called as usual; variables and results keep their names. Columns that have a `max_norm`, set
    `use_safe_embedding_lookup=False`, belong to a sequence or keep their table on parameter servers
    are looked up by TensorFlow's own ops; `do_group_embedding` packs the last kind.

    Args:
      name: Name scope of the lookups; `group_embedding` by default.

    Example:
      >>> with group_embedding_column_scope():
      ...     columns = [tf.feature_column.embedding_column(c, 16) for c in categorical]
      >>> tf.feature_column.input_layer(features, columns)
    """
    group = _ColumnGroup(name or "group_embedding")
    with embedding_columns_with(group.add):
        yield


@contextlib.contextmanager
def coalesced_embedding_scope(
    name: Optional[str] = None, num_partitions: Optional[int] = None
) -> Iterator[CoalescedScope]:
    """Looks up the embedding columns created in this scope together.

    DeepRec makes one variable of their tables, and saves it as the tables of the columns. Here they
    stay variables of their own, and one op looks them up: see `group_embedding_column_scope`.

    Args:
      name: Name scope of the lookups; `coalesced_embedding` by default.
      num_partitions: Number of parts of each table; None for what the variable scope says.

    Yields:
      The scope, which later calls of `embedding_column` may have as `coalesced_scope`.

    Raises:
      ValueError: `num_partitions` is below 1.

    Example:
      >>> with tf.feature_column.coalesced_embedding_scope(num_partitions=2) as scope:
      ...     columns = [tf.feature_column.embedding_column(c, 16) for c in categorical]
      >>> columns.append(tf.feature_column.embedding_column(other, 16, coalesced_scope=scope))
    """
    if num_partitions is not None and num_partitions < 1:
        raise ValueError(
            "coalesced_embedding_scope: num_partitions is {}; need 1 or more".format(num_partitions)
        )
    scope = CoalescedScope(name or "coalesced_embedding", num_partitions)
    with scope.columns():
        yield scope


class CoalescedScope:
    """What `coalesced_embedding_scope` yields.

    Args:
      name: Name scope of the lookups.
      num_partitions: Number of parts of each table; None for what the variable scope says.

    Attributes:
      name: As given.
    """

    def __init__(self, name: str, num_partitions: Optional[int]) -> None:
        self.name = name
        self._group = _ColumnGroup(name, num_partitions)

    def columns(self) -> ContextManager[None]:
        """A scope whose embedding columns belong to this one."""
        return embedding_columns_with(self._group.add)


# DeepRec turns one column's lookup into one op (`do_fusion`); here options fuse all lookups.
# TensorFlow's function is found on import, because `install` replaces the name.
_stock_embedding_column = accepting(
    tf.feature_column.embedding_column, warn_once, {"coalesced_scope": None, "do_fusion": False}
)


@functools.wraps(_stock_embedding_column)
def embedding_column(*arguments: Any, **named: Any) -> Any:
    """As `tf.feature_column.embedding_column`, also in a `coalesced_scope`."""
    scope = named.pop("coalesced_scope", None)
    if scope is None:
        return _stock_embedding_column(*arguments, **named)
    if not isinstance(scope, CoalescedScope):
        raise ValueError(
            "embedding_column: coalesced_scope is {!r}; need what "
            "tf.feature_column.coalesced_embedding_scope gives".format(scope)
        )
    with scope.columns():
        return _stock_embedding_column(*arguments, **named)


class _Member(NamedTuple):
    """A column that has been looked up: its request, and the Identity that carries its result."""

    request: LookupRequest
    result: tf.Operation


class _InputLayer:
    """The columns of a group that have been looked up so far for one model input.

    Columns arrive one at a time, and each must return its result immediately. So a result is an
    Identity node: as more columns arrive, a single larger lookup replaces the earlier ones as its
    input. To keep this cheap, batches of equal size are merged, as in binary counting, and the last
    column of the group merges everything. Nothing reads the replaced lookups.

        1 column   [1]         3 columns   [2][1]        the last of 26   [26]
        2 columns  [2]         4 columns   [4]           25 of 26, one never used  [16][8][1]

    Replaced lookups are marked, so that the passes do not mistake them for the model's own.
    """

    def __init__(self, inputs: Any, graph: tf.Graph) -> None:
        self._inputs = weakref.ref(inputs)
        self._graph = weakref.ref(graph)
        self._batches: List[List[_Member]] = []

    def is_for(self, inputs: Any, graph: tf.Graph) -> bool:
        return self._inputs() is inputs and self._graph() is graph

    def is_gone(self) -> bool:
        return self._inputs() is None or self._graph() is None

    def look_up(self, request: LookupRequest, scope: str, name: str, columns: int) -> tf.Tensor:
        pooled = lookup_group([request], PARTITION_STRATEGY, scope)[0]
        result = tf.identity(pooled, name=name)
        self._batches.append([_Member(request, result.op)])
        if sum(len(batch) for batch in self._batches) == columns:
            self._merge(0, scope)
        while len(self._batches) > 1 and len(self._batches[-1]) == len(self._batches[-2]):
            self._merge(len(self._batches) - 2, scope)
        return result

    def _merge(self, first: int, scope: str) -> None:
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
    """The columns of one scope, whose tables have so many parts if it says so."""

    def __init__(self, name: str, parts: Optional[int] = None) -> None:
        self._name = name
        self._parts = parts
        self._columns = 0
        self._layers: List[_InputLayer] = []

    def add(self, column: Any) -> Lookup:
        """Adds a column to the group; returns the function that looks it up."""
        column.graph_opt_parts = self._parts
        if _is_stock(column):
            return lambda lookup: lookup.stock()
        self._columns += 1
        return self._look_up

    def _look_up(self, lookup: ColumnLookup) -> tf.Tensor:
        device = lookup.ids.values.device
        own = own_builder(lookup.table)
        if not builder_of(devices_of(lookup.table), device, own).is_grouped:
            return lookup.stock()
        restore_from_checkpoint(lookup.column, lookup.table)
        request = LookupRequest(lookup.table, lookup.ids, lookup.column.combiner, lookup.weights)
        layer = self._layer(lookup.inputs)
        name = "{}_weights".format(lookup.column.name)
        return layer.look_up(request, self._name, name, self._columns)

    def _layer(self, inputs: Any) -> _InputLayer:
        self._layers = [layer for layer in self._layers if not layer.is_gone()]
        graph = tf.get_default_graph()
        for layer in self._layers:
            if layer.is_for(inputs, graph):
                return layer
        self._layers.append(_InputLayer(inputs, graph))
        return self._layers[-1]


def _is_stock(column: Any) -> bool:
    is_safe = getattr(column, "use_safe_embedding_lookup", True)
    of_keys = table_of(column.categorical_column) is not None
    return column.max_norm is not None or not is_safe or of_keys
