"""Ctrl-C, and scripts that never close: the process ends at once with an intact checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf

ROOT = Path(graph_opt.__file__).absolute().parents[1]
END_SECONDS = 60.0  # two on an idle machine

COMMON = """
import sys
import graph_opt
from graph_opt.compat import tf
from tests.session.small_model import async_config, small_model
tf.disable_v2_behavior()
model = small_model(0.1, one_shot=True, epochs=100000)
"""
TRAINING = """
with graph_opt.train.MonitoredTrainingSession(
    config=async_config(threads=2), checkpoint_dir=sys.argv[1], save_checkpoint_steps=20
) as session:
    while not session.should_stop():
        step, _ = session.run([model.global_step, model.train_op])
        if step == 50:
            print("step 50", flush=True)
"""
PLAIN_SESSION = """
session = graph_opt.Session(config=async_config(threads=2))
session.run(tf.global_variables_initializer())
while True:
    step, _ = session.run([model.global_step, model.train_op])
    if step == 50:
        print("step 50", flush=True)
        if sys.argv[1] == "end":
            break
"""

WAITING_SOURCE = """
import threading
waits = threading.Event()
def waits_after_the_first(batch):
    if batch > 0:
        waits.set()
        threading.Event().wait()
    return batch
tf.reset_default_graph()
batch = tf.data.Dataset.range(3).make_one_shot_iterator().get_next()
ids = tf.reshape(tf.py_func(waits_after_the_first, [batch], tf.int64), [1])
rows = tf.nn.embedding_lookup(tf.get_variable("rows", [9, 2]), graph_opt.staged(ids))
session = graph_opt.Session(config=async_config())
session.run(tf.global_variables_initializer())
session.run(rows)
waits.wait()
"""


def start(program: str, argument: str) -> Any:
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONPATH=str(ROOT))
    return subprocess.Popen(
        [sys.executable, "-c", COMMON + program, argument],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        universal_newlines=True,
    )


def seconds_to_end(process: Any, interrupt: bool) -> float:
    """Waits for step 50 and measures how long the process lives after it."""
    try:
        assert process.stdout.readline() == "step 50\n"
        if interrupt:
            process.send_signal(signal.SIGINT)
        started = time.monotonic()
        process.wait(timeout=300)
        return time.monotonic() - started
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_ctrl_c_ends_training_and_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    with start(TRAINING, str(tmp_path)) as process:
        assert seconds_to_end(process, interrupt=True) < END_SECONDS
        assert process.stderr.read().rstrip().endswith("KeyboardInterrupt")
        assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
    checkpoint = tf.train.latest_checkpoint(str(tmp_path))
    reader = tf.train.load_checkpoint(checkpoint)
    names = reader.get_variable_to_shape_map()
    assert {"users", "items", "dense", "global_step"} <= set(names)
    assert all(np.all(np.isfinite(reader.get_tensor(name))) for name in names)


@pytest.mark.parametrize("how", [pytest.param("interrupt", marks=pytest.mark.slow), "end"])
def test_a_session_nobody_closes_does_not_keep_the_process(how: str) -> None:
    with start(PLAIN_SESSION, how) as process:
        seconds = seconds_to_end(process, interrupt=how == "interrupt")
        assert seconds < END_SECONDS
        errors = process.stderr.read()
    assert ("KeyboardInterrupt" in errors) == (how == "interrupt")
    assert process.returncode == (0 if how == "end" else -signal.SIGINT)


@pytest.mark.slow
def test_threads_that_wait_for_their_source_end_with_the_process_without_a_word() -> None:
    with start(WAITING_SOURCE, "") as process:
        try:
            _, errors = process.communicate(timeout=300)
        finally:
            process.kill()
    assert "1 of 1 lookup run ahead" in errors
    assert len([line for line in errors.splitlines() if "graph_opt: " in line]) == 1, errors
    assert process.returncode == 0
