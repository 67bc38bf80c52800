"""What a session's options mean, and every way in which they can be wrong."""

from __future__ import annotations

import re
from typing import Any

import pytest
from google.protobuf import text_format

from graph_opt.compat import tf
from graph_opt.config import ConfigProto, to_stock
from graph_opt.config.options import (
    SWITCHES,
    AsyncEmbeddingOptions,
    GroupEmbeddingOptions,
    SessionOptions,
    ShardTablesOptions,
    ThreadPool,
    session_options,
)
from graph_opt.config.smart_stage import SmartStageOptions
from graph_opt.ops.stage_spec import DEFAULT_PRIORITY

GOOD = "threads_num: 1 capacity: 2"
POOL = "session_stage_subgraph_thread_pool { inter_op_threads_num: 2 }"


def _config(optimizer: str, rest: str = "") -> Any:
    text = "graph_options {{ optimizer_options {{ {} }} }} {}".format(optimizer, rest)
    return text_format.Parse(text, ConfigProto())


def _async_config(options: str, rest: str = "") -> Any:
    return _config(
        "do_async_embedding: true async_embedding_options {{ {} }}".format(options), rest
    )


@pytest.mark.parametrize("config", [None, ConfigProto(), tf.ConfigProto(log_device_placement=True)])
def test_a_config_without_our_options_asks_for_nothing(config: Any) -> None:
    assert session_options(config) == SessionOptions()


@pytest.mark.parametrize("number, switch", list(enumerate(SWITCHES)))
def test_each_switch_asks_for_one_optimization(number: int, switch: str) -> None:
    needed = "async_embedding_options {{ {} }}".format(GOOD)
    value = "2" if switch == "micro_batch_num" else "true"
    options = session_options(_config("{}: {} {}".format(switch, value, needed)))
    asked = [request is not None for request in options.requests]
    assert asked == [place == number for place in range(len(SWITCHES))]
    assert options.ask_for_anything and not options.asking_for_nothing().ask_for_anything


def test_options_are_read_from_ours_and_from_stock() -> None:
    config = _async_config(
        "threads_num: 3 capacity: 4 use_stage_subgraph_thread_pool: true unordered: true "
        "stage_subgraph_thread_pool_id: 1 timeout_millis: 5 infer_io_stage: true",
        POOL + ' session_stage_subgraph_thread_pool { global_name: "two" }',
    )
    expected = SessionOptions(
        async_embedding=AsyncEmbeddingOptions(
            threads_num=3,
            capacity=4,
            thread_pool=1,
            unordered=True,
            timeout_millis=5,
            infer_io_stage=True,
        ),
        thread_pools=(ThreadPool(2, 0, ""), ThreadPool(0, 0, "two")),
    )
    assert session_options(config) == expected
    assert session_options(to_stock(config)) == expected


def test_defaults() -> None:
    options = session_options(_async_config(GOOD)).async_embedding
    assert options == AsyncEmbeddingOptions(threads_num=1, capacity=2)
    assert options.thread_pool == -1 and not options.infer_io_stage
    assert options.prefetch_priority == DEFAULT_PRIORITY


@pytest.mark.parametrize("priority", [-1, 0, 20])
def test_a_priority_of_zero_is_not_the_default(priority: int) -> None:
    text = "{} prefetch_priority: {}".format(GOOD, priority)
    options = session_options(_async_config(text)).async_embedding
    assert options == AsyncEmbeddingOptions(1, 2, prefetch_priority=priority)


@pytest.mark.parametrize("target, warned", [("", False), ("grpc://localhost:1", True)])
def test_a_priority_has_no_effect_in_a_session_on_a_server(target: str, warned: bool) -> None:
    options = session_options(_async_config(GOOD + " prefetch_priority: 5"), target)
    assert any("prefetch_priority has no effect" in line for line in options.warnings) == warned


BAD = [
    ("capacity: 2", "", r"async_embedding_options.threads_num is not set.*1 to start with"),
    ("threads_num: 0 capacity: 2", "", "threads_num is 0, must be 1 to 1024, or -1 to have it"),
    ("threads_num: 1 capacity: 0", "", "capacity is 0, must be at least 1, or -1 to have it tuned"),
    ("threads_num: 1", "", r"async_embedding_options.capacity is not set"),
    ("threads_num: -2 capacity: 2", "", "threads_num is -2, must be 1 to 1024"),
    (GOOD + " autotune_memory_mb: 0", "", "autotune_memory_mb is 0, must be at least 1"),
    ("threads_num: 1025 capacity: 2", "", "threads_num is 1025, must be 1 to 1024"),
    ("threads_num: 1 capacity: -2", "", "capacity is -2, must be at least 1"),
    (GOOD + " timeout_millis: -1", "", "timeout_millis is -1, must be at least 0"),
    (GOOD + " staleness_sample_steps: -1", "", "staleness_sample_steps is -1, must be at least 0"),
    (GOOD + " staleness_limit { updates: 1 }", "", "staleness_limit.table is not set"),
    (GOOD + " staleness_limit { table: '(' }", "", "not a regular expression"),
    (GOOD + " staleness_limit { table: 'a' updates: -1 }", "", "updates is -1, must be at least 0"),
    (GOOD + " exact: true", "", "exact needs do_group_embedding"),
    (GOOD + " prefetch_priority: 21", "", "prefetch_priority is 21, must be -1 to 20"),
    (GOOD + " prefetch_priority: -2", "", "prefetch_priority is -2, must be -1 to 20"),
    (GOOD + " use_stage_subgraph_thread_pool: true", "", "no such pool: add one with config"),
    (
        GOOD + " use_stage_subgraph_thread_pool: true stage_subgraph_thread_pool_id: 1",
        POOL,
        "pool_id is 1, but session_stage_subgraph_thread_pool has 1 pool: use 0,",
    ),
    (
        GOOD + " use_stage_subgraph_thread_pool: true stage_subgraph_thread_pool_id: -1",
        POOL + POOL,
        "pool_id is -1, but .* has 2 pools: use 0 to 1,",
    ),
    (
        GOOD,
        "session_stage_subgraph_thread_pool { inter_op_threads_num: -3 }",
        r"session_stage_subgraph_thread_pool\[0\].inter_op_threads_num is -3, must be 0 to 1024",
    ),
    (
        GOOD,
        POOL + " session_stage_subgraph_thread_pool { intra_op_threads_num: -1 }",
        r"session_stage_subgraph_thread_pool\[1\].intra_op_threads_num is -1",
    ),
]


@pytest.mark.parametrize("options, rest, message", BAD)
def test_bad_options_are_errors_with_the_fix_in_them(options: str, rest: str, message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session_options(_async_config(options, rest))


def test_options_of_a_feature_that_is_off_are_not_validated() -> None:
    options = session_options(_config("async_embedding_options { threads_num: -1 }"))
    assert options.async_embedding is None
    assert len(options.warnings) == 1
    assert "do_async_embedding is not" in options.warnings[0]


@pytest.mark.parametrize(
    "optimizer, rest, words",
    [
        (
            "embedding_layer_device_placement_optimization: true",
            "",
            "placement_optimization has no",
        ),
        ("stage_multi_stream: true", "", "stage_multi_stream has no effect"),
        ("do_op_fusion: true", "", "do_op_fusion has no effect"),
        ("stage_subgraph_on_cpu: true", "", "has no effect without do_smart_stage"),
        ("smart_stage_options { capacity: 2 }", "", "has no effect without do_smart_stage"),
        (
            "do_smart_stage: true smart_stage_options { stage_subgraph_stream_id: 1 }",
            "",
            "stage_subgraph_stream_id has no effect",
        ),
        ("", "tensor_fuse: true", "tensor_fuse has no effect"),
        ("", "run_graph_mode: true", "run_graph_mode has no effect"),
        ("", "run_graph_mode_lite: true", "run_graph_mode_lite has no effect"),
        ("", "executor_policy: 2", "executor_policy 2 has no effect"),
        ("", "cuda_graph_mode_options {}", "cuda_graph_mode_options has no effect"),
        ("", "use_per_session_stream: true", "use_per_session_stream has no effect"),
        ("", 'per_session_devices: "/gpu:0"', "per_session_devices has no effect"),
        ("group_embedding_options { lazy_adam: true }", "", "no effect without do_group_embedding"),
        ("do_smart_stage_gpu: true", "", "do_smart_stage_gpu means the same"),
        (
            "do_async_embedding: true async_embedding_options {{ {} "
            "stage_subgraph_thread_pool_id: 1 }}".format(GOOD),
            "",
            "without use_stage_subgraph_thread_pool",
        ),
        (
            "do_async_embedding: true async_embedding_options {{ {} prefetch_priority: 5 "
            "use_stage_subgraph_thread_pool: true }}".format(GOOD),
            POOL,
            "prefetch_priority has no effect with use_stage",
        ),
        (
            "",
            "session_stage_subgraph_thread_pool { intra_op_threads_num: 2 }",
            "intra_op_threads_num has no effect without do_async_embedding",
        ),
    ],
)
def test_accepted_options_without_effect_give_one_warning_each(
    optimizer: str, rest: str, words: str
) -> None:
    warnings = session_options(_config(optimizer, rest)).warnings
    assert len(warnings) == 1
    assert words in warnings[0]


def _smart_stage(text: str, rest: str = "") -> Any:
    return session_options(_config("do_smart_stage: true " + text, rest)).smart_stage


def test_options_of_a_smart_stage_are_read() -> None:
    assert session_options(_config("")).smart_stage is None
    assert _smart_stage("") == SmartStageOptions()
    text = (
        "capacity: 3 num_threads: 4 num_clients: 2 timeout_millis: 9 closed_exceptions: 5 "
        "ignored_exceptions: 15 use_stage_subgraph_thread_pool: true name: 'ahead'"
    )
    told = _smart_stage(
        "stage_subgraph_on_cpu: true smart_stage_options {{ {} }}".format(text), POOL
    )
    assert told == SmartStageOptions(4, 6, 0, 9, (5,), (15,), "ahead", on_cpu=True)


def test_threads_and_capacity_may_be_tuned() -> None:
    config = _async_config("threads_num: -1 capacity: -1 autotune_memory_mb: 64")
    options = session_options(config)
    assert options.async_embedding == AsyncEmbeddingOptions(-1, -1, tuning_bytes=64 << 20)
    assert options.warnings == ()
    smart = _smart_stage(
        "smart_stage_options { capacity: -1 num_threads: -1 num_clients: 2 } "
        "async_embedding_options { autotune_memory_mb: 64 }"
    )
    assert smart == SmartStageOptions(-1, -1, tuning_bytes=64 << 20)


def test_memory_for_tuning_without_tuning_is_warned_about() -> None:
    warnings = session_options(_async_config(GOOD + " autotune_memory_mb: 64")).warnings
    assert (
        len(warnings) == 1 and "has no effect unless threads_num or capacity is -1" in warnings[0]
    )


@pytest.mark.parametrize(
    "text, message",
    [
        ("capacity: 0", "smart_stage_options.capacity is 0, must be at least 1"),
        ("num_threads: 1025", "smart_stage_options.num_threads is 1025, must be 1 to 1024"),
        ("timeout_millis: -1", "smart_stage_options.timeout_millis is -1"),
        ("use_stage_subgraph_thread_pool: true", "the session has no such pool"),
        ("name: 'a/b'", "which is not the name of a node"),
    ],
)
def test_bad_options_of_a_smart_stage_are_errors(text: str, message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        _smart_stage("smart_stage_options {{ {} }}".format(text))


def test_options_that_are_off_cause_no_warning() -> None:
    config = _config(
        "do_smart_stage: false micro_batch_num: 0 do_op_fusion: false do_async_embedding: false "
        "do_group_embedding: false group_embedding_options { lazy_adam: true } "
        "async_embedding_options { threads_num: 1 capacity: 1000 }"
    )
    assert session_options(config).warnings == ()


@pytest.mark.parametrize(
    "capacity, threads, warned", [(31, 1, False), (32, 1, True), (2, 31, True)]
)
def test_rows_that_may_miss_many_updates_cause_a_warning(
    capacity: int, threads: int, warned: bool
) -> None:
    config = _async_config("capacity: {} threads_num: {}".format(capacity, threads))
    warnings = session_options(config).warnings
    assert len(warnings) == int(warned)
    if warned:
        assert "may miss the last {} updates".format(capacity + threads) in warnings[0]
        assert "set capacity to 2 to 8" in warnings[0]


GROUP = "graph_options { optimizer_options { do_group_embedding: true group_embedding_options { "


def group_options(text: str) -> GroupEmbeddingOptions:
    """The validated options of a config with this text as its `group_embedding_options`."""
    config = text_format.Parse(GROUP + text + " } } }", ConfigProto())
    options = session_options(config).group_embedding
    assert options is not None
    return options


def test_group_embedding_is_off_unless_asked_for() -> None:
    assert session_options(ConfigProto()).group_embedding is None


def test_group_embedding_options_have_defaults_that_fuse_everything() -> None:
    assert group_options("") == GroupEmbeddingOptions(
        minimum_lookups=1, lookups=(), fuse_update=True, adam="deferred", require_server_ops=False
    )


def test_group_embedding_options_are_read() -> None:
    text = "lazy_adam: true minimum_lookups: 3 lookups: 'a' lookups: 'b$' fuse_update: false"
    assert group_options(text) == GroupEmbeddingOptions(
        minimum_lookups=3, lookups=("a", "b$"), fuse_update=False, adam="lazy"
    )


@pytest.mark.parametrize(
    "text, adam",
    [
        ("adam: 'deferred'", "deferred"),
        ("adam: 'lazy' lazy_adam: true", "lazy"),
        ("adam: 'stock' lazy_adam: false", "stock"),
    ],
)
def test_adam_is_what_the_option_says(text: str, adam: str) -> None:
    assert group_options(text).adam == adam


@pytest.mark.parametrize(
    "text, named",
    [
        ("minimum_lookups: -1", "minimum_lookups is -1"),
        ("lookups: 'emb('", "not a regular expression"),
        ("adam: 'lasy'", "adam is 'lasy', must be 'deferred', 'lazy' or 'stock'"),
        ("adam: 'deferred' lazy_adam: true", "lazy_adam is true: set only adam"),
        ("adam: 'lazy' lazy_adam: false", "lazy_adam is false: set only adam"),
    ],
)
def test_bad_group_embedding_options_are_named(text: str, named: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(named)):
        group_options(text)


@pytest.mark.parametrize(
    "text, named",
    [
        ("micro_batch_rule: 'rows'", "micro_batch_rule is 'rows', must be 'parts' or 'batches'"),
        ("shadow_difference: 'warn'", "shadow_difference is 'warn', must be 'stock' or 'fail'"),
    ],
)
def test_choices_are_named(text: str, named: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(named)):
        session_options(_config(text))


def _shard_config(options: str) -> Any:
    return _config("shard_tables: true shard_tables_options {{ {} }}".format(options))


@pytest.mark.parametrize(
    "options, expected",
    [
        ("", ShardTablesOptions(64 << 20)),
        ("min_table_bytes: 0", ShardTablesOptions(0)),
        ("memory_budget_bytes: 8589934592", ShardTablesOptions(0, 8589934592)),
        ("min_table_bytes: 9 memory_budget_bytes: 99", ShardTablesOptions(9, 99)),
        ("tables: 'users' tables: 'items:0'", ShardTablesOptions(64 << 20, 0, ("users", "items"))),
    ],
)
def test_which_tables_are_divided(options: str, expected: ShardTablesOptions) -> None:
    assert session_options(_shard_config(options)).shard_tables == expected
    assert session_options(to_stock(_shard_config(options))).shard_tables == expected


@pytest.mark.parametrize("name", ["min_table_bytes", "memory_budget_bytes"])
def test_negative_sizes_are_errors(name: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=name + " is -1, must be at least 0"):
        session_options(_shard_config(name + ": -1"))


@pytest.mark.parametrize(
    "options, most",
    [
        ("", 131072),
        ("pack_dense: true", 131072),
        ("pack_dense: false pack_dense_max_bytes: 9", 0),
        ("pack_dense_max_bytes: 9", 9),
    ],
)
def test_which_weights_travel_together(options: str, most: int) -> None:
    options += " do_group_embedding: true"
    assert session_options(_config(options)).pack_dense_max_bytes == most
    assert session_options(to_stock(_config(options))).pack_dense_max_bytes == most
    with pytest.raises(tf.errors.InvalidArgumentError, match="max_bytes is 0, must be at least 1"):
        session_options(_config("pack_dense_max_bytes: 0"))


def test_weights_do_not_travel_together_without_lookups_that_are_optimized() -> None:
    (warning,) = session_options(_config("pack_dense: true")).warnings
    assert "pack_dense has no effect without do_async_embedding, do_group_embedding" in warning


def test_options_of_an_optimization_that_is_off_warn() -> None:
    warnings = session_options(_config("shard_tables_options { tables: 'a' }")).warnings
    assert "shard_tables_options has no effect without shard_tables" in warnings[0]
