"""The threads of a stage: which ones run its kernels, and how they yield to main's."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

import pytest

from graph_opt.compat import tf
from graph_opt.runtime import thread_priority
from graph_opt.runtime.metrics import buffer_metrics
from graph_opt.runtime.staged import staged
from tests.forked_programs import run_forked
from tests.runtime.sources import prefetching, wait_until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or thread_priority.cores() == 1,
    reason="threads have no priority there, or nothing to step back for",
)

NICE = os.getpriority(os.PRIO_PROCESS, os.getpid())
NORMAL = (os.SCHED_OTHER, NICE)


class Ran(NamedTuple):
    """The thread that a kernel ran on."""

    thread: str
    policy: int
    nice: int

    @property
    def priority(self) -> Any:
        return self.policy, self.nice


class Recorder:
    """A source of numbers that records where it runs, and waits while its gate is closed."""

    def __init__(self) -> None:
        self.ran: List[Ran] = []
        self.gate = threading.Event()
        self.gate.set()

    def tensor(self, after: Optional[Any] = None) -> Any:
        inputs = [] if after is None else [after]
        return tf.py_func(self._note, inputs, tf.int64)

    def _note(self, *values: Any) -> Any:
        sum(range(50000))  # steps of some length: short ones never lower their priority
        assert self.gate.wait(10)
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        name = threading.current_thread().name
        self.ran.append(Ran(name, os.sched_getscheduler(0), nice))
        return values[0] if values else len(self.ran) - 1

    def wait_for(self, steps: int) -> None:
        wait_until(lambda: len(self.ran) >= steps, "step {}".format(steps))


def priorities(recorder: Recorder) -> List[Any]:
    return [ran.priority for ran in recorder.ran]


@pytest.mark.parametrize(
    "options, low",
    [
        ({}, (os.SCHED_IDLE, NICE)),
        ({"prefetch_priority": 20}, (os.SCHED_IDLE, NICE)),
        ({"prefetch_priority": 7}, (os.SCHED_OTHER, min(19, NICE + 7))),
        ({"prefetch_priority": 0}, NORMAL),
    ],
)
def test_a_stage_yields_while_its_buffer_holds_a_batch_and_main_does_not_wait(
    options: Dict[str, Any], low: Any
) -> None:
    recorder = Recorder()
    taken = staged(recorder.tensor(), capacity=2, name="input", **options)
    values: List[int] = []
    with tf.Session() as session, prefetching(session):
        recorder.wait_for(3)  # two in the buffer, and one that waits for room
        assert priorities(recorder) == [NORMAL, NORMAL, low]
        recorder.gate.clear()
        values = [session.run(taken) for _ in range(3)]
        consumer = threading.Thread(target=lambda: values.append(session.run(taken)))
        consumer.start()
        waits = lambda: buffer_metrics(session)["input"]["pending_takes"] == 1  # noqa: E731
        wait_until(waits, "a take that waits")
        recorder.gate.set()
        consumer.join()
        recorder.wait_for(5)
        assert recorder.ran[4].priority == NORMAL
        assert {ran.thread for ran in recorder.ran} == {"graph_opt/input/0"}
        assert buffer_metrics(session)["input"]["threads"] == 1
    assert values == [0, 1, 2, 3]


def test_a_stage_may_be_left_to_mains_threads() -> None:
    recorder = Recorder()
    taken = staged(recorder.tensor(), prefetch_priority=-1)
    with tf.Session() as session, prefetching(session):
        assert session.run(taken) == 0
        recorder.wait_for(3)
    assert set(priorities(recorder)) == {NORMAL}
    assert not any(ran.thread.startswith("graph_opt/") for ran in recorder.ran)


def test_a_step_that_waited_for_its_batch_continues_in_its_own_thread() -> None:
    source, reader = Recorder(), Recorder()
    source.gate.clear()
    first = staged(source.tensor(), name="first")
    taken = staged(reader.tensor(first), name="second")
    with tf.Session() as session, prefetching(session):
        waits = lambda: buffer_metrics(session)["first"]["pending_takes"] == 1  # noqa: E731
        wait_until(waits, "a take that waits")
        source.gate.set()
        assert [session.run(taken) for _ in range(10)] == list(range(10))
    assert {ran.thread for ran in reader.ran} == {"graph_opt/second/0"}
    assert {ran.thread for ran in source.ran} == {"graph_opt/first/0"}


@pytest.mark.parametrize("priority", [-2, 21, 1.5, True])
def test_priorities_out_of_range_are_refused(priority: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="prefetch_priority="):
        staged(tf.constant(1), prefetch_priority=priority)


_UNPRIVILEGED = """
import ctypes, os, struct, sys, threading
import tensorflow.compat.v1 as tf
import graph_opt

tf.disable_eager_execution()
graph_opt.load_op_library()
graph_opt.Session, graph_opt.staged  # imported while the files can be read
forbidden = sys.argv[1] == "forbidden"
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
if forbidden:
    deny, allow, load, jump = 0x00050001, 0x7FFF0000, 0x20, 0x15
    code = [(load, 0, 0, 0), (jump, 2, 0, 141), (jump, 1, 0, 144)]
    code += [(6, 0, 0, allow), (6, 0, 0, deny)]
    rules = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in code))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(rules))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(38, 1, 0, 0, 0) == 0
    assert prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0

policies = []

def note():
    policies.append(os.sched_getscheduler(0))
    sum(range(50000))  # slower than main, which therefore waits when it takes
    return 1

pause = threading.Event()
with tf.Graph().as_default():
    taken = graph_opt.staged(tf.py_func(note, [], tf.int64), capacity=1)
    with graph_opt.Session() as session:
        for taken_before in (0, 5, 10):
            for _ in range(5):
                session.run(taken)
            while len(policies) < taken_before + 5 + 2:
                pause.wait(0.002)  # main pauses, the buffer fills up
seen = set(policies)
back = any(before == 5 and after == 0 for before, after in zip(policies, policies[1:]))
print("policies", sorted(seen), "back", back)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "case, expected, warnings",
    [("allowed", "policies [0, 5] back True", 0), ("forbidden", "policies [0] back False", 1)],
)
def test_a_process_without_privileges(
    case: str, expected: str, warnings: int, tmp_path: Path
) -> None:
    ran = run_forked(_UNPRIVILEGED, tmp_path, case)
    assert expected in ran.stdout, ran.stdout + ran.stderr
    assert ran.stderr.count("prefetch_priority has no effect") == warnings, ran.stderr


def test_on_one_core_a_stage_is_left_to_mains_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_priority, "cores", lambda: 1)
    recorder = Recorder()
    taken = staged(recorder.tensor(), capacity=3)
    with tf.Session() as session, prefetching(session):
        recorder.wait_for(4)
        assert session.run(taken) == 0
    assert set(priorities(recorder)) == {NORMAL}
    assert not any(ran.thread.startswith("graph_opt/") for ran in recorder.ran)
