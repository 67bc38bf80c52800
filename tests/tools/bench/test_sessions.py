"""The options of a session: those of its mode, given ones, those of a config file, defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bench.training.sessions import (
    ASYNC,
    DEFAULT_CAPACITY,
    DEFAULT_THREADS_NUM,
    Prefetching,
    session_config,
)


@pytest.mark.parametrize(
    "mode, runs_ahead, is_fused",
    [("async", True, False), ("fused", False, True), ("both", True, True)],
)
def test_a_mode_asks_for_what_it_is_named_after(
    mode: str, runs_ahead: bool, is_fused: bool
) -> None:
    options = session_config(mode).graph_options.optimizer_options
    assert (options.do_async_embedding, options.do_group_embedding) == (runs_ahead, is_fused)
    assert options.HasField("async_embedding_options") == runs_ahead


@pytest.mark.parametrize("mode", ["deferred", "lazy"])
def test_a_mode_of_adam_is_fused_and_has_the_option_of_its_name(mode: str) -> None:
    options = session_config(mode).graph_options.optimizer_options
    assert options.do_group_embedding and not options.do_async_embedding
    assert options.group_embedding_options.adam == mode


def test_what_is_given_wins_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_text(
        "allow_soft_placement: true graph_options { optimizer_options {"
        " async_embedding_options { threads_num: 7 timeout_millis: 900 } } }"
    )
    config = session_config(ASYNC, Prefetching(capacity=5, config=str(path)))
    options = config.graph_options.optimizer_options
    asked = options.async_embedding_options
    assert config.allow_soft_placement and options.do_async_embedding
    assert (asked.threads_num, asked.capacity, asked.timeout_millis) == (7, 5, 900)
    given = session_config(ASYNC, Prefetching(threads_num=3, config=str(path)))
    assert given.graph_options.optimizer_options.async_embedding_options.threads_num == 3


def test_without_a_file_the_defaults_hold() -> None:
    asked = session_config(ASYNC).graph_options.optimizer_options.async_embedding_options
    assert (asked.threads_num, asked.capacity) == (DEFAULT_THREADS_NUM, DEFAULT_CAPACITY)
    assert asked.infer_io_stage and not asked.unordered
