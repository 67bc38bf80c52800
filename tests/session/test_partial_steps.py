"""Steps that need less than fused ops read: they have stock's values, and act as stock's."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Sequence

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.quick_cases import slow_but

ROWS, WIDTH, STEPS = 20, 4, 4
BATCH = {"users": [1, 2, 1], "items": [3, 0, 3], "label": [0.0, 1.0, 1.0]}
GROUP_LOOKUPS = ("GroupEmbeddingLookup", "ResourceGroupEmbeddingLookup")


class Towers(NamedTuple):
    """A model of two towers, whose lookups are fused."""

    users: Any
    items: Any
    label: Any
    user_rows: Any
    user_tower: Any
    loss: Any
    train: Any
    train_users: Any  # None, or a train op of the users alone

    def feeds(self, **values: Any) -> Dict[Any, Any]:
        return {getattr(self, name): value for name, value in values.items()}


def towers(optimizer: Callable[[], Any], resource: bool, apart: bool) -> Towers:
    users = tf.placeholder(tf.int64, [None], "users")
    items = tf.placeholder(tf.int64, [None], "items")
    label = tf.placeholder(tf.float32, [None], "label")
    rows, tower = [], []
    for name, ids in (("user", users), ("item", items)):
        values = np.random.RandomState(len(name)).normal(size=[ROWS, WIDTH]).astype(np.float32)
        table = tf.get_variable(name + "_table", initializer=values, use_resource=resource)
        rows.append(tf.nn.embedding_lookup(table, ids))
        weights = tf.get_variable(name + "_weights", initializer=values[:WIDTH, :3])
        tower.append(tf.tanh(tf.matmul(rows[-1], weights)))
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(tower[0] * tower[1], 1) - label))
    step = tf.train.get_or_create_global_step()
    train_users = None
    if apart:
        norms = [tf.reduce_mean(tf.square(each)) for each in tower]
        train_users, train_items = [optimizer().minimize(norm) for norm in norms]
        train = tf.group(train_users, train_items, tf.assign_add(step, 1))
    else:
        train = optimizer().minimize(loss, step)
    return Towers(users, items, label, rows[0], tower[0], loss, train, train_users)


def config(adam: str = "stock") -> Any:
    made = graph_opt.ConfigProto()
    optimizer_options = made.graph_options.optimizer_options
    optimizer_options.do_group_embedding = True
    optimizer_options.group_embedding_options.adam = adam
    return made


def outcomes(
    options: Any,
    runs: Callable[[Any, Towers], List[Any]],
    optimizer: Callable[[], Any] = lambda: tf.train.AdagradOptimizer(0.1),
    resource: bool = False,
    apart: bool = False,
) -> List[Any]:
    """What the runs return after some steps, and the tables at the end."""
    with tf.Graph().as_default() as graph:
        model = towers(optimizer, resource, apart)
        with graph_opt.Session(config=options) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(STEPS):
                session.run(model.train, model.feeds(**BATCH))
            found = runs(session, model)
            session.run(model.train, model.feeds(**BATCH))
            found += session.run(tf.trainable_variables())
        if options is not None:
            report = graph_opt.report(graph)
            assert report is not None and len(report.fused) == 2
            groups = [each for each in graph.get_operations() if each.type in GROUP_LOOKUPS]
            assert len(groups) == 1
    return found


def assert_as_stock(
    runs: Callable[[Any, Towers], List[Any]], options: Any = None, **settings: Any
) -> None:
    found = outcomes(options or config(), runs, **settings)
    stock = outcomes(None, runs, **settings)
    assert len(found) == len(stock)
    for one, other in zip(found, stock):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


def fetched_alone(session: Any, model: Towers) -> List[Any]:
    """The ways in which scripts export what users are embedded to."""
    fed = model.feeds(users=[5, 1])
    late = tf.nn.embedding_lookup(tf.trainable_variables()[0], model.users)
    found = [session.run(each, fed) for each in (model.user_rows, model.user_tower, late)]
    found += session.run([model.user_tower, tf.shape(model.user_rows)], fed)
    found.append(model.user_tower.eval(fed, session))
    found.append(session.make_callable(model.user_tower, [model.users])([5, 1]))
    return found


@pytest.mark.parametrize("resource", [False, True])
def test_a_fetch_needs_what_it_needs_in_stock(resource: bool) -> None:
    assert_as_stock(fetched_alone, resource=resource)


@pytest.mark.parametrize("resource", slow_but([False, True], True))
def test_rows_are_up_to_date_where_updates_are_deferred(resource: bool) -> None:
    assert_as_stock(
        fetched_alone,
        config("deferred"),
        optimizer=lambda: tf.train.AdamOptimizer(0.1),
        resource=resource,
    )


def test_what_a_lookup_returns_can_be_fed() -> None:
    rows = np.ones([2, WIDTH], np.float32)

    def runs(session: Any, model: Towers) -> List[Any]:
        fed = {model.user_rows: rows}
        whole = {**fed, **model.feeds(items=[3, 4], label=[1.0, 0.0])}
        compiled = session.make_callable(model.loss, list(whole))
        return [
            session.run(model.user_tower, fed),
            session.run(model.loss, whole),
            compiled(*whole.values()),
        ]

    assert_as_stock(runs)


def test_an_update_of_one_table_needs_its_feeds_alone() -> None:
    def runs(session: Any, model: Towers) -> List[Any]:
        for _ in range(3):
            session.run(model.train_users, model.feeds(users=[1, 7]))
        return []

    assert_as_stock(runs, apart=True)


def test_a_deferred_update_names_the_feeds_that_it_needs() -> None:
    def runs(session: Any, model: Towers) -> List[Any]:
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(model.train_users, model.feeds(users=[1, 7]))
        assert "does not feed 'items'" in str(raised.value)
        assert "group_embedding_options.lookups" in str(raised.value)
        return []

    outcomes(config("deferred"), runs, lambda: tf.train.AdamOptimizer(0.1), apart=True)


def exact() -> Any:
    made = config()
    optimizer_options = made.graph_options.optimizer_options
    optimizer_options.do_async_embedding = True
    asynchronous = optimizer_options.async_embedding_options
    asynchronous.threads_num, asynchronous.capacity = 1, 1
    asynchronous.infer_io_stage = asynchronous.exact = True
    return made


@pytest.mark.parametrize("made", [config, exact])
def test_parts_of_a_partial_run(made: Callable[[], Any]) -> None:
    def runs(session: Any, model: Towers) -> List[Any]:
        feeds = [model.users, model.items, model.label]
        handle = session.partial_run_setup([model.user_tower, model.loss], feeds)
        first = session.partial_run(handle, model.user_tower, model.feeds(users=[1, 2]))
        rest = model.feeds(items=[3, 4], label=[1.0, 0.0])
        return [first, session.partial_run(handle, model.loss, rest)]

    assert_as_stock(runs, made())


def test_a_missing_feed_is_tensorflows_error() -> None:
    def runs(session: Any, model: Towers) -> List[Any]:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"must feed .* 'label'"):
            session.run(model.loss, model.feeds(users=[1], items=[2]))
        return []

    outcomes(config(), runs)


def test_an_id_that_another_table_lacks_is_no_error() -> None:
    def runs(session: Any, model: Towers) -> List[Any]:
        bad, good = model.feeds(users=[5, 1], items=[ROWS]), model.feeds(users=[5, 1], items=[3])
        found = [session.run(model.user_tower, bad), session.run(model.user_tower, good)]
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not in") as raised:
            session.run([model.user_tower, model.loss], {**bad, model.label: [1.0]})
        assert raised.value.op.name == "embedding_lookup_1"
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
            session.run(model.train, {**bad, model.label: [1.0]})
        return found

    assert_as_stock(runs)


def test_what_acts_on_the_way_to_other_lookups_does_not() -> None:
    """A reader of items, in Python, is not asked for more by those who fetch users."""

    def asked(fetch_alone: int, options: Any) -> Sequence[int]:
        given: List[int] = []

        def items() -> np.ndarray:
            given.append(len(given))
            return np.array([len(given) % ROWS], np.int64)

        with tf.Graph().as_default():
            users = tf.constant([1], tf.int64)
            read = tf.py_func(items, [], tf.int64)
            read.set_shape([1])
            tables = [tf.get_variable(name, [ROWS, WIDTH]) for name in ("user", "item")]
            rows = [tf.nn.embedding_lookup(*one) for one in zip(tables, (users, read))]
            loss = tf.reduce_sum(tf.tanh(rows[0]) * rows[1])
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
            alone = tf.tanh(rows[0])
            with graph_opt.Session(config=options) as session:
                session.run(tf.global_variables_initializer())
                session.run(train)
                for _ in range(fetch_alone):
                    session.run(alone)
        return given

    assert asked(3, config()) == asked(3, None) == [0]


def test_a_partial_run_that_lacks_feeds_of_fused_lookups_is_refused_when_it_is_set_up() -> None:
    """TensorFlow would fail at one of its parts, and then in all steps of the session."""

    def runs(session: Any, model: Towers) -> List[Any]:
        with pytest.raises(tf.errors.InvalidArgumentError, match="does not feed 'items'"):
            session.partial_run_setup([model.user_tower, model.train_users], [model.users])
        return [session.run(model.user_tower, model.feeds(users=[1]))]

    outcomes(config("deferred"), runs, lambda: tf.train.AdamOptimizer(0.1), apart=True)


def test_an_error_of_a_step_that_runs_as_built_is_one_of_the_users_node() -> None:
    def runs(session: Any, model: Towers) -> List[Any]:
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(model.user_tower, model.feeds(users=[ROWS]))
        return ["" if raised.value.op is None else raised.value.op.name]

    (stock, *_), (ours, *_) = (
        outcomes(each, runs, lambda: tf.train.AdamOptimizer(0.1))
        for each in (None, config("deferred"))
    )
    assert ours == stock != ""


def joined(optimizer: Any, has_dense: bool) -> Any:
    """Feeds, what is made of two lookups that are joined, and a training step."""
    ids = [tf.placeholder(tf.int64, [None, 2], name) for name in "ab"]
    pooled = [
        tf.nn.safe_embedding_lookup_sparse(
            tf.get_variable("table_{}".format(place), [ROWS, WIDTH], use_resource=True),
            tf.sparse.from_dense(each),
        )
        for place, each in enumerate(ids)
    ]
    dense = tf.placeholder_with_default(tf.ones([2, 1]), [None, 1])
    both = tf.concat([*pooled, dense] if has_dense else pooled, 1)
    tower = tf.reduce_sum(tf.square(both), 1)
    return {key: [[1, 2], [3, 0]] for key in ids}, both, tower, optimizer.minimize(tower)


@pytest.mark.parametrize("has_dense", [False, True])
def test_joined_results_of_lookups_can_be_fed(has_dense: bool) -> None:
    """Beside all other feeds, which are no longer needed, and without them."""

    def run(options: Any) -> List[Any]:
        with tf.Graph().as_default(), graph_opt.Session(config=options) as session:
            tf.set_random_seed(3)
            feeds, both, tower, train = joined(tf.train.AdagradOptimizer(0.1), has_dense)
            session.run(tf.global_variables_initializer())
            session.run(train, feeds)
            fed = {both: np.full([2, 2 * WIDTH + has_dense], 2.0)}
            found = [session.run(tower, fed), session.run(tower, {**feeds, **fed})]
            found.append(session.make_callable(tower, [*feeds, both])(*feeds.values(), fed[both]))
            return [*found, *session.run([both, tower], feeds)]

    for one, other in zip(run(config()), run(None)):
        np.testing.assert_allclose(one, other, rtol=2e-6)


def test_joined_results_that_a_step_would_not_see_are_refused() -> None:
    feeds, both, _, train = joined(tf.train.AdamOptimizer(0.1), has_dense=False)
    with graph_opt.Session(config=config("deferred")) as session:
        session.run(tf.global_variables_initializer())
        session.run(train, feeds)
        with pytest.raises(tf.errors.InvalidArgumentError, match="would not see the value"):
            session.run(train, {**feeds, both: np.ones([2, 2 * WIDTH])})
