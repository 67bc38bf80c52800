"""Every session that is asked to optimize does, or says why not, in one line on stderr."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List

import numpy as np
import pytest
from tensorflow.python.client import session as session_module
from tensorflow.python.training import monitored_session, supervisor

import graph_opt
from graph_opt.compat import tf
from graph_opt.reporting.warnings_given import forget_warnings
from tests.quick_cases import slow_but
from tests.session.small_model import (
    SmallModel,
    async_config,
    report_on,
    run_to_end,
    scaffold_of,
    small_model,
    stock_losses,
)

Losses = List[float]
StockSession: Any = tf.Session
MOVED = "2 of 2 lookups run ahead of the step"


@pytest.fixture(autouse=True)
def nothing_installed(threads_left_behind: Callable[[], List[str]]) -> Iterator[None]:
    forget_warnings()
    verbosity = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.FATAL)  # How scripts silence TensorFlow's log.
    yield
    tf.logging.set_verbosity(verbosity)
    graph_opt.uninstall()


def lines(capsys: Any) -> List[str]:
    """The lines graph_opt wrote to stderr, without its name and the session's number."""
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("graph_opt: ")]
    return [line[len("graph_opt: ") :].partition(": ")[2] for line in said]


def losses_of(session: Any, model: SmallModel) -> Losses:
    return [loss for loss, _ in run_to_end(session, [model.loss, model.train_op])]


def initialized(session: Any, model: SmallModel) -> Losses:
    session.run([tf.global_variables_initializer(), model.iterator.initializer])
    return losses_of(session, model)


class CountingSession(StockSession):
    """A subclass of `tf.Session`, as scripts define."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.runs = 0
        super().__init__(*arguments, **named)

    def run(self, *arguments: Any, **named: Any) -> Any:
        self.runs += 1
        return super().run(*arguments, **named)


def by_a_session_imported_before(model: SmallModel) -> Losses:
    with StockSession() as session:
        return initialized(session, model)


def by_a_class_of_the_script(model: SmallModel) -> Losses:
    with CountingSession() as session:
        losses = initialized(session, model)
        assert type(session).__name__ == "CountingSession" and session.runs == len(losses) + 2
    return losses


def by_a_base_session(model: SmallModel) -> Losses:
    session = session_module.BaseSession()
    losses = initialized(session, model)
    session.close()
    return losses


def by_keras(model: SmallModel) -> Losses:
    session = tf.keras.backend.get_session()
    losses = initialized(session, model)
    session.close()
    tf.keras.backend.set_session(None)
    return losses


def by_a_session_manager(model: SmallModel) -> Losses:
    initializer = tf.group(tf.global_variables_initializer(), model.iterator.initializer)
    with tf.train.SessionManager().prepare_session("", init_op=initializer) as session:
        return losses_of(session, model)


def by_a_supervisor_imported_before(model: SmallModel) -> Losses:
    initializer = tf.group(tf.global_variables_initializer(), model.iterator.initializer)
    with supervisor.Supervisor(init_op=initializer).managed_session() as session:
        return losses_of(session, model)


def by_a_monitored_session_imported_before(model: SmallModel) -> Losses:
    creator = monitored_session.ChiefSessionCreator(scaffold_of(model))
    with monitored_session.MonitoredSession(creator) as session:
        return losses_of(session, model)


def by_a_singular_session(model: SmallModel) -> Losses:
    with monitored_session.SingularMonitoredSession(scaffold=scaffold_of(model)) as session:
        return losses_of(session, model)


class OwnCreator(tf.train.SessionCreator):
    """A session creator, as scripts define."""

    def __init__(self, model: SmallModel) -> None:
        self._scaffold = scaffold_of(model)

    def create_session(self) -> Any:
        self._scaffold.finalize()
        session = StockSession()
        session.run([self._scaffold.init_op, self._scaffold.local_init_op])
        return session


def by_a_creator_of_the_script(model: SmallModel) -> Losses:
    with tf.train.MonitoredSession(OwnCreator(model)) as session:
        return losses_of(session, model)


WAYS = [value for name, value in sorted(globals().items()) if name.startswith("by_")]
# A monitored session, and a session's constructor, are behind these and behind others.
SIMILAR_WAYS = (by_a_singular_session, by_a_creator_of_the_script, by_a_session_manager)


@pytest.mark.parametrize(
    "way",
    slow_but(WAYS, *(way for way in WAYS if way not in SIMILAR_WAYS)),
    ids=lambda way: way.__name__,
)
def test_every_way_to_open_a_session_is_optimized_and_says_so(
    way: Callable[[SmallModel], Losses], capsys: Any
) -> None:
    with graph_opt.install(async_config()):
        losses = way(small_model())
        assert len(report_on(tf.get_default_graph()).moved) == 2
    np.testing.assert_array_equal(losses, stock_losses())
    assert lines(capsys) == [MOVED]
    assert StockSession is tf.Session and not isinstance(StockSession(), graph_opt.Session)


def test_a_second_session_on_the_graph_is_not_reported_again(capsys: Any) -> None:
    model = small_model()
    before = graph_opt.session_reports()
    for _ in range(3):
        with graph_opt.Session(config=async_config()) as session:
            initialized(session, model)
    assert lines(capsys) == [MOVED]
    (noted,) = [each for each in graph_opt.session_reports() if each not in before]
    assert (noted.sessions, noted.opened_as) == (3, "Session")
    assert noted.report == report_on(model.loss.graph)


def test_placeholders_and_their_lookups_are_in_the_line_and_in_the_report(capsys: Any) -> None:
    ids = tf.placeholder(tf.int64, [None], "ids")
    table = tf.get_variable("table", [4, 2], use_resource=False)
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids)))
    step = tf.train.AdagradOptimizer(0.1).minimize(loss)
    config = async_config()
    config.graph_options.optimizer_options.do_group_embedding = True
    with graph_opt.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        session.run(step, {ids: [1, 2]})
    assert lines(capsys) == [
        "1 of 1 lookup in an op of its own, 0 of 1 run ahead of the step (placeholder_upstream); "
        "graph_opt.report() says why"
    ]
    text = str(graph_opt.report())
    assert "placeholder_upstream" in text and "staged(..., feed_dict=...)" in text


def test_python_functions_that_are_called_ahead_are_in_the_line(capsys: Any) -> None:
    calls: List[Any] = []

    def noted(batch: Any) -> Any:
        calls.append(batch)
        return batch

    batch = tf.data.make_one_shot_iterator(tf.data.Dataset.range(64).batch(4)).get_next()
    ids = tf.py_func(noted, [batch], tf.int64)
    ids.set_shape([None])
    table = tf.get_variable("table", [64, 2], use_resource=False)
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids)))
    step = tf.train.AdagradOptimizer(0.1).minimize(loss)
    with graph_opt.train.MonitoredTrainingSession(config=async_config()) as session:
        session.run(step)
    assert 1 <= len(calls) <= 16
    told = "1 of 1 lookup run ahead of the step, 1 Python function called ahead, too"
    assert lines(capsys) == [told]


def test_a_graph_without_lookups_says_so(capsys: Any) -> None:
    weight = tf.get_variable("weight", [])
    step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(weight))
    with graph_opt.Session(config=async_config()) as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
    (line,) = lines(capsys)
    assert line.startswith("not optimized: the graph has no embedding lookup")


def test_a_model_completed_after_the_first_run_says_so_and_trains_as_in_stock(capsys: Any) -> None:
    with graph_opt.Session(config=async_config()) as session:
        session.run(tf.constant(1))
        model = small_model()
        losses = initialized(session, model)
    np.testing.assert_array_equal(losses, stock_losses())
    first, second = lines(capsys)
    assert first.startswith("not optimized: the graph has no embedding lookup")
    assert second.startswith("not optimized: training was added to the graph after the session")


def test_a_later_session_has_what_was_added_to_the_graph_optimized(capsys: Any) -> None:
    with graph_opt.install(async_config()):
        with tf.Session() as session:
            session.run(tf.constant(1))
        model = small_model()
        with tf.Session() as session:
            initialized(session, model)
    assert lines(capsys)[1:] == [MOVED]


def test_a_session_without_requests_says_nothing(capsys: Any) -> None:
    model = small_model()
    with graph_opt.install(), StockSession() as session:
        initialized(session, model)
    with graph_opt.Session() as session:
        initialized(session, model)
    assert lines(capsys) == []
    assert graph_opt.report(model.loss.graph) is None


def test_the_report_of_the_last_graph_is_there_when_the_default_graph_is_another(
    capsys: Any,
) -> None:
    with tf.Graph().as_default() as graph:
        model = small_model()
        with graph_opt.Session(config=async_config()) as session:
            initialized(session, model)
    assert graph_opt.report() == graph_opt.report(graph)
    assert graph_opt.report(tf.get_default_graph()) is None


def test_other_options_for_a_graph_that_was_rewritten_are_said_to_have_no_effect(
    capsys: Any,
) -> None:
    forget_warnings()
    model = small_model()
    for config in (async_config(), async_config(threads=2), async_config(threads=2)):
        with graph_opt.Session(config=config) as session:
            initialized(session, model)
    said = capsys.readouterr().err
    assert said.count("asks for options other than those its graph was rewritten with") == 1
    assert "options other than" in str(graph_opt.report(model.loss.graph))


def test_a_session_that_asks_for_less_than_its_graph_got_is_not_told_so(capsys: Any) -> None:
    forget_warnings()
    model = small_model()
    config = async_config()
    config.graph_options.optimizer_options.do_smart_stage = True
    for wanted in (config, async_config()):  # To train, and then to export.
        with graph_opt.Session(config=wanted) as session:
            initialized(session, model)
    (line,) = lines(capsys)
    assert line.startswith(MOVED)


class FinalSession(StockSession):
    """A class that cannot be subclassed."""

    def __init_subclass__(cls, **named: Any) -> None:
        raise TypeError("FinalSession is final")


def test_a_session_that_cannot_be_taken_over_runs_stock_and_says_so(capsys: Any) -> None:
    model = small_model()
    with graph_opt.install(async_config()), FinalSession() as session:
        losses = initialized(session, model)
    np.testing.assert_array_equal(losses, stock_losses())
    assert lines(capsys) == ["not optimized: the session's class: FinalSession is final"]


def test_a_process_without_stderr_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model()
    monkeypatch.setattr("sys.stderr", None)
    with graph_opt.Session(config=async_config()) as session:
        assert initialized(session, model)
