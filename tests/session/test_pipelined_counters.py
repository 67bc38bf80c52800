"""A stage that applies gradients also counts steps, and main sees what TensorFlow would count."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any, Iterator, List

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.graph.operations import operations_behind
from graph_opt.runtime.stages import stages_of
from graph_opt.session.hook_fetches import fetched_by
from graph_opt.session.pipeline_use import PipelineReach
from graph_opt.session.session import Session
from tests.passes.pipeline.delayed_training import pipelining
from tests.passes.refused_models import ControlFlowV1
from tests.session.counted_model import (
    BY_HAND,
    ENDS,
    MINIMIZED,
    START,
    Watch,
    counted,
    on_servers,
    weight_after,
)
from tests.session.parameter_servers import free_addresses, parameter_servers, stock_servers

STEPS = 7
APPLY = "ResourceApplyGradientDescent"


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker with a parameter server in a process of its own, which is stock TensorFlow."""
    with stock_servers(1) as target:
        yield target


@pytest.fixture(autouse=True)
def no_variables(target: str) -> None:
    tf.Session.reset(target)


def test_a_step_asks_no_server_for_the_counter(target: str) -> None:
    check_steps(target, True, MINIMIZED)


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("resource", [False, True])
def test_each_kind_of_train_op_counts(target: str, resource: bool, end: str) -> None:
    check_steps(target, resource, end)


@pytest.mark.slow
def test_weights_that_miss_no_update_come_with_the_counter(target: str) -> None:
    check_steps(target, True, BY_HAND, staleness=0)


def check_steps(target: str, resource: bool, end: str, staleness: int = 1) -> None:
    made = counted(resource, end)
    initialize = tf.global_variables_initializer()
    with Session(target, config=pipelining(staleness)) as session:
        session.run(initialize)
        found = [session.run([made.train, made.step, made.rate]) for _ in range(STEPS - 1)]
        assert [step for _, step, _ in found] == list(range(STEPS - 1))
        assert [rate for _, _, rate in found] == [0.5**number for number in range(STEPS - 1)]
        if end == BY_HAND:
            assert [train for train, _, _ in found] == list(range(1, STEPS))
        assert on_servers(session, [made.train, made.step, made.rate]) == []
        assert session.run([made.step, made.weight]) == [STEPS, weight_after(STEPS)]
    missed = "weights miss 1 update" if staleness else "weights miss no update of this worker"
    assert missed in str(graph_opt.report())


@pytest.mark.slow
@pytest.mark.parametrize("resource", [False, True])
def test_a_rate_on_the_server_is_that_of_its_step(target: str, resource: bool) -> None:
    made = counted(resource, rate_device="/job:ps/task:0")
    initialize = tf.global_variables_initializer()
    with Session(target, config=pipelining()) as session:
        session.run(initialize)
        for _ in range(STEPS - 1):
            session.run(made.train)
        assert on_servers(session, made.train) == []
        assert session.run([made.step, made.weight]) == [STEPS, weight_after(STEPS)]


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("control_flow", [contextlib.nullcontext, ControlFlowV1])
def test_what_hooks_read_starts_no_stage_anew(control_flow: Any, resource: bool) -> None:
    with control_flow():
        made = counted(resource)
        stop = tf.train.StopAtStepHook(last_step=1)
        stop.begin()
    (read,) = fetched_by([stop])
    graph_opt.optimize_graph(made.step.graph, pipelining())
    reach = PipelineReach(made.step.graph, stages_of(made.step.graph))
    use = reach.use_of(operations_behind([read.op]))
    assert use.drains == {"pipeline_dense"}
    assert not use.resets
    restored = operations_behind([made.step.initializer])
    assert reach.use_of(restored).resets == {"pipeline_dense"}


class _Warnings(logging.Handler):
    """Keeps what TensorFlow's logger says."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.told: List[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


@pytest.fixture()
def told() -> Iterator[List[str]]:
    handler = _Warnings()
    tf.get_logger().addHandler(handler)
    yield handler.told
    tf.get_logger().removeHandler(handler)


@pytest.mark.slow
@pytest.mark.parametrize("resource", [False, True])
def test_hooks_see_each_step_once_and_ask_no_server(
    target: str, tmp_path: Path, told: List[str], resource: bool
) -> None:
    made = counted(resource)
    tf.summary.scalar("rate", made.rate)
    watch = Watch({"step": made.step})
    asked: List[str] = []

    class Ask(tf.train.SessionRunHook):
        """Has the master say what each step runs where."""

        def before_run(self, run_context: Any) -> Any:
            options = tf.RunOptions(output_partition_graphs=True)
            return tf.train.SessionRunArgs(None, options=options)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            parts = run_values.run_metadata.partition_graphs
            nodes = [node for part in parts for node in part.node]
            asked.extend(node.name for node in nodes if "/job:ps" in node.device)

    hooks = [
        tf.train.StopAtStepHook(last_step=STEPS),
        tf.train.StepCounterHook(every_n_steps=2, output_dir=str(tmp_path)),
        tf.train.LoggingTensorHook({"step": made.step}, every_n_iter=1),
        watch,
        Ask(),
    ]
    steps = 0
    with graph_opt.train.MonitoredTrainingSession(
        target,
        config=pipelining(),
        checkpoint_dir=str(tmp_path),
        save_checkpoint_steps=3,
        save_summaries_steps=2,
        log_step_count_steps=3,
        hooks=hooks,
    ) as session:
        while not session.should_stop():
            session.run(made.train)
            steps += 1
    assert steps == STEPS
    assert watch.values("step") == list(range(STEPS))
    assert asked == []
    assert not [each for each in told if "has not been increased" in each]
    saved = tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths
    assert [int(each.rpartition("-")[2]) for each in saved] == [0, 3, 6, 7]
    for each in saved:
        reader = tf.train.load_checkpoint(each)
        number = int(reader.get_tensor("global_step"))
        assert reader.get_tensor("weight") == weight_after(number)


def test_counting_goes_on_from_what_is_restored(target: str, tmp_path: Path) -> None:
    made = counted()
    saver = tf.train.Saver()
    initialize = tf.global_variables_initializer()
    with Session(target, config=pipelining()) as session:

        def steps(count: int) -> List[int]:
            return [session.run([made.step, made.train])[0] for _ in range(count)]

        session.run(initialize)
        assert steps(2) == [0, 1]
        saved = saver.save(session, str(tmp_path / "model"))
        assert steps(3) == [2, 3, 4]
        saver.restore(session, saved)
        assert session.run(made.step) == 2
        assert steps(2) == [2, 3]
        assert session.run(made.weight) == weight_after(4)
        made.step.load(20, session)
        assert steps(1) == [20]
        assert session.run(made.step) == 21


@pytest.mark.slow
def test_a_step_that_does_not_count_is_not_counted(target: str) -> None:
    made = counted(end=BY_HAND)
    initialize = tf.global_variables_initializer()
    with Session(target, config=pipelining()) as session:
        session.run(initialize)
        session.run(made.train)
        for _ in range(2):
            session.run(made.update)
            assert session.run(made.step) == 1
        assert session.run(made.train) == 2
        assert session.run(made.weight) == 10.0 - 1.0 - 0.5 - 0.5 - 0.5


def test_no_step_applies_an_update_twice(target: str) -> None:
    made = counted()
    update = made.step.graph.get_operation_by_name("GradientDescent/update_weight/" + APPLY)
    initialize = tf.global_variables_initializer()
    with Session(target, config=pipelining()) as session:
        session.run(initialize)
        with pytest.raises(tf.errors.InvalidArgumentError, match=APPLY + "', which the stage"):
            session.run([made.train, update])
        session.run(update)
        session.run(made.train)
        assert session.run([made.step, made.weight]) == [1, START - 2.0]


class _Worker:
    """A worker of a cluster, with a session of its own."""

    def __init__(self, target: str, task: int) -> None:
        with tf.Graph().as_default():
            self.made = counted(worker=task)
            initialize = tf.global_variables_initializer()
            self.session = Session(target, config=pipelining())
        if task == 0:
            self.session.run(initialize)
        self.seen: List[int] = []

    def train(self) -> None:
        """Runs a step, and keeps the counter."""
        self.seen.append(self.session.run([self.made.step, self.made.train])[0])


@pytest.mark.slow
def test_workers_count_together() -> None:
    server, *addresses = free_addresses(3)
    tasks = {"ps": [server], "worker": addresses}
    with parameter_servers(tasks, has_ops=[False]):
        cluster = tf.train.ClusterSpec(tasks)
        targets = [tf.train.Server(cluster, "worker", task).target for task in (0, 1)]
        workers = [_Worker(target, task) for task, target in enumerate(targets)]
        for turn in (0, 0, 1, 0, 1, 1, 1, 0):
            workers[turn].train()
        workers[1].session.close()
        assert workers[0].session.run(workers[0].made.step) == 8
        workers[0].session.close()
    for worker in workers:
        assert worker.seen == sorted(set(worker.seen))
        assert worker.seen[-1] < 8
