"""The options of a session: given ones, those of a config file, and the defaults."""

from __future__ import annotations

from pathlib import Path

from examples.sessions import DEFAULT_CAPACITY, DEFAULT_THREADS_NUM, Prefetching, prefetching_config


def test_what_is_given_wins_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_text(
        "allow_soft_placement: true graph_options { optimizer_options {"
        " async_embedding_options { threads_num: 7 timeout_millis: 900 } } }"
    )
    config = prefetching_config(Prefetching(capacity=5, config=str(path)))
    options = config.graph_options.optimizer_options
    asked = options.async_embedding_options
    assert config.allow_soft_placement and options.do_async_embedding
    assert (asked.threads_num, asked.capacity, asked.timeout_millis) == (7, 5, 900)
    given = prefetching_config(Prefetching(threads_num=3, config=str(path)))
    assert given.graph_options.optimizer_options.async_embedding_options.threads_num == 3


def test_without_a_file_the_defaults_hold() -> None:
    asked = prefetching_config(
        Prefetching()
    ).graph_options.optimizer_options.async_embedding_options
    assert (asked.threads_num, asked.capacity) == (DEFAULT_THREADS_NUM, DEFAULT_CAPACITY)
    assert asked.infer_io_stage and not asked.unordered
