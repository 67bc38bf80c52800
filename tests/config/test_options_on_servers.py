"""What a session's options mean in a session on a server, which has no pools of stages."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format

from graph_opt.config import ConfigProto
from graph_opt.config.options import AsyncEmbeddingOptions, session_options
from graph_opt.config.smart_stage import SmartStageOptions

TARGET = "grpc://localhost:1"
POOL = "session_stage_subgraph_thread_pool { inter_op_threads_num: 2 }"
ASYNC = (
    "do_async_embedding: true async_embedding_options {{ threads_num: 1 capacity: 2 "
    "use_stage_subgraph_thread_pool: true {} }}"
)


def _config(optimizer: str, rest: str) -> Any:
    text = "graph_options {{ optimizer_options {{ {} }} }} {}".format(optimizer, rest)
    return text_format.Parse(text, ConfigProto())


def test_a_session_on_a_server_leaves_the_pools_out() -> None:
    config = _config(ASYNC.format(""), POOL)
    options = session_options(config, TARGET)
    assert options.thread_pools == ()
    assert options.async_embedding == AsyncEmbeddingOptions(threads_num=1, capacity=2)
    (warning,) = options.warnings
    assert "use_stage_subgraph_thread_pool has no effect in a session on a server" in warning


def test_a_session_on_a_server_leaves_a_smart_stages_pool_out() -> None:
    text = "do_smart_stage: true smart_stage_options { use_stage_subgraph_thread_pool: true }"
    options = session_options(_config(text, POOL), TARGET)
    assert options.smart_stage == SmartStageOptions()
    (warning,) = options.warnings
    assert "smart_stage_options.use_stage_subgraph_thread_pool has no effect" in warning


def test_a_session_on_a_server_yields_even_where_a_pool_is_chosen() -> None:
    config = _config(ASYNC.format("prefetch_priority: 5"), POOL)
    config.graph_options.optimizer_options.do_group_embedding = True
    options = session_options(config, TARGET)
    assert options.async_embedding is not None
    assert options.async_embedding.prefetch_priority == 5
    (warning,) = options.warnings
    assert "prefetch_priority" not in warning


def test_a_session_on_a_server_keeps_the_threads_within_an_op() -> None:
    pool = "session_stage_subgraph_thread_pool { intra_op_threads_num: 3 }"
    config = _config(ASYNC.format(""), pool)
    for target, number in (("", 0), (TARGET, -1)):
        options = session_options(config, target).async_embedding
        assert options == AsyncEmbeddingOptions(1, 2, thread_pool=number, intra_op_threads=3)
