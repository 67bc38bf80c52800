"""What stages may begin when they go in lock-step with main."""

from __future__ import annotations

import threading

from graph_opt.runtime.lock_step import LockStep


def never() -> bool:
    return False


def test_each_question_lets_a_stage_begin_one_batch() -> None:
    lock_step = LockStep()
    lock_step.ask(["one", "two"])
    lock_step.ask(["one"])
    assert lock_step.wait("one", never) and lock_step.wait("one", never)
    assert lock_step.wait("two", never)
    assert not lock_step.wait("two", lambda: True)


def test_a_stage_that_waits_begins_or_ends_when_it_is_told() -> None:
    lock_step, stopping, may_begin = LockStep(), threading.Event(), []

    def wait() -> None:
        may_begin.append(lock_step.wait("one", stopping.is_set))

    for tell in (lambda: lock_step.ask(["one"]), stopping.set):
        waiting = threading.Thread(target=wait)
        waiting.start()
        tell()
        waiting.join()
    assert may_begin == [True, False]
    lock_step.open()
    assert lock_step.wait("one", never) and lock_step.wait("one", never)
