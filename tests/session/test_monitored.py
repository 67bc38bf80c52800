"""Monitored sessions: TensorFlow's behaviour, with lookups prefetched."""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.session.graph_records import report_of
from tests.quick_cases import slow_but
from tests.session.small_model import (
    BATCH,
    SmallModel,
    async_config,
    input_data,
    model_on,
    report_on,
    row_batches,
    scaffold_of,
    small_model,
    stock_losses,
)


@pytest.fixture(autouse=True)
def no_threads_left(threads_left_behind: Callable[[], List[str]]) -> Iterator[None]:
    yield
    tf.summary.FileWriterCache.clear()  # TensorFlow keeps a writer's thread for each folder.


class Recorder(tf.train.SessionRunHook):
    """Fetches tensors with each step, as a script's own hooks do."""

    def __init__(self, *tensors: Any) -> None:
        self.values: List[List[Any]] = []
        self._tensors = list(tensors)

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._tensors)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.values.append(run_values.results)

    @property
    def rows(self) -> List[List[int]]:
        return [list(values[0]) for values in self.values]


class AbortOnce(tf.train.SessionRunHook):
    """Raises AbortedError after one of the steps, as if a parameter server were lost."""

    def __init__(self, step: int) -> None:
        self._left = step

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._left -= 1
        if self._left == 0:
            raise tf.errors.AbortedError(None, None, "a task was lost")


def train(
    model: SmallModel,
    config: Any,
    steps: Optional[int] = None,
    session: Callable[..., Any] = graph_opt.train.MonitoredTrainingSession,
    **arguments: Any,
) -> List[Any]:
    """Losses of the steps, until the end of input or for a number of steps."""
    losses: List[Any] = []
    if model.iterator is not None:
        arguments["scaffold"] = scaffold_of(model)
    with session(config=config, **arguments) as monitored:
        while not monitored.should_stop() and len(losses) != steps:
            losses.append(monitored.run([model.loss, model.train_op])[0])
    return losses


@pytest.mark.parametrize("threads", slow_but([1, 4], 1))
def test_losses_equal_stock_step_by_step(threads: int) -> None:
    model = small_model()
    recorder = Recorder(model.features["row"])
    losses = train(model, async_config(threads), hooks=[recorder])
    np.testing.assert_array_equal(losses, stock_losses())
    assert recorder.rows == row_batches()
    assert len(report_on(model.loss.graph).moved) == 2


DEEPREC_ARGUMENTS = [
    "save_incremental_checkpoint_secs",
    "saving_listeners",
    "target_nodes_or_tensors",
]


def test_signatures_are_tensorflows() -> None:
    for name in (
        "MonitoredTrainingSession",
        "ChiefSessionCreator",
        "WorkerSessionCreator",
        "MonitoredSession",
        "SingularMonitoredSession",
    ):
        stock = inspect.signature(getattr(tf.train, name)).parameters
        ours = inspect.signature(getattr(graph_opt.train, name)).parameters
        of_deeprec = DEEPREC_ARGUMENTS if name == "MonitoredTrainingSession" else []
        assert [(p.name, p.default) for p in ours.values()] == [
            *((p.name, p.default) for p in stock.values()),
            *((argument, None) for argument in of_deeprec),
        ]


@pytest.mark.parametrize("first_optimized", slow_but([True, False], True))
def test_checkpoints_are_interchangeable(first_optimized: bool, tmp_path: Path) -> None:
    names = []
    for optimized in (first_optimized, not first_optimized):
        with tf.Graph().as_default():
            model = small_model(learning_rate=0.1, epochs=2)
            run = graph_opt.train if optimized else tf.train
            config = async_config() if optimized else None
            train(
                model,
                config,
                steps=4,
                session=run.MonitoredTrainingSession,
                checkpoint_dir=str(tmp_path),
                save_checkpoint_steps=2,
            )
            assert (report_of(model.loss.graph) is not None) == optimized
        latest = tf.train.latest_checkpoint(str(tmp_path))
        names.append(sorted(tf.train.list_variables(latest)))
    assert latest.endswith("-8")
    assert names[0] == names[1]


def test_a_restored_model_has_the_values_that_were_saved(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        train(small_model(0.5), async_config(), checkpoint_dir=str(tmp_path))
    saved = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(tmp_path)))
    model = small_model(0.5)
    with graph_opt.train.MonitoredTrainingSession(
        config=async_config(), scaffold=scaffold_of(model), checkpoint_dir=str(tmp_path)
    ) as session:
        table = session.run_step_fn(lambda step_context: step_context.session.run("users:0"))
    np.testing.assert_array_equal(table, saved.get_tensor("users"))


def test_the_meta_graph_of_a_checkpoint_trains_on(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        model = small_model(0.1)
        names = [model.loss.name, model.train_op.name, model.iterator.initializer.name]
        train(model, async_config(), steps=3, checkpoint_dir=str(tmp_path))
    latest = tf.train.latest_checkpoint(str(tmp_path))
    saver = tf.train.import_meta_graph(latest + ".meta")
    with graph_opt.Session() as session:
        saver.restore(session, latest)
        session.run(names[2])
        assert np.isfinite(session.run(names[:2])[0])


Event = Tuple[int, str, float]


def summaries_in(folder: Path) -> List[Event]:
    found = []
    for file in sorted(folder.glob("events*")):
        for event in tf.train.summary_iterator(str(file)):
            for value in event.summary.value:
                if value.HasField("simple_value") and not value.tag.startswith("global_step"):
                    found.append((event.step, value.tag, value.simple_value))
    return sorted(found)


def test_summaries_have_the_same_tags_steps_and_values(tmp_path: Path) -> None:
    written: Dict[bool, List[Event]] = {}
    for optimized in (False, True):
        with tf.Graph().as_default():
            model = small_model()
            tf.summary.scalar("loss", model.loss)
            tf.summary.scalar("mean_row", tf.reduce_mean(model.user_rows))
            tf.summary.scalar("first_label", model.features["label"][0])
            run = graph_opt.train if optimized else tf.train
            train(
                model,
                async_config(threads=2) if optimized else None,
                session=run.MonitoredTrainingSession,
                checkpoint_dir=str(tmp_path / str(optimized)),
                save_summaries_steps=1,
            )
        written[optimized] = summaries_in(tmp_path / str(optimized))
    assert len(written[True]) == 3 * len(row_batches())
    assert written[True] == written[False]


def test_logging_hooks_log_boundary_tensors_of_their_step() -> None:
    model = small_model()
    logged: List[Any] = []

    def formatter(values: Any) -> str:
        logged.append(list(values[model.features["row"].name]))
        return ""

    hook = tf.train.LoggingTensorHook(
        [model.features["row"].name], every_n_iter=1, formatter=formatter
    )
    train(model, async_config(threads=3), hooks=[hook])
    assert logged == row_batches()


def test_recovery_works_as_in_a_stock_session_without_another_rewrite(tmp_path: Path) -> None:
    seen = {}
    for optimized in (False, True):
        with tf.Graph().as_default() as graph:
            model = small_model(0.1)
            recorder = Recorder(model.features["row"], model.global_step)
            run = graph_opt.train if optimized else tf.train
            train(
                model,
                async_config() if optimized else None,
                session=run.MonitoredTrainingSession,
                hooks=[recorder, AbortOnce(4)],
                checkpoint_dir=str(tmp_path / str(optimized)),
                save_checkpoint_steps=1,
            )
            seen[optimized] = recorder.rows
            takes = [op for op in graph.get_operations() if op.type == "TensorBufferTake"]
            assert len(takes) == (2 if optimized else 0)
    assert seen[True] == seen[False]
    assert len(seen[True]) == 4 + len(row_batches())


def test_an_early_stop_is_quick() -> None:
    model = small_model(epochs=1000)
    started = time.monotonic()
    losses = train(model, async_config(threads=4), hooks=[tf.train.StopAtStepHook(last_step=3)])
    assert len(losses) == 3
    assert time.monotonic() - started < 60.0  # a stuck thread costs 120 s


def test_an_error_in_the_users_loop_is_raised_unchanged() -> None:
    model = small_model(epochs=1000)
    started = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        with graph_opt.train.MonitoredTrainingSession(
            config=async_config(), scaffold=scaffold_of(model)
        ) as session:
            session.run(model.train_op)
            raise ZeroDivisionError
    assert time.monotonic() - started < 60.0


def test_graphs_that_train_nothing_are_unchanged() -> None:
    ids = tf.data.make_one_shot_iterator(tf.data.Dataset.range(24).batch(8)).get_next()
    table = tf.get_variable("table", [24, 2], use_resource=False)
    rows = tf.nn.embedding_lookup(table, ids)
    tf.train.get_or_create_global_step()
    with graph_opt.train.MonitoredTrainingSession(config=async_config()) as session:
        assert session.run(rows).shape == (8, 2)
    report = report_on(rows.graph)
    assert report.stages == ()
    assert "trains nothing" in report.left_alone[0]


def test_a_graph_optimized_before_by_request_is_prefetched_though_it_trains_nothing() -> None:
    ids = tf.data.make_one_shot_iterator(tf.data.Dataset.range(24).batch(8)).get_next()
    values = np.repeat(np.arange(24, dtype=np.float32), 2).reshape(24, 2)
    table = tf.get_variable("table", initializer=values, use_resource=False)
    rows = tf.nn.embedding_lookup(table, ids)
    tf.train.get_or_create_global_step()
    graph_opt.optimize_graph(rows.graph, async_config())
    with graph_opt.train.MonitoredTrainingSession(config=async_config()) as session:
        fetched = []
        while not session.should_stop():
            fetched.append(session.run(rows))
    np.testing.assert_array_equal(np.concatenate(fetched), values)


@pytest.mark.parametrize("place", slow_but([0, 1], 1))
def test_a_prefetch_hook_of_the_script_works_in_any_position(place: int) -> None:
    model = small_model()
    hooks = [Recorder(model.features["row"])]
    hooks.insert(place, graph_opt.make_prefetch_hook())
    losses = train(model, async_config(), hooks=hooks)
    np.testing.assert_array_equal(losses, stock_losses())


def test_staged_features_need_no_config_and_no_hook() -> None:
    model = small_model(capacity=2)
    losses = train(model, None)
    np.testing.assert_array_equal(losses, stock_losses())


def test_our_session_creators_work_with_tensorflows_monitored_session() -> None:
    model = small_model()
    creator = graph_opt.train.ChiefSessionCreator(
        scaffold=scaffold_of(model), config=async_config()
    )
    losses = []
    with tf.train.MonitoredSession(session_creator=creator) as session:
        while not session.should_stop():
            losses.append(session.run([model.loss, model.train_op])[0])
    np.testing.assert_array_equal(losses, stock_losses())


def test_tensorflows_session_creators_work_with_our_monitored_session() -> None:
    model = small_model()
    config = tf.ConfigProto.FromString(async_config().SerializeToString())
    creator = tf.train.ChiefSessionCreator(scaffold=scaffold_of(model), config=config)
    losses = []
    with graph_opt.train.MonitoredSession(session_creator=creator) as session:
        while not session.should_stop():
            losses.append(session.run([model.loss, model.train_op])[0])
    np.testing.assert_array_equal(losses, stock_losses())
    assert report_on(model.loss.graph).stages != ()


def test_singular_sessions_give_the_session_inside() -> None:
    model = small_model()
    with graph_opt.train.SingularMonitoredSession(
        config=async_config(), scaffold=scaffold_of(model)
    ) as session:
        raw = session.raw_session()
        assert isinstance(raw, graph_opt.Session)
        assert type(raw).__name__ == "Session"  # Old scripts search for it by this name.
        assert list(raw.run(model.features["row"])) == row_batches()[0]
        assert list(session.run(model.features["row"])) == row_batches()[1]


def test_the_result_is_a_monitored_session_of_both_packages() -> None:
    model = small_model()
    with graph_opt.train.MonitoredTrainingSession(
        config=async_config(), scaffold=scaffold_of(model)
    ) as session:
        assert isinstance(session, graph_opt.train.MonitoredSession)
        assert isinstance(session, tf.train.MonitoredSession)


def test_a_finalized_graph_gives_the_error_of_a_stock_session() -> None:
    small_model()
    tf.get_default_graph().finalize()
    for make in (tf.train.MonitoredTrainingSession, graph_opt.train.MonitoredTrainingSession):
        with pytest.raises(RuntimeError, match="finalized"):
            make(config=async_config() if make is not tf.train.MonitoredTrainingSession else None)


def test_options_are_checked_before_anything_happens() -> None:
    small_model()
    config = async_config()
    config.graph_options.optimizer_options.async_embedding_options.threads_num = -2
    for make in (
        graph_opt.train.MonitoredTrainingSession,
        graph_opt.train.ChiefSessionCreator,
        graph_opt.train.WorkerSessionCreator,
        graph_opt.train.SingularMonitoredSession,
        graph_opt.train.AsyncEmbeddingHook,
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="threads_num is -2"):
            make(config=config)


def test_queues_and_their_runners_feed_the_inferred_stage() -> None:
    data = input_data()
    queued = tf.train.slice_input_producer(
        [data["row"], data["user"], data["item"], data["label"]], num_epochs=1, shuffle=False
    )
    names = ("row", "user", "item", "label")
    batch = tf.train.batch(queued, BATCH, allow_smaller_final_batch=True)
    model = model_on(dict(zip(names, batch)), 0.0)
    recorder = Recorder(model.features["row"])
    losses = train(model, async_config(), hooks=[recorder])
    assert recorder.rows == row_batches()
    np.testing.assert_array_equal(losses, stock_losses())
