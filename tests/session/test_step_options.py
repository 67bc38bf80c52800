"""Which threads run a step: those of a pool, or the one that calls it."""

from __future__ import annotations

import threading
from typing import Any, Callable, List

import pytest
from tensorflow.core.protobuf.config_pb2 import CallableOptions

import graph_opt
from graph_opt.compat import tf
from graph_opt.config.text import parse_config
from graph_opt.reporting.warnings_given import forget_warnings, warnings_given

INLINE = "executor_policy: 1 "
POOLS = "session_stage_subgraph_thread_pool { inter_op_threads_num: 1 } " * 2


def thread_of_step() -> tf.Tensor:
    given = tf.random.uniform([])
    return tf.py_func(lambda _: threading.get_ident(), [given], tf.int64, stateful=True)


def ways_to_run(session: Any, tensor: Any) -> List[Callable[[], Any]]:
    compiled = session._make_callable_from_options(CallableOptions(fetch=[tensor.name]))
    with_options = session.make_callable(tensor, accept_options=True)
    return [
        lambda: session.run(tensor),
        lambda: session.run(tensor, options=tf.RunOptions(timeout_in_ms=60000)),
        session.make_callable(tensor),
        session.make_callable(tensor, feed_list=[]),
        lambda: with_options(options=None, run_metadata=None),
        lambda: compiled()[0],
    ]


@pytest.mark.parametrize("text", ["", INLINE, INLINE + POOLS])
def test_steps_run_on_the_thread_that_calls_them(text: str) -> None:
    tensor = thread_of_step()
    with graph_opt.install(), tf.Session(config=parse_config(text)) as session:
        for run in ways_to_run(session, tensor):
            assert (run() == threading.get_ident()) == bool(text)


@pytest.mark.parametrize("text", [POOLS, INLINE + POOLS])
def test_a_step_runs_on_a_stage_pool(text: str) -> None:
    tensor = thread_of_step()
    tf.train.get_or_create_global_step()
    with graph_opt.install():
        options = tf.RunOptions(use_stage_subgraph_thread_pool=True, trace_level=1)
        other = tf.RunOptions(use_stage_subgraph_thread_pool=True, stage_subgraph_thread_pool_id=1)
        absent = tf.RunOptions(use_stage_subgraph_thread_pool=True, stage_subgraph_thread_pool_id=2)
        assert isinstance(options, tf.RunOptions) and tf.RunOptions.FULL_TRACE == 3
        with tf.train.MonitoredTrainingSession(config=parse_config(text)) as session:
            first = session.run(tensor, options=options, run_metadata=tf.RunMetadata())
            assert session.run(tensor, options=options) == first != threading.get_ident()
            assert session.run(tensor, options=other) not in (first, threading.get_ident())
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"_id is 2, but .* 2 pools"):
                session.run(tensor, options=absent)


def test_servers_have_their_own_threads() -> None:
    forget_warnings()
    server = tf.train.Server.create_local_server()
    tensor = thread_of_step()
    with graph_opt.install():
        options = tf.RunOptions(use_stage_subgraph_thread_pool=True)
        with tf.Session(server.target, config=parse_config(INLINE + POOLS)) as session:
            assert session.run(tensor, options=options) != threading.get_ident()
    told = "\n".join(warnings_given())
    assert "executor_policy has no effect in a session on a server" in told
    assert "RunOptions.use_stage_subgraph_thread_pool has no effect in a session" in told
