"""Converts stock configs to extended ones and back, and merges configs."""

from __future__ import annotations

import uuid
from typing import Any, List, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.config_descriptor import is_map, is_repeated
from graph_opt.config.messages import ConfigProto, SessionConfig, StockConfigProto

# Field 1009 = true, in bytes. TensorFlow ignores it. It tells the pools that `to_stock` wrote from
# those that the user wrote, so that `extend` can remove exactly the former again.
_WRITTEN_BY_US = b"\x88\x3f\x01"
# Before the name of a session on a server, which ops_src/kernels/buffer/session_resources.cc reads.
_SESSION = "graph_opt/"


def extend(config: Optional[SessionConfig]) -> ConfigProto:
    """`config` as a new extended ConfigProto.

    Args:
      config: None, a stock `tf.ConfigProto` (the fields of ours that it carries as unknown fields
        are restored) or an extended one. It is not changed.

    Returns:
      A new `graph_opt.ConfigProto`, which the caller may change.

    Raises:
      TypeError: `config` is something else.

    Example:
      >>> extend(tf.ConfigProto(allow_soft_placement=True)).allow_soft_placement
      True
    """
    extended = ConfigProto()
    if config is None:
        return extended
    if isinstance(config, ConfigProto):
        extended.CopyFrom(config)
    elif isinstance(config, StockConfigProto):
        extended.MergeFromString(config.SerializeToString())
    else:
        raise TypeError(
            "config must be a graph_opt.ConfigProto, a tf.ConfigProto or None, not {!r}".format(
                config
            )
        )
    _remove_written_pools(extended)
    _remove_session_name(extended)
    return extended


def to_stock(config: Optional[SessionConfig], target: str = "") -> Any:
    """`config` as a stock `tf.ConfigProto`, for TensorFlow's own sessions.

    Options that TensorFlow does not know travel along as unknown fields; `extend` brings them
    back without loss. For a session within the process, pools of
    `session_stage_subgraph_thread_pool` become stock pools as well: pool `p` is number `p + 1`
    of `session_inter_op_thread_pool` (the number that `RunOptions` takes), and number 0 remains the
    pool of the main graph. A session on a server gets a name of its own in the session's metadata:
    its buffers are told by it from those of other sessions there.

    Args:
      config: As for `extend`.
      target: The session's target. Sessions on a server refuse any config with such pools, so
        there are none if `target` is not empty.

    Returns:
      A new `tf.ConfigProto`.

    Raises:
      tf.errors.InvalidArgumentError: The config has both kinds of pools, and more than one of
        TensorFlow's.

    Example:
      >>> tf.Session(config=to_stock(load_config("configs/async_embedding.pbtxt")))
    """
    extended = extend(config)
    if extended.session_stage_subgraph_thread_pool and not target:
        _write_pools(extended)
    if target:
        _name_session(extended)
    stock = StockConfigProto()
    stock.MergeFromString(extended.SerializeToString())
    return stock


def merge(base: Optional[SessionConfig], override: Optional[SessionConfig]) -> ConfigProto:
    """`base`, overridden by everything that `override` sets.

    Scalars of `override` win, messages merge field by field, and maps are united. A list is
    replaced as a whole, so that thread pools keep their numbers. Options that graph_opt or
    DeepRec added can be switched off (`do_async_embedding: false` overrides `true`); a stock
    option at its default is, as everywhere in proto3, the same as one that is not set.

    Args:
      base: As for `extend`; not changed.
      override: Likewise.

    Returns:
      A new `graph_opt.ConfigProto`.
    """
    merged, changes = extend(base), extend(override)
    _clear_lists_set_in(changes, merged)
    merged.MergeFrom(changes)
    return merged


def _clear_lists_set_in(changes: Any, merged: Any) -> None:
    for field, value in changes.ListFields():
        if is_map(field):
            continue
        if is_repeated(field):
            merged.ClearField(field.name)
        elif field.message_type is not None and merged.HasField(field.name):
            _clear_lists_set_in(value, getattr(merged, field.name))


def _write_pools(config: ConfigProto) -> None:
    pools = config.session_inter_op_thread_pool
    if len(pools) > 1:
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "session_inter_op_thread_pool has {} pools and session_stage_subgraph_thread_pool {}: "
            "the stages' pools are numbered after the first of TensorFlow's, so keep at most one "
            "of those, or remove the stages' pools".format(
                len(pools), len(config.session_stage_subgraph_thread_pool)
            ),
        )
    if not pools:
        pools.add().MergeFromString(_WRITTEN_BY_US)
    for pool in config.session_stage_subgraph_thread_pool:
        written = pools.add(num_threads=pool.inter_op_threads_num, global_name=pool.global_name)
        written.MergeFromString(_WRITTEN_BY_US)


def _remove_written_pools(config: ConfigProto) -> None:
    pools = config.session_inter_op_thread_pool
    kept: List[Any] = []
    for pool in pools:
        if not pool.SerializeToString().endswith(_WRITTEN_BY_US):
            kept.append(pool)
    if len(kept) == len(pools):
        return
    copies: Tuple[bytes, ...] = tuple(pool.SerializeToString() for pool in kept)
    config.ClearField("session_inter_op_thread_pool")
    for copy in copies:
        config.session_inter_op_thread_pool.add().MergeFromString(copy)


def _name_session(config: ConfigProto) -> None:
    metadata = config.experimental.session_metadata
    metadata.name = "{}{}/{}".format(_SESSION, uuid.uuid4().hex, metadata.name)


def _remove_session_name(config: ConfigProto) -> None:
    if not config.experimental.session_metadata.name.startswith(_SESSION):
        return
    metadata = config.experimental.session_metadata
    metadata.name = metadata.name.split("/", 2)[2]
    if not metadata.ListFields():
        config.experimental.ClearField("session_metadata")
    if not config.experimental.ListFields():
        config.ClearField("experimental")
