"""Threads and capacity change while stages run: nothing is lost, doubled or reordered."""

from __future__ import annotations

import random
import time
from types import SimpleNamespace
from typing import Any, ClassVar, Dict, List, Sequence

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.export.users_graph import users_graph_def
from graph_opt.ops.stage_spec import CAPACITY, THREADS, StageSpec, has_spec, spec_of
from graph_opt.ops.tensor_buffer import METRIC_NAMES
from graph_opt.runtime import stage_tuner
from graph_opt.runtime.staged import prefetch_join, staged
from graph_opt.runtime.tuning import Setting, Tuning, Window
from tests.runtime.sources import drain, failing_at, numbers, prefetching, runner_of, wait_until
from tests.session.small_model import async_config, initialize, report_on, run_to_end, small_model


class RandomTuning(Tuning):
    """Changes the setting all the time."""

    def __init__(self, tuned: Sequence[str], start: Setting, *others: Any) -> None:
        super().__init__(tuned, start, *others)
        self._random = random.Random(3)
        self.window_seconds = 0.0

    def observe(self, window: Window) -> None:
        threads, capacity = self.setting
        if THREADS in self._tuned:
            threads = self._random.randint(1, 5)
        if CAPACITY in self._tuned:
            capacity = self._random.randint(1, 5)
        self.setting = Setting(threads, capacity)


class TurnTuning(Tuning):
    """Tries a change all the time, for some windows each, and notes who else does."""

    all: ClassVar[List[TurnTuning]] = []
    tried = 0
    seen_trying = 0
    windows = 0

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.window_seconds = 0.0
        TurnTuning.all.append(self)

    @property
    def is_trying(self) -> bool:
        return self.windows % 7 > 3

    def observe(self, window: Window) -> None:
        self.windows += 1
        self.tried += self.is_trying
        self.seen_trying += any(other.is_trying for other in TurnTuning.all if other is not self)


class SimulatedBuffer:
    """A buffer whose main takes so many batches a second, by a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.taken = 0.0
        self.pool = SimpleNamespace(stage=self, resize=lambda threads: None)
        self.spec = StageSpec("io").sized(-1, -1, 1 << 20)
        self.puts = [SimpleNamespace(threads_num=1)]

    def advance(self, seconds: float, rate: float) -> None:
        self.now += seconds
        self.taken += seconds * rate

    def metrics(self, stage: Any) -> Dict[str, int]:
        return dict(dict.fromkeys(METRIC_NAMES, 0), take_count=int(self.taken))

    def resize(self, stage: Any, capacity: int) -> None:
        pass


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_tuner, "Tuning", RandomTuning)
    monkeypatch.setattr(stage_tuner, "LEAST_BATCHES", 1)
    monkeypatch.setattr(stage_tuner, "SHORTEST_WINDOW", 0.0)


@pytest.mark.usefixtures("changes")
@pytest.mark.parametrize("remote", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_batches_keep_their_order_while_threads_come_and_go(remote: bool, server: Any) -> None:
    first = staged(numbers(1500), capacity=-1, name="tuned/io")
    taken = staged(first + 0, capacity=-1, num_threads=-1, name="tuned/lookup")
    with tf.Session(server.target if remote else "") as session, prefetching(session) as hook:
        seen, threads, capacities = [], set(), set()
        for _ in range(15):
            seen += [session.run(taken) for _ in range(90)]
            metrics = runner_of(hook).metrics()["tuned/lookup"]
            threads.add(metrics["threads"])
            capacities.add(metrics["capacity"])
        seen += drain(session, taken)
        assert seen == list(range(1500))
        assert len(threads) > 2 and len(capacities) > 2
        wait_until(lambda: not runner_of(hook).running, "end of threads")


@pytest.mark.usefixtures("changes")
def test_an_error_surfaces_once_while_threads_come_and_go() -> None:
    taken = staged(failing_at(400, 200), capacity=-1, num_threads=-1)
    with tf.Session() as session, prefetching(session):
        assert [session.run(taken) for _ in range(200)] == list(range(200))
        with pytest.raises(tf.errors.InvalidArgumentError, match="row is torn"):
            session.run(taken)
        assert drain(session, taken) == list(range(201, 400))


@pytest.mark.usefixtures("changes")
def test_joined_threads_stay_and_their_room_is_tuned() -> None:
    # Neither input ends before the threads are counted, however uneven their turns are.
    taken = prefetch_join([numbers(350), numbers(350) + 1000], capacity=-1)
    with tf.Session() as session, prefetching(session) as hook:
        seen = [session.run(taken) for _ in range(300)]
        assert next(iter(runner_of(hook).metrics().values()))["threads"] == 2
        seen += drain(session, taken)
    assert sorted(seen) == [*range(350), *range(1000, 1350)]


def test_a_stage_starts_with_one_thread_and_room_for_a_batch_of_each_client() -> None:
    taken = staged(numbers(), capacity=-1, num_threads=-1, num_clients=2, name="io")
    with tf.Session() as session, prefetching(session) as hook:
        assert session.run(taken) == 0
        metrics = runner_of(hook).metrics()["io"]
        assert (metrics["threads"], metrics["capacity"]) == (1, 2)


@pytest.mark.usefixtures("changes")
def test_a_session_restarts_with_what_it_has_found_and_closes_mid_change() -> None:
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(2**40))
    taken = staged(iterator.get_next(), capacity=-1, num_threads=-1)
    with graph_opt.Session() as session:
        for _ in range(3):
            session.run(iterator.initializer)
            assert [session.run(taken) for _ in range(100)] == list(range(100))


@pytest.mark.usefixtures("changes")
def test_lookups_see_each_batch_once_and_the_report_tells_what_was_chosen() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        stock = small_model(epochs=20)
        initialize(session, stock)
        expected = [loss for loss, _ in run_to_end(session, [stock.loss, stock.train_op])]
    model = small_model(epochs=20)
    with graph_opt.Session(config=async_config(-1, -1)) as session:
        initialize(session, model)
        steps = run_to_end(session, [model.loss, model.train_op])
        told = str(report_on(session.graph))
    assert [loss for loss, _ in steps] == expected
    assert "stage 'async_embedding' is tuned to threads_num" in told
    assert "a row may miss up to" in told


def test_one_stage_at_a_time_tries_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_tuner, "Tuning", TurnTuning)
    monkeypatch.setattr(stage_tuner, "LEAST_BATCHES", 1)
    monkeypatch.setattr(stage_tuner, "SHORTEST_WINDOW", 0.0)
    monkeypatch.setattr(TurnTuning, "all", [])
    first = staged(numbers(), capacity=-1, name="tuned/io")
    taken = staged(first + 0, capacity=-1, name="tuned/lookup")
    with tf.Session() as session, prefetching(session):
        wait_until(
            lambda: session.run(taken) >= 0 and all(each.tried > 8 for each in TurnTuning.all),
            "tries of both stages",
        )
    assert len(TurnTuning.all) == 2
    assert not any(each.seen_trying for each in TurnTuning.all)


@pytest.mark.parametrize("rate", [300.0, 0.7])
def test_what_main_does_between_its_steps_does_not_count(
    rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer: Any = SimulatedBuffer()
    seen: List[float] = []
    monkeypatch.setattr(time, "perf_counter", lambda: buffer.now)
    monkeypatch.setattr(Tuning, "observe", lambda tuning, window: seen.append(window.rate))
    stage = stage_tuner._TunedStage(buffer.pool, buffer, None)
    for seconds, taking in ((100.0, rate), (1000.0, 0.0), (100.0, rate)):
        for _ in range(int(seconds / 0.1)):
            buffer.advance(0.1, taking)
            stage.observe()
    assert len(seen) > 20
    assert min(seen) > 0.5 * rate


def test_an_exported_stage_is_still_tuned() -> None:
    staged(numbers(), capacity=-1, num_threads=-1, unordered=True, autotune_memory_mb=7)
    staged(numbers(), capacity=-1, num_threads=-1)
    exported, _ = users_graph_def(tf.get_default_graph())
    specs = [spec_of(node) for node in exported.node if has_spec(node)]
    assert [spec.tuned for spec in specs] == [(THREADS, CAPACITY), (CAPACITY,)]
    assert specs[0].tuning_bytes == 7 << 20
    assert not [node.name for node in exported.node if node.op.startswith("TensorBuffer")]


@pytest.mark.slow
def test_a_slow_stage_gets_threads_and_says_why(capfd: pytest.CaptureFixture[str]) -> None:
    def slow(number: Any) -> Any:
        time.sleep(0.02)
        return number

    taken = staged(tf.py_func(slow, [numbers()], tf.int64), num_threads=-1, name="io")
    with tf.Session() as session, prefetching(session) as hook:
        wait_until(
            lambda: session.run(taken) >= 0 and runner_of(hook).metrics()["io"]["threads"] >= 2,
            "more threads",
        )
        wait_until(lambda: session.run(taken) >= 0 and bool(said(capfd)), "a line about it")


def said(capfd: pytest.CaptureFixture[str]) -> str:
    """What was written about tuning since the last call."""
    return "".join(line for line in capfd.readouterr().err.splitlines() if "is tuned to" in line)
