"""Steps that choose between a training and an evaluation input, as in a stock session."""

from __future__ import annotations

import threading
from itertools import product
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.quick_cases import slow_but
from tests.session.small_model import SmallModel, async_config, dataset, model_on, report_on

TRAIN, EVALUATE = True, False


class Inputs(NamedTuple):
    """Two iterators over the same rows, the second from row 16, and the batch that a step chose."""

    train: Any
    evaluate: Any
    features: Dict[str, Any]
    feeds: Callable[[Any, bool], Dict[Any, Any]]


def iterators() -> Tuple[Any, Any]:
    train = tf.data.make_initializable_iterator(dataset().repeat(3))
    evaluate = tf.data.make_initializable_iterator(dataset().skip(2))
    return train, evaluate


def fed_handle() -> Inputs:
    train, evaluate = iterators()
    handle = tf.placeholder(tf.string, [], name="handle")
    types, shapes = tf.data.get_output_types(dataset()), tf.data.get_output_shapes(dataset())
    features = tf.data.Iterator.from_string_handle(handle, types, shapes).get_next()
    handles: Dict[bool, Any] = {}

    def feeds(session: Any, training: bool) -> Dict[Any, Any]:
        # Made when they are first needed, as in TensorFlow's documentation: after the first run.
        if training not in handles:
            handles[training] = session.run((train if training else evaluate).string_handle())
        return {handle: handles[training]}

    return Inputs(train, evaluate, features, feeds)


def default_handle() -> Inputs:
    train, evaluate = iterators()
    strings = {TRAIN: train.string_handle(), EVALUATE: evaluate.string_handle()}
    handle = tf.placeholder_with_default(strings[TRAIN], [])
    types, shapes = tf.data.get_output_types(dataset()), tf.data.get_output_shapes(dataset())
    features = tf.data.Iterator.from_string_handle(handle, types, shapes).get_next()

    def feeds(session: Any, training: bool) -> Dict[Any, Any]:
        return {} if training else {handle: session.run(strings[EVALUATE])}

    return Inputs(train, evaluate, features, feeds)


def conditional() -> Inputs:
    train, evaluate = iterators()
    training = tf.placeholder(tf.bool, [], name="training")
    features = tf.cond(training, train.get_next, lambda: shifted(evaluate.get_next()))
    return Inputs(train, evaluate, features, lambda session, flag: {training: flag})


def shifted(features: Dict[str, Any]) -> Dict[str, Any]:
    """The batch with other users, as a branch may change it."""
    return dict(features, user=(features["user"] + 1) % 11)


def conditional_of_functions() -> Inputs:
    tf.enable_control_flow_v2()
    try:
        return conditional()
    finally:
        tf.disable_control_flow_v2()


KINDS = {
    "fed_handle": fed_handle,
    "default_handle": default_handle,
    "conditional": conditional,
    "conditional_of_functions": conditional_of_functions,
}
SCHEDULE: List[Any] = [TRAIN] * 4 + [EVALUATE] * 2 + [TRAIN] * 3 + [EVALUATE] * 3 + [TRAIN] * 2
EPOCHS: List[Any] = [TRAIN] * 5 + ["initialize"] + [EVALUATE] * 7 + [TRAIN] * 2
EPOCHS += ["initialize"] + [EVALUATE] * 8 + [TRAIN] * 21
SCHEDULES = {"switching": SCHEDULE, "epochs": EPOCHS}


def run(kind: str, config: Any, schedule: List[Any]) -> Tuple[List[Any], Any]:
    """Rows and loss of each step, or its error; a model that learns only if steps train."""
    with tf.Graph().as_default() as graph:
        inputs = KINDS[kind]()
        model: SmallModel = model_on(inputs.features, 0.0)
        session = tf.Session() if config is None else graph_opt.Session(config=config)
        with session:
            session.run(tf.global_variables_initializer())
            session.run([inputs.train.initializer, inputs.evaluate.initializer])
            results: List[Any] = []
            for step in schedule:
                if step == "initialize":
                    session.run(inputs.evaluate.initializer)
                    continue
                fetches = [model.features["row"], model.loss] + [model.train_op] * step
                try:
                    row, loss = session.run(fetches, inputs.feeds(session, step))[:2]
                    results.append((list(row), loss))
                except tf.errors.OutOfRangeError:
                    results.append("end")
        return results, None if config is None else report_on(graph)


@pytest.mark.parametrize(
    "kind, name",
    slow_but(
        product(KINDS, SCHEDULES),
        *(("fed_handle", "switching"), ("default_handle", "epochs")),
        *(("conditional", "epochs"), ("conditional_of_functions", "switching")),
    ),
)
def test_each_input_goes_on_where_it_was(kind: str, name: str) -> None:
    schedule = SCHEDULES[name]
    stock, _ = run(kind, None, schedule)
    config = async_config(threads=2 if schedule is EPOCHS else 1, capacity=3)
    config.graph_options.optimizer_options.do_group_embedding = schedule is SCHEDULE
    moved, report = run(kind, config, schedule)
    assert [result[0] for result in moved] == [result[0] for result in stock]
    losses = [[one[1] for one in results if one != "end"] for results in (moved, stock)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    assert not any(lookup.refusal for lookup in report.lookups)
    assert len(report.stages) == 2


def test_an_input_that_no_step_chooses_is_neither_read_nor_needs_to_be_initialized() -> None:
    inputs = fed_handle()
    other = tf.data.make_initializable_iterator(dataset())
    row = other.get_next()["row"]
    model = model_on(inputs.features, 0.0)
    with graph_opt.Session(config=async_config()) as session:
        session.run(tf.global_variables_initializer())
        session.run([inputs.train.initializer, other.initializer])
        for first in (0, 8, 16):
            fetched = session.run([model.loss, row], inputs.feeds(session, TRAIN))
            assert fetched[1][0] == first
        with pytest.raises(tf.errors.FailedPreconditionError, match="not been initialized"):
            session.run(model.loss, inputs.feeds(session, EVALUATE))
        session.run(inputs.evaluate.initializer)
        assert session.run(inputs.features["row"], inputs.feeds(session, EVALUATE))[0] == 16
        assert session.run(inputs.features["row"], inputs.feeds(session, TRAIN))[0] == 24


def test_a_handle_of_an_iterator_made_too_late_is_refused() -> None:
    inputs = fed_handle()
    model = model_on(inputs.features, 0.0)
    with graph_opt.Session(config=async_config()) as session:
        session.run([tf.global_variables_initializer(), inputs.train.initializer])
        session.run(model.loss, inputs.feeds(session, TRAIN))
        late = tf.data.make_one_shot_iterator(dataset())
        handle = session.run(late.string_handle())
        match = "Make all iterators before"
        with pytest.raises(tf.errors.InvalidArgumentError, match=match) as refused:
            session.run(model.loss, {"handle:0": handle})
        assert refused.value.op is not None
        assert refused.value.op.type == "IteratorFromStringHandleV2"
        assert session.run(inputs.features["row"], inputs.feeds(session, TRAIN))[0] == 8


def test_a_monitored_session_with_a_prefetch_hook_starts_only_what_is_chosen() -> None:
    inputs = conditional()
    model = model_on(inputs.features, 0.0)
    scaffold = tf.train.Scaffold(local_init_op=inputs.train.initializer)
    hooks = [graph_opt.make_prefetch_hook()]
    with graph_opt.train.MonitoredTrainingSession(
        scaffold=scaffold, config=async_config(), hooks=hooks
    ) as session:
        feeds = inputs.feeds(session, TRAIN)
        fetches = [model.train_op, inputs.features["row"]]
        rows = [session.run(fetches, feeds)[1][0] for _ in range(4)]
        threads = {thread.name for thread in threading.enumerate()}
    assert rows == [0, 8, 16, 24]
    # The first stage is that of False.
    assert not {"graph_opt/async_embedding/0", "graph_opt/async_embedding_io/0"} & threads
    assert {"graph_opt/async_embedding_1/0", "graph_opt/async_embedding_1_io/0"} <= threads
