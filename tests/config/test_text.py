"""Config files: those in configs/ load, and errors in others name the line and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Optional

import pytest

from graph_opt.compat import tf
from graph_opt.config import load_config
from graph_opt.config.options import AsyncEmbeddingOptions, ThreadPool, session_options
from graph_opt.config.staleness import StalenessLimit, StalenessOptions
from graph_opt.config.text import option_paths

READY_FILES = Path(__file__).resolve().parents[2] / "configs"

EXPECTED: Dict[str, Optional[AsyncEmbeddingOptions]] = {
    "group_embedding.pbtxt": None,
    "async_and_group_embedding.pbtxt": AsyncEmbeddingOptions(
        threads_num=1, capacity=2, infer_io_stage=True
    ),
    "async_and_group_embedding_staleness.pbtxt": AsyncEmbeddingOptions(
        threads_num=1,
        capacity=2,
        infer_io_stage=True,
        staleness=StalenessOptions(64, (StalenessLimit("user", 0),)),
    ),
    "async_and_group_embedding_exact.pbtxt": AsyncEmbeddingOptions(
        threads_num=1, capacity=2, infer_io_stage=True, exact=True
    ),
    "async_embedding.pbtxt": AsyncEmbeddingOptions(threads_num=1, capacity=2, infer_io_stage=True),
    "async_embedding_thread_pool.pbtxt": AsyncEmbeddingOptions(
        threads_num=2, capacity=2, infer_io_stage=True, thread_pool=0
    ),
    "shard_tables.pbtxt": None,
}


@pytest.mark.parametrize("path", sorted(READY_FILES.glob("*.pbtxt")), ids=lambda path: path.name)
def test_every_config_file_loads_without_warnings(path: Path) -> None:
    options = session_options(load_config(path))
    assert options.warnings == ()
    assert options.async_embedding == EXPECTED[path.name]
    assert (options.group_embedding is not None) == ("group" in path.name)
    assert (options.shard_tables is not None) == ("shard" in path.name)


def test_the_thread_pool_file_makes_its_pool() -> None:
    options = session_options(load_config(str(READY_FILES / "async_embedding_thread_pool.pbtxt")))
    assert options.thread_pools == (ThreadPool(4, 0, "prefetch"),)


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "# a comment\ngraph_options {\n  optimizer_options { do_async_embeding: true }\n}",
            r"bad.pbtxt:3:23: OptimizerOptions has no option 'do_async_embeding'; "
            r"did you mean 'do_async_embedding'",
        ),
        (
            "threads_num: 3",
            r"bad.pbtxt:1:1: .* belongs in "
            r"'graph_options.optimizer_options.async_embedding_options.threads_num'",
        ),
        ("allow_soft_placements: true", "did you mean 'allow_soft_placement'"),
        (
            "\nstage_multi_streams: true",
            "bad.pbtxt:2:1: .*'graph_options.optimizer_options.stage_multi_stream'",
        ),
        ("qqq: 1", "ConfigProto has no option 'qqq'; it has device_count, "),
        (
            "graph_options { optimizer_options { opt_level: L9 } }",
            "'L9' is not a value of Level; use 'L1' or 'L0'",
        ),
        ("allow_soft_placement: yes", "bad.pbtxt:1:"),
        ("intra_op_parallelism_threads: 99999999999", "bad.pbtxt:1:"),
        ("graph_options {\n", "bad.pbtxt:"),
        ("allow_soft_placement: true allow_soft_placement: true", "allow_soft_placement"),
    ],
)
def test_errors_name_file_line_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.pbtxt"
    path.write_text(text)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        load_config(path)


def test_missing_unreadable_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.NotFoundError, match=r"none.pbtxt: there is no such config file"):
        load_config(tmp_path / "none.pbtxt")
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot be read: Is a directory"):
        load_config(tmp_path)
    binary = tmp_path / "binary.pb"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a text proto"):
        load_config(binary)


def test_an_empty_file_is_an_empty_config(tmp_path: Path) -> None:
    path = tmp_path / "empty.pbtxt"
    path.write_text("")
    assert session_options(load_config(path)).async_embedding is None


def test_option_paths_lead_to_scalars_only() -> None:
    paths = option_paths()
    assert "graph_options" not in paths and "device_count" not in paths
    assert paths["do_async_embedding"] == ("graph_options.optimizer_options.do_async_embedding",)
