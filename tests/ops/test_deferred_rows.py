"""Deferred updates, and rows caught up, beside TensorFlow's Adam in real sessions."""

from __future__ import annotations

from typing import Any, Iterator, List, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.ops.deferred_rows import (
    group_embedding_catch_up,
    group_embedding_catch_up_all,
    row_state_name,
)
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds
from graph_opt.ops.optimizers import optimizer_specs
from tests.embedding.lookup_groups import table
from tests.example_share import example_share
from tests.ops.deferred_models import (
    BAGS,
    LOOKED_UP,
    ROWS,
    Case,
    Models,
    adam_of,
    random_batch,
    reference,
    state_of,
    train,
)
from tests.quick_cases import slow_but

NOTHING: List[List[List[int]]] = [[[]] * BAGS] * len(LOOKED_UP)


@pytest.fixture(scope="module")
def running() -> Iterator[Tuple[Models, Any]]:
    """Models for several tests, each of which starts them anew: that is part of the test."""
    with tf.Graph().as_default():
        models = Models(Case())
        with tf.Session() as session:
            yield models, session


@pytest.mark.parametrize(
    "case",
    slow_but(
        [
            Case(use_resource, *layout)
            for layout in (
                ("sparse", "mod", True),
                ("ragged", "div", False),
                ("dense", "div", True),
            )
            for use_resource in (False, True)
        ],
        Case(False, "sparse", "mod", True),
        Case(True, "ragged", "div", False),
        Case(False, "dense", "div", True),
    ),
    ids=lambda case: "-".join(map(str, case)),
)
def test_training_equals_adam(case: Case) -> None:
    models = Models(case)
    with tf.Session() as session:
        models.start(session)
        for step in range(24):
            random = np.random.RandomState(step)
            # A row of the first few is read in most steps, the others now and then.
            batch = random_batch(random, 5 if step % 4 else ROWS)
            feed = models.feed(batch, step)
            feed[models.rate] = 0.01 / (1 + step % 5)
            for ours, theirs in session.run(models.read, feed):
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
            session.run(models.train, feed)
            if step in (0, 1, 7, 23):
                models.compare(session, step)


@example_share(0.08)
@given(
    touches=st.lists(
        st.tuples(st.sampled_from([0, 1, 2, 40, 600]), st.integers(0, 10**6)),
        min_size=1,
        max_size=4,
    )
)
def test_rows_that_missed_any_number_of_steps(
    running: Tuple[Models, Any], touches: List[Tuple[int, int]]
) -> None:
    models, session = running
    models.start(session)
    steps = 0
    empty = models.feed(NOTHING, 0)
    for missed, seed in touches:
        for _ in range(missed):
            session.run(models.train, empty)
        feed = models.feed(random_batch(np.random.RandomState(seed), 1 + seed % ROWS), seed)
        session.run(models.train, feed)
        steps += missed + 1
        for ours, theirs in session.run(models.read, feed):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    models.compare(session, steps)


def test_a_restored_table_goes_on_from_its_moments(running: Tuple[Models, Any]) -> None:
    models, session = running
    models.start(session)
    train(models, session, range(6), rows=4)  # the moments of all other rows are 0
    random = np.random.RandomState(3)
    session.run(models.catch_up_all)
    for ours, theirs in zip(models.deferred.all(), models.stock.all()):
        value = np.abs(random.randn(*ours.shape.as_list())).astype(np.float32)
        ours.load(value, session)
        theirs.load(value, session)
    train(models, session, range(6, 12), rows=4)
    models.compare(session, 12)


@pytest.mark.parametrize("use_resource", slow_but([False, True], True))
def test_an_update_in_the_run_of_a_dense_reader_leaves_nothing_behind(use_resource: bool) -> None:
    models = Models(Case(use_resource))
    with tf.control_dependencies([models.catch_up_all]):
        reads = [tf.reduce_sum(part.read_value()) for part in models.deferred.weights]
    with tf.Session() as session:
        models.start(session)
        train(models, session, range(3))
        batch = models.feed(random_batch(np.random.RandomState(9), 3), 9)
        session.run([models.train, *reads], batch)
        ours, theirs = session.run([models.deferred.all(), models.stock.all()])
        for one, other in zip(ours, theirs):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        assert np.array_equal(session.run(models.deferred.weights[0]), ours[0])


@pytest.mark.parametrize("use_resource", [False, True])
def test_nothing_needs_to_be_initialized(use_resource: bool) -> None:
    models = Models(Case(use_resource))
    batch = models.feed(random_batch(np.random.RandomState(9)), 9)
    with tf.Session() as session:
        session.run([models.catch_up_all, models.catch_up_rows], batch)
        with pytest.raises(tf.errors.FailedPreconditionError, match="deferred/t"):
            session.run(models.read[0][0], batch)
        # A session that serves restores no slots.
        session.run([part.initializer for part in models.deferred.weights])
        session.run([models.catch_up_all, models.read[0][0]], batch)


@pytest.mark.parametrize("use_resource", [False, True])
def test_other_tables_of_a_group_are_left_alone(use_resource: bool) -> None:
    variables = [
        tf.get_variable(name, initializer=tf.ones([ROWS, 4]), use_resource=use_resource)
        for name in ("table", "m", "v", "frozen")
    ]
    *deferred, frozen = (reference(one) for one in variables)
    states = [state_of(variables[0])]
    apply = adam_of(deferred, states, tf.constant([[1]]), tf.ones([1, 4]))
    group = GroupIds([tf.constant([[2, 3]])] * 2, [tf.zeros([0], tf.int64)] * 2, [], [])
    group = group._replace(shapes=group.positions)
    attributes = GroupAttributes(
        [0, 1], [1, 1], ["frozen", "table"], ["sum"] * 2, ["dense"] * 2, [False] * 2, [-1] * 2
    )
    slots = [frozen, deferred[1], frozen, deferred[2]]
    catch_up = group_embedding_catch_up(
        "Adam", [frozen, deferred[0]], slots, ["", *states], group, attributes
    )
    with tf.control_dependencies([catch_up]):
        after = [variables[place].read_value() for place in (0, 3)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(apply)
        rows, untouched = session.run(after)
        assert (rows[[2, 3]] < 1).all() and (rows[4:] == 1).all()
        assert (untouched == 1).all()


@pytest.mark.parametrize("use_resource", [False, True])
def test_each_plain_read_catches_up_its_own_variable(use_resource: bool) -> None:
    variables = [
        tf.get_variable(name, initializer=tf.ones([ROWS, 4]), use_resource=use_resource)
        for name in ("table", "m", "v", "other")
    ]
    deferred = [reference(one) for one in variables[:3]]
    apply = adam_of(deferred, [state_of(variables[0])], tf.constant([[1]]), tf.ones([1, 4]))
    table = variables[0].read_value()
    with tf.Session() as session:
        session.run(variables[3].initializer)
        session.run(tf.global_variables_initializer())
        session.run(apply)
        assert (session.run(table) < 1).all()


@pytest.fixture(scope="module")
def server() -> Any:
    return tf.train.Server.create_local_server()


@pytest.mark.parametrize("use_resource", slow_but([False, True], False))
def test_a_reset_container_takes_its_states_along(server: Any, use_resource: bool) -> None:
    container = "experiment-{}".format(use_resource)
    with tf.container(container):
        models = Models(Case(use_resource))
    assert models.states[0].startswith(container + ":deferred/t0")
    random = np.random.RandomState(3)
    with tf.Session(server.target) as session:
        models.start(session)
        train(models, session, range(4), rows=4)
    tf.Session.reset(server.target, [container])
    with tf.Session(server.target) as session:
        uninitialized = session.run(tf.report_uninitialized_variables())
        assert len(uninitialized) == len(tf.global_variables())
        # Rows that an old state takes for resting would not move.
        for ours, theirs in zip(models.deferred.all(), models.stock.all()):
            value = np.abs(random.randn(*ours.shape.as_list())).astype(np.float32)
            ours.load(value, session)
            theirs.load(value, session)
        others = [one for one in tf.global_variables() if one not in models.deferred.all()]
        others = [one for one in others if one not in models.stock.all()]
        session.run([one.initializer for one in others])
        train(models, session, range(4), rows=4)
        models.compare(session, 4)


def test_sessions_of_one_server_share_the_steps(server: Any) -> None:
    both = []
    for _ in range(2):
        with tf.Graph().as_default():
            models = Models(Case())
            both.append((models, tf.Session(server.target)))
    both[0][0].start(both[0][1])
    for step in range(20):
        models, session = both[step % 3 % 2]
        train(models, session, range(step, step + 1), rows=6 + step)
    for models, session in both:
        models.compare(session, 20)
        session.close()


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_table_of_another_shape_has_another_state(use_resource: bool) -> None:
    shapes = tf.placeholder_with_default(np.array([ROWS, 4]), [2])
    variables = [
        tf.get_variable(
            name,
            initializer=tf.fill(shapes, 1.0),
            validate_shape=False,
            use_resource=use_resource,
        )
        for name in ("table", "m", "v")
    ]
    references = [reference(one) for one in variables]
    states = [state_of(variables[0])]
    catch_up = group_embedding_catch_up_all("Adam", references[:1], references[1:], states, [""])
    apply = adam_of(references, states, tf.constant([[1], [2]]), tf.ones([2, shapes[1]]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([apply])
        for size in ([7, 4], [7, 9], [50, 2]):
            session.run(tf.global_variables_initializer(), {shapes: size})
            session.run(apply, {shapes: size})
            session.run(apply, {shapes: size})
            session.run(catch_up)
            value = session.run(variables[0])
            assert value.shape == tuple(size)
            assert (value < 1).all()  # rows without a gradient move, too


@pytest.mark.parametrize(
    "optimizer, states, values, message",
    [
        ("Adam", ["a", "b"], {}, "row_states has 2 entries, need one for each of the 1 shards"),
        ("Adam", [":"], {}, "row_states has the entry ':'; need the name of a variable"),
        ("Adam", ["a"], {"epsilon": 0.0}, "row_states defer the update, but epsilon is 0; need mo"),
        ("Adagrad", ["a"], {}, "row_states defer the update, but the optimizer leaves rows withou"),
    ],
)
def test_what_cannot_be_deferred_is_said(
    optimizer: str, states: List[str], values: Any, message: str
) -> None:
    params = table("table", ROWS, 4, use_resource=True)
    slots = [
        tf.get_variable(name, [ROWS, 4], use_resource=True)
        for name in optimizer_specs()[optimizer].slots
    ]
    references = [reference(one) for one in [params, *slots]]
    ids = tf.constant([[1]])
    update = adam_of(references, states, ids, tf.ones([1, 4]), optimizer, **values)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="EmbeddingApply: " + message):
            session.run(update)


def test_two_shards_with_one_state_are_refused() -> None:
    params = [table(name, ROWS, 4, use_resource=True) for name in ("a", "b")]
    slots = [tf.get_variable("slot{}".format(i), [ROWS, 4], use_resource=True) for i in range(4)]
    catch_up = group_embedding_catch_up_all(
        "Adam", [one.handle for one in params], [one.handle for one in slots], ["a", ":a"], ["", ""]
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="has the entry ':a' twice"):
            session.run(catch_up)


@pytest.mark.parametrize(
    "of, name",
    [
        (("scope/table",), "scope/table"),
        (("scope/table", "shared"), "shared"),
        (("table", "a:b"), ":a:b"),
        (("scope/table", "", "box/1"), "box/1:scope/table"),
    ],
)
def test_the_name_of_a_state(of: Tuple[str, ...], name: str) -> None:
    assert row_state_name(*of) == name
