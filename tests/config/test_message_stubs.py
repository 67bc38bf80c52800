"""What type checkers and editors know of the config's messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from graph_opt.compat import tf
from tests.documented.page import REPOSITORY
from tools.docs.message_stubs import STUBS, stubs

HOME = (REPOSITORY / "tools" / "setup" / "releases.txt").read_text("utf-8").split()[0]
# Each line that is wrong ends with what mypy must say of it.
RIGHT = """
import tensorflow.compat.v1 as tf
import graph_opt

config = graph_opt.ConfigProto(
    allow_soft_placement=True,
    gpu_options=tf.GPUOptions(allow_growth=True),
    device_count={"CPU": 1},
    graph_options=graph_opt.GraphOptions(
        optimizer_options=graph_opt.OptimizerOptions(global_jit_level="ON_1")
    ),
)
options = config.graph_options.optimizer_options
options.do_async_embedding = True
options.opt_level = graph_opt.OptimizerOptions.L0
options.async_embedding_options.capacity = 4
options.async_embedding_options.staleness_limit.add(table="users", updates=2)
options.group_embedding_options.lookups.append("user")
config.session_stage_subgraph_thread_pool.add(inter_op_threads_num=2)
config.gpu_options.per_process_gpu_memory_fraction = 0.5
config.experimental.of_another_release = True
other = graph_opt.ConfigProto.FromString(config.SerializeToString())
other.CopyFrom(graph_opt.load_config("configs/async_embedding.pbtxt"))
if options.HasField("async_embedding_options"):
    options.ClearField("do_async_embedding")
graph_opt.Session(config=config)
graph_opt.train.MonitoredTrainingSession(config=tf.ConfigProto())
graph_opt.optimize_graph(tf.get_default_graph(), None)
"""
WRONG = """
import graph_opt

config = graph_opt.ConfigProto()
options = config.graph_options.optimizer_options
options.do_group_embeding = True  # "do_group_embeding"; maybe "do_group_embedding"
options.async_embedding_options.capacity = "4"  # expression has type "str", variable has type "int"
options.group_embedding_options.lookups.append(3)  # "append" of "MutableSequence"
options.async_embedding_options.staleness_limit.add(tabel="users")  # keyword argument "tabel"
options.HasField("do_async_embeding")  # "HasField" of "OptimizerOptions"
graph_opt.ConfigProto(alow_soft_placement=True)  # keyword argument "alow_soft_placement"
graph_opt.OptimizerOptions(global_jit_level="ON_3")  # "global_jit_level" to "OptimizerOptions"
config.graph_options = graph_opt.GraphOptions()  # "graph_options" defined in "ConfigProto"
graph_opt.Session(config="async_embedding.pbtxt")  # "config" to "Session"
graph_opt.optimize_graph(None, "async_embedding.pbtxt")  # Argument 2 to "optimize_graph"
"""


def errors_of(source: str, folder: Path) -> List[str]:
    """What mypy says of a user's script, line by line; of a package it says nothing."""
    pytest.importorskip("mypy")
    (folder / "script.py").write_text(source)
    cache = REPOSITORY / "build" / "mypy_cache" / "of_a_user"
    flags = ["--strict", "--follow-imports=silent", "--ignore-missing-imports", "--config-file="]
    command = [sys.executable, "-m", "mypy", *flags, "--cache-dir", str(cache), "script.py"]
    said = subprocess.run(
        command,
        cwd=str(folder),
        env={"MYPYPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return [line for line in said.stdout.splitlines() if ": error: " in line]


@pytest.mark.skipif(
    tf.version.VERSION != HOME, reason="the stubs are written with TensorFlow " + HOME
)
def test_the_stubs_are_up_to_date() -> None:
    assert STUBS.read_text("utf-8") == stubs(), "python -m tools.docs.message_stubs"


@pytest.mark.slow
def test_a_script_that_is_right_has_no_errors(tmp_path: Path) -> None:
    assert errors_of(RIGHT, tmp_path) == []


@pytest.mark.slow
def test_misspelled_options_and_wrong_types_are_errors(tmp_path: Path) -> None:
    expected = {
        number: line.partition("  # ")[2]
        for number, line in enumerate(WRONG.splitlines(), 1)
        if "  # " in line
    }
    said = {int(line.split(":")[1]): line for line in errors_of(WRONG, tmp_path)}
    assert set(said) == set(expected)
    assert [said[number] for number in said if expected[number] not in said[number]] == []
