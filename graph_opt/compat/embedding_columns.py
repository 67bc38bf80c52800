"""TensorFlow's embedding columns, with a lookup chosen by whoever made the column.

`tf.feature_column.embedding_column` makes an `EmbeddingColumn`, one of whose private methods does
the lookup when a model is built from it. A subclass replaces that method; everything else about the
column remains TensorFlow's, above all its variable and the variable's name.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Callable, Iterator, List, NamedTuple, Optional

from tensorflow.python.feature_column import feature_column_v2
from tensorflow.python.ops import embedding_ops

from graph_opt.compat import tf

_Stock: Any = feature_column_v2.EmbeddingColumn


class ColumnLookup(NamedTuple):
    """What a column is to look up.

    Attributes:
      column: The embedding column.
      inputs: TensorFlow's cache of the features of one model input: the same object for all
        columns of a call to `input_layer`, `linear_model` or a layer.
      table: The variable, which may be partitioned.
      ids: SparseTensor.
      weights: SparseTensor or None.
      stock: Looks up as TensorFlow does.
    """

    column: Any
    inputs: Any
    table: Any
    ids: Any
    weights: Any
    stock: Callable[[], Any]


Lookup = Callable[[ColumnLookup], Any]


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.made: List[Callable[[Any], Lookup]] = []
        self.inputs: List[Any] = []


_scopes = _Scopes()
_patch_lock = threading.Lock()
_patch_users = 0


class ColumnWithLookup(feature_column_v2.EmbeddingColumn):
    """An EmbeddingColumn that delegates its lookup."""

    # Copies lose these, and are stock columns again.
    graph_opt_lookup: Optional[Lookup] = None
    graph_opt_parts: Optional[int] = None  # Of the table; None for what the variable scope says.

    def create_state(self, state_manager: Any) -> None:
        """Lets a layer have the table."""
        with _in_parts(self.graph_opt_parts):
            super().create_state(state_manager)

    def _old_get_dense_tensor_internal(
        self, sparse_tensors: Any, weight_collections: Any, trainable: Any
    ) -> Any:
        with _in_parts(self.graph_opt_parts):
            return super()._old_get_dense_tensor_internal(
                sparse_tensors, weight_collections, trainable
            )

    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        """Like TensorFlow's; remembers which features it is for."""
        with _for_inputs(transformation_cache):
            return super().get_dense_tensor(transformation_cache, state_manager)

    def _get_dense_tensor(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> Any:
        with _for_inputs(inputs):
            return super()._get_dense_tensor(inputs, weight_collections, trainable)

    def _get_dense_tensor_internal_helper(self, sparse_tensors: Any, embedding_weights: Any) -> Any:
        def stock() -> Any:
            return _Stock._get_dense_tensor_internal_helper(self, sparse_tensors, embedding_weights)

        if self.graph_opt_lookup is None or not _scopes.inputs:
            return stock()
        return self.graph_opt_lookup(
            ColumnLookup(
                self,
                _scopes.inputs[-1],
                embedding_weights,
                sparse_tensors.id_tensor,
                sparse_tensors.weight_tensor,
                stock,
            )
        )


# A saved model names the class, which must also be found where there is no graph_opt.
ColumnWithLookup.__name__ = _Stock.__name__


@contextlib.contextmanager
def embedding_columns_with(made: Callable[[Any], Lookup]) -> Iterator[None]:
    """Calls `made` with each embedding column that this thread makes, to get the column's lookup.

    `EmbeddingColumn.__new__` is replaced while the scope is open, and no longer.

    Args:
      made: Called once for each column, right after it is made.
    """
    _scopes.made.append(made)
    _patch()
    try:
        yield
    finally:
        _scopes.made.pop()
        _restore()


@contextlib.contextmanager
def _in_parts(parts: Optional[int]) -> Iterator[None]:
    if parts is None:
        yield
        return
    with tf.variable_scope(tf.get_variable_scope(), partitioner=tf.fixed_size_partitioner(parts)):
        yield


@contextlib.contextmanager
def _for_inputs(inputs: Any) -> Iterator[None]:
    _scopes.inputs.append(inputs)
    try:
        yield
    finally:
        _scopes.inputs.pop()


def _new_column(cls: Any, *arguments: Any, **named: Any) -> Any:
    if cls is not _Stock or not _scopes.made:
        return _stock_new(cls, *arguments, **named)
    column = _stock_new(ColumnWithLookup, *arguments, **named)
    column.graph_opt_lookup = _scopes.made[-1](column)
    return column


_stock_new = _Stock.__new__
# The static method itself, not what it wraps; TensorFlow 1's columns inherit it from a tuple.
_own_new = vars(_Stock).get("__new__")


def _patch() -> None:
    global _patch_users
    with _patch_lock:
        _patch_users += 1
        _Stock.__new__ = _new_column


def _restore() -> None:
    global _patch_users
    with _patch_lock:
        _patch_users -= 1
        if _patch_users > 0:
            return
        if _own_new is None:
            del _Stock.__new__
        else:
            _Stock.__new__ = _own_new


def see_tables_of_columns(seen: Callable[[Any], Any]) -> Callable[[], None]:
    """Calls `seen` with each table that TensorFlow's feature columns look up, of any kind.

    Args:
      seen: Gets the table, before the lookup.

    Returns:
      A function that undoes it.
    """
    names = ("safe_embedding_lookup_sparse", "safe_embedding_lookup_sparse_v2")
    stock = {name: getattr(embedding_ops, name) for name in names}

    def seeing(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def look_up(embedding_weights: Any, *arguments: Any, **named: Any) -> Any:
            seen(embedding_weights)
            return function(embedding_weights, *arguments, **named)

        return look_up

    def undo() -> None:
        for name, function in stock.items():
            setattr(embedding_ops, name, function)

    for name, function in stock.items():
        setattr(embedding_ops, name, seeing(function))
    return undo


def restore_from_checkpoint(column: Any, table: Any) -> None:
    """Initializes the table from the checkpoint that the column names, if it names one."""
    if column.ckpt_to_load_from is not None:
        tf.train.init_from_checkpoint(column.ckpt_to_load_from, {column.tensor_name_in_ckpt: table})
