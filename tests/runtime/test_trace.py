"""Traces: steps of prefetch threads and of main, bounded, on one clock."""

from __future__ import annotations

import threading
import time

from graph_opt.compat import tf
from graph_opt.runtime.staged import staged
from graph_opt.runtime.trace import MAIN, StepRecord, StepTrace, trace_of
from graph_opt.runtime.trace_waits import StepTraceHook
from graph_opt.session.prefetch_hook import make_prefetch_hook
from tests.runtime.sources import drain, numbers, prefetching


def test_every_step_of_every_thread_is_recorded() -> None:
    taken = staged(staged(numbers(10), name="io"), num_threads=2, name="lookup")
    before = time.perf_counter()
    with tf.Session() as session:
        with prefetching(session):
            drain(session, taken)
        records = trace_of(session).records()
    assert sum(record.stage == "io" for record in records) == 10
    lookups = [record for record in records if record.stage == "lookup"]
    assert len(lookups) == 10
    assert {record.thread for record in lookups} <= {"graph_opt/lookup/0", "graph_opt/lookup/1"}
    assert all(before < r.start <= r.end < time.perf_counter() for r in records)
    io_steps = [record.step for record in records if record.stage == "io"]
    assert io_steps == list(range(10))


def test_main_is_recorded_by_the_hook_and_by_hand() -> None:
    taken = staged(numbers())
    hook = StepTraceHook()
    with tf.train.MonitoredSession(hooks=[make_prefetch_hook(), hook]) as session:
        for _ in range(4):
            session.run(taken)
    steps = [record for record in hook.trace.records() if record.stage == MAIN]
    assert [record.step for record in steps] == [0, 1, 2, 3]
    assert {record.stage for record in hook.trace.records()} == {MAIN, "staged"}
    with tf.Session() as session:
        with trace_of(session).main_step():
            session.run(tf.no_op())
        assert [record.stage for record in trace_of(session).records()] == [MAIN]


def test_a_detailed_trace_shows_who_waited_when() -> None:
    taken = staged(numbers(), name="io")
    hook = StepTraceHook()
    with tf.train.MonitoredSession(hooks=[make_prefetch_hook(), hook]) as session:
        session.run(taken)
        hook.trace.detailed = True
        for _ in range(20):
            session.run(taken)
    main = [record for record in hook.trace.records() if record.stage == MAIN]
    assert main[0].waits == () and [wait.op for wait in main[-1].waits] == ["TensorBufferTake"]
    puts = [r for r in hook.trace.records() if r.stage == "io" and r.waits]
    assert {wait.op for record in puts for wait in record.waits} == {"TensorBufferPut"}
    # The two clocks agree to the millisecond.
    for record in [main[-1], *puts[2:]]:
        for wait in record.waits:
            assert record.start - 1e-3 < wait.start <= wait.end < record.end + 1e-3


def test_a_trace_is_bounded_and_safe_to_read_while_written() -> None:
    trace = StepTrace(length=100)
    stop = threading.Event()

    def write() -> None:
        step = 0
        while not stop.is_set():
            trace.append(StepRecord("io", "t", step, 0.0, 1.0))
            step += 1

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    lengths = {len(trace.records()) for _ in range(200)}
    stop.set()
    for writer in writers:
        writer.join()
    assert max(lengths) <= 100
    trace.clear()
    assert trace.records() == []
