"""A step is compiled once, when it is made, whichever threads run it, and traced or not."""

from __future__ import annotations

import threading
from typing import Any, List

import numpy as np
import pytest

from graph_opt.compat import callables, tf
from graph_opt.compat.compiled_steps import CompiledStep
from tests.runtime.sources import folded_by_each


def test_all_forms_are_compiled_once_before_the_first_runs() -> None:
    compilations: List[None] = []
    total = tf.get_variable("total", [], tf.int64, tf.zeros_initializer())
    add = total.assign_add(1 + folded_by_each(compilations)).op
    with tf.Session() as session:
        session.run(total.initializer)
        step = CompiledStep(session, [add.name], [])
        assert len(compilations) == 1
        assert session.run(total) == 0
        step.form(callables.CALLER_THREAD)()
        step.form(callables.DEFAULT_POOL)()
        metadata = tf.RunMetadata()
        step.form(callables.CALLER_THREAD, traced=True)(run_metadata=metadata)
        assert session.run(total) == 3
        assert len(compilations) == 1
        callables.compile_call(session, targets=[add.name])
        assert len(compilations) == 2  # A callable is compiled anew.
    nodes = [
        node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats
    ]
    assert add.name in nodes


def test_the_form_decides_which_threads_run_the_kernels() -> None:
    threads: List[int] = []
    note = tf.py_func(lambda: threads.append(threading.get_ident()), [], [])
    with tf.Session() as session:
        step = CompiledStep(session, [note.name], [])
        step.form(callables.CALLER_THREAD)()
        step.form(callables.DEFAULT_POOL)()
    assert threads[0] == threading.get_ident() != threads[1]


@pytest.mark.parametrize(
    "dtype, value",
    [(tf.int64, np.int64(7)), (tf.string, b"seven"), (tf.float32, np.ones([2, 1], "f4"))],
)
def test_feeds_may_be_scalars_as_other_steps_return_them(dtype: Any, value: Any) -> None:
    fed: List[Any] = []
    given = tf.placeholder(dtype)
    note = tf.py_func(fed.append, [given], [])
    with tf.Session() as session:
        CompiledStep(session, [note.name], [given.name]).form(callables.CALLER_THREAD)(value)
    np.testing.assert_array_equal(fed, [value])


def test_a_step_that_cannot_be_compiled_says_why_when_it_is_made() -> None:
    with tf.device("/job:elsewhere"):
        nowhere = tf.no_op()
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="/job:elsewhere"):
            CompiledStep(session, [nowhere.name], [])


def test_errors_of_kernels_and_of_a_closed_session_are_those_of_other_steps() -> None:
    checked = tf.assert_equal(tf.placeholder(tf.int64, [], "given"), tf.constant(1, tf.int64))
    with tf.Session() as session:
        run = CompiledStep(session, [checked.name], ["given:0"]).form(callables.CALLER_THREAD)
        run(np.int64(1))
        with pytest.raises(tf.errors.InvalidArgumentError):
            run(np.int64(2))
    with pytest.raises(tf.errors.CancelledError):
        run(np.int64(1))
    with pytest.raises((tf.errors.CancelledError, RuntimeError)):
        CompiledStep(session, [checked.name], ["given:0"])
