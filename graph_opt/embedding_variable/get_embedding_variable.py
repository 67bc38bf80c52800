"""`tf.get_embedding_variable`."""

from __future__ import annotations

import inspect
from typing import Any, Callable, List, Optional, Union

from graph_opt.compat import tf
from graph_opt.compat.graph_collections import export_as_names
from graph_opt.dynamic.variable import PartOf
from graph_opt.embedding_variable.graph_keys import EMBEDDING_VARIABLES
from graph_opt.embedding_variable.option_classes import EmbeddingVariableOption
from graph_opt.embedding_variable.table_options import table_options
from graph_opt.embedding_variable.variable import (
    EmbeddingVariable,
    PartitionedEmbeddingVariable,
)
from graph_opt.ops.dynamic_table import BY_KEY_1000
from graph_opt.reporting.warnings_given import warn_once

AnyEmbeddingVariable = Union[EmbeddingVariable, PartitionedEmbeddingVariable]

# The number of rows that partitioners are told of: more than any that they compare it with.
_MANY_ROWS = 1 << 40
# What can be reused in a graph: the whole of each table, not its parts.
_MADE = "graph_opt_embedding_variables"
export_as_names(_MADE)


def get_embedding_variable(
    name: str,
    embedding_dim: int,
    key_dtype: Any = tf.int64,
    value_dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Optional[List[str]] = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    custom_getter: Any = None,
    constraint: Any = None,
    steps_to_live: Optional[int] = None,
    init_data_source: Any = None,
    ev_option: Optional[EmbeddingVariableOption] = None,
) -> AnyEmbeddingVariable:
    """A table whose rows are made when their ids first come; or the one of that name.

    Names, scopes and reuse are those of `tf.get_variable`. The table is looked up by
    `tf.nn.embedding_lookup`, `embedding_lookup_sparse` and `safe_embedding_lookup_sparse`, and
    trained by the same optimizers as other variables; only rows of a batch's ids are updated.

    Args:
      name: Of the variable.
      embedding_dim: Number of columns.
      key_dtype: tf.int64, tf.int32, or tf.string, whose hashes are the keys.
      value_dtype: tf.float32.
      initializer: Makes the rows that new rows start as, where `ev_option` has none: an
        initializer or its class; a tensor for one row that all start as. Truncated normal, with
        standard deviation 1, by default.
      regularizer: Not supported: there is no value as a whole.
      trainable: Whether optimizers update it.
      collections: As for `tf.get_variable`.
      caching_device: Without effect.
      partitioner: As for `tf.get_variable`: ids are divided by id % 1000 % parts.
      validate_shape: Without effect.
      custom_getter: As for `tf.get_variable`.
      constraint: Not supported.
      steps_to_live: Deprecated: `tf.GlobalStepEvict` in `ev_option`.
      init_data_source: Without effect.
      ev_option: All other options.

    Returns:
      An `EmbeddingVariable`, or a `PartitionedEmbeddingVariable` if there is a partitioner.

    Raises:
      ValueError: In eager execution; if an option is not supported, or contradicts another.

    Example:
      >>> users = tf.get_embedding_variable("users", embedding_dim=16)
      >>> rows = tf.nn.embedding_lookup(users, user_ids)
    """
    if tf.executing_eagerly():
        raise ValueError("get_embedding_variable: eager execution is on; build a graph instead")
    for argument, value in (("regularizer", regularizer), ("constraint", constraint)):
        if value is not None:
            raise ValueError(
                "EmbeddingVariable {!r}: {} is not supported, as there is no value as a "
                "whole".format(name, argument)
            )
    _say_ignored(name, init_data_source=init_data_source, caching_device=caching_device)
    if value_dtype is not None and tf.as_dtype(value_dtype) != tf.float32:
        raise ValueError(
            "EmbeddingVariable {!r}: value_dtype is {}; need float32".format(
                name, tf.as_dtype(value_dtype).name
            )
        )
    request = VariableRequest(
        int(embedding_dim),
        _key_dtype(name, key_dtype),
        ev_option or EmbeddingVariableOption(),
        steps_to_live,
    )

    return tf.get_variable(
        name,
        [_MANY_ROWS, request.dim],
        tf.float32,
        initializer if callable(initializer) or initializer is None else _OneRow(initializer),
        trainable=trainable,
        collections=collections,
        partitioner=partitioner,
        custom_getter=_with_users_getter(request.get, custom_getter),
    )


class VariableRequest:
    """What `tf.get_variable` does not know of an EmbeddingVariable.

    Args:
      dim: Number of columns.
      key_dtype: tf.int64, tf.int32 or tf.string.
      option: An `EmbeddingVariableOption`.
      steps_to_live: As for `get_embedding_variable`.
    """

    def __init__(self, dim: int, key_dtype: Any, option: Any, steps_to_live: Optional[int]) -> None:
        self.dim = dim
        self.key_dtype = key_dtype
        self.option = option
        self.steps_to_live = steps_to_live

    def get(
        self,
        getter: Any,
        name: str,
        initializer: Any = None,
        reuse: Any = None,
        trainable: bool = True,
        collections: Optional[List[str]] = None,
        partitioner: Any = None,
        **others: Any,
    ) -> AnyEmbeddingVariable:
        """A custom getter: all arguments are those that scopes have completed."""
        del getter
        for variable in tf.get_collection_ref(_MADE):
            if getattr(variable, "name", None) == name + ":0":
                return self._reused(name, variable, reuse)
        if reuse is True:
            raise ValueError(
                "EmbeddingVariable {!r} does not exist, or was not created with "
                "get_embedding_variable(). Did you mean to set reuse=tf.AUTO_REUSE in "
                "VarScope?".format(name)
            )
        _say_ignored(name, **{"the scope's regularizer": others.get("regularizer")})
        variable = self._new(name, initializer, trainable, collections, partitioner)
        tf.add_to_collection(_MADE, variable)
        return variable

    def _reused(
        self, name: str, variable: AnyEmbeddingVariable, reuse: Any
    ) -> AnyEmbeddingVariable:
        if not reuse:
            raise ValueError(
                "EmbeddingVariable {!r} already exists, disallowed. Did you mean to set reuse=True "
                "or reuse=tf.AUTO_REUSE in VarScope?".format(name)
            )
        dim = variable.parts[0].dim
        if dim != self.dim:
            raise ValueError(
                "EmbeddingVariable {!r} has {} columns, not {}: it cannot be reused".format(
                    name, dim, self.dim
                )
            )
        return variable

    def _new(
        self,
        name: str,
        initializer: Any,
        trainable: bool,
        collections: Optional[List[str]],
        partitioner: Any,
    ) -> AnyEmbeddingVariable:
        rows, bank = _bank(name, self.option.init, initializer, self.dim)
        parts = 1 if partitioner is None else _num_parts(name, partitioner, self.dim)
        options = table_options(name, self.option, rows, self.steps_to_live, parts)
        named = [tf.GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)

        def part_of(part_name: str, part: Optional[PartOf]) -> EmbeddingVariable:
            return EmbeddingVariable(
                of_strings=self.key_dtype == tf.string,
                name=part_name,
                dim=self.dim,
                options=options,
                bank=bank,
                key_dtype=tf.int64 if self.key_dtype == tf.string else self.key_dtype,
                trainable=bool(trainable),
                collections=[*named, EMBEDDING_VARIABLES],
                part=part,
            )

        if partitioner is None:
            return part_of(name, None)
        return PartitionedEmbeddingVariable(
            [
                part_of("{}/part_{}".format(name, number), PartOf(name, number, parts, BY_KEY_1000))
                for number in range(parts)
            ]
        )


def _bank(name: str, init: Any, initializer: Any, dim: int) -> Any:
    """The number of rows that new rows start as, and a function that makes them."""
    if init.initializer is not None:
        if initializer is not None:
            tf.logging.info(
                "EmbeddingVariable %r: the initializer is that of InitializerOption", name
            )
        initializer = init.initializer
    if initializer is None:
        initializer = tf.truncated_normal_initializer()
    if inspect.isclass(initializer):
        initializer = initializer()
    if not callable(initializer):
        initializer = _OneRow(initializer)
    if isinstance(initializer, _OneRow):
        row = initializer.value
        return 1, lambda: tf.broadcast_to(tf.cast(row, tf.float32), [1, dim])
    rows = int(init.default_value_dim)
    return rows, lambda: initializer([rows, dim], dtype=tf.float32)


class _OneRow:
    """A tensor that rows start as, in the place of an initializer."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, *shape: Any, **named: Any) -> Any:
        return self.value


def _num_parts(name: str, partitioner: Any, dim: int) -> int:
    """The number of parts that a partitioner makes of a table with any number of rows."""
    numbers = partitioner(shape=tf.TensorShape([_MANY_ROWS, dim]), dtype=tf.float32)
    if any(number != 1 for number in numbers[1:]):
        raise ValueError(
            "EmbeddingVariable {!r}: the partitioner divides columns ({}); only rows can be "
            "divided".format(name, list(numbers))
        )
    return int(numbers[0])


def _with_users_getter(get: Callable[..., Any], users: Any) -> Callable[..., Any]:
    if users is None:
        return get
    return lambda getter, *arguments, **named: users(
        lambda *inner, **inner_named: get(getter, *inner, **inner_named), *arguments, **named
    )


def _key_dtype(name: str, key_dtype: Any) -> Any:
    dtype = tf.as_dtype(key_dtype)
    if dtype not in (tf.int64, tf.int32, tf.string):
        raise ValueError(
            "EmbeddingVariable {!r}: key_dtype is {}; need int64, int32 or string".format(
                name, dtype.name
            )
        )
    return dtype


def _say_ignored(name: str, **arguments: Any) -> None:
    for argument, value in arguments.items():
        if value is not None:
            warn_once(
                "EmbeddingVariable {!r}: {} has no effect".format(name, argument),
                tf.get_default_graph(),
            )
