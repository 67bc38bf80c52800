"""Adam's deferred update gives everyone who reads a table what TensorFlow's own gives."""

from __future__ import annotations

import re
from itertools import product
from typing import Any, Callable, Dict, List, NamedTuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.embedding.group_lookup import group_embedding_lookup_sparse
from graph_opt.session.graph_records import report_of
from graph_opt.session.session import Session
from tests.passes import fused_models as models
from tests.passes.fusion.test_fuse_group_embedding import every_api, two_safe
from tests.quick_cases import slow_but

# Values of these models are about 1, so this is some ten units in the last place of float32.
TOLERANCE = 2e-6
DEFERRED = models.config(adam="deferred")


class Built(NamedTuple):
    """A model: what its steps fetch, and the fetches that come now and then."""

    loss: Any
    step: Any
    now_and_then: List[Any]


Build = Callable[[Dict[str, Any]], Built]


def of(lookups: Callable[[Dict[str, Any]], List[Any]]) -> Build:
    """These lookups under a decaying learning rate; now and then, all variables are fetched."""

    def build(inputs: Dict[str, Any]) -> Built:
        loss = models.loss_of(lookups(inputs), inputs)
        count = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.02, count, 7, 0.9)
        step = tf.train.AdamOptimizer(rate).minimize(loss, global_step=count)
        return Built(loss, step, tf.global_variables())

    return build


def run(build: Build, config: Any, steps: int = 12, every: int = 5) -> List[Any]:
    """All losses, and the other fetches after every few steps."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        built = build(models.batches())
        initialize = tf.global_variables_initializer()
        seen: List[Any] = []
        with tf.Session() if config is None else Session(config=config) as session:
            session.run(initialize)
            for number in range(1, steps + 1):
                seen.append(session.run([built.loss, built.step])[0])
                if number % every == 0:
                    values = session.run(built.now_and_then)
                    seen.extend(value for value in values if value is not None)
        report = report_of(graph)
    if config is not None:
        assert report is not None
        assert {one.update for one in report.fused_lookups if one.group} == {"deferred"}
    return seen


def assert_same(build: Build, config: Any = DEFERRED, **options: int) -> None:
    """Everything that is seen while the model trains is what TensorFlow's update gives."""
    stock = run(build, None, **options)
    for number, (ours, theirs) in enumerate(zip(run(build, config, **options), stock)):
        np.testing.assert_allclose(
            ours, theirs, rtol=TOLERANCE, atol=TOLERANCE, err_msg=str(number)
        )


@pytest.mark.parametrize("resource, shards", slow_but(product([False, True], [1, 3]), (True, 3)))
def test_tables_and_moments_are_stock_at_any_time(resource: bool, shards: int) -> None:
    assert_same(of(two_safe(resource, shards)))


@pytest.mark.parametrize("resource", [pytest.param(False, marks=pytest.mark.slow), True])
def test_every_api_trains_the_same(resource: bool) -> None:
    assert_same(of(every_api(resource, "mod", 2)))


def test_several_lookups_of_one_table_train_the_same() -> None:
    def lookups(inputs: Dict[str, Any]) -> List[Any]:
        table = models.table("one")
        features = [tf.sparse.from_dense(inputs[name]) for name in ("ids", "more")]
        return [tf.nn.safe_embedding_lookup_sparse(table, each) for each in features]

    assert_same(of(lookups))


@pytest.mark.parametrize("resource", slow_but([False, True], True))
def test_every_kind_of_reader_sees_current_rows(resource: bool) -> None:
    def build(inputs: Dict[str, Any]) -> Built:
        built = of(two_safe(resource))(inputs)
        table = next(each for each in tf.global_variables() if each.op.name == "one")
        moment = next(each for each in tf.global_variables() if each.op.name == "one/Adam")
        enabled = tf.control_flow_v2_enabled()
        conditional = []
        for use in (tf.disable_control_flow_v2, tf.enable_control_flow_v2):
            use()
            for bound in (-1.0, 1e9):
                taken = tf.norm(inputs["dense"]) > bound
                conditional.append(tf.cond(taken, lambda: tf.reduce_sum(table), lambda: 0.0))
        if not enabled:
            tf.disable_control_flow_v2()
        now_and_then = [
            *(tf.norm(table), tf.gather(table, [1, 5]), tf.gather(moment, [[2, 3]]), table[3]),
            *(tf.gather_nd(table, [[4], [5]]), tf.identity(table) + 0.0, moment * 2.0),
            *(tf.gather(table, [1, 0], axis=1), *conditional),
        ]
        return Built(built.loss, built.step, now_and_then)

    assert_same(build, every=3)


@pytest.mark.parametrize("resource", slow_but([False, True], True))
def test_an_average_of_the_table_in_each_step_is_stock(resource: bool) -> None:
    def build(inputs: Dict[str, Any]) -> Built:
        built = of(two_safe(resource))(inputs)
        average = tf.train.ExponentialMovingAverage(0.9)
        tables = [each for each in tf.global_variables() if each.op.name in ("one", "other")]
        with tf.control_dependencies([built.step]):
            step = average.apply(tables)
        averages = [average.average(table) for table in tables]
        return Built(built.loss, step, [*averages, *tables])

    assert_same(build)


@pytest.mark.parametrize("resource", slow_but([False, True], False))
def test_who_writes_a_table_writes_over_current_rows(resource: bool) -> None:
    """Also moments of rows that had none are noticed."""

    def build(inputs: Dict[str, Any]) -> Built:
        built = of(two_safe(resource))(inputs)
        named = {each.op.name: each for each in tf.global_variables()}
        table, moment = named["one"], named["one/Adam"]
        writes = [
            tf.assign(table, tf.ones([models.VOCABULARY, 4])),
            tf.assign(moment, tf.fill([models.VOCABULARY, 4], 0.01)),
        ]
        with tf.control_dependencies(writes):
            return Built(built.loss, built.step, [tf.constant(0)])

    assert_same(build, steps=17)


def test_prefetched_rows_train_nearly_the_same() -> None:
    config = models.config(adam="deferred", prefetch=True)
    stock = run(of(two_safe()), None, steps=30, every=100)
    ours = run(of(two_safe()), config, steps=30, every=100)
    np.testing.assert_allclose(ours, stock, rtol=0.1)


def test_a_session_says_how_many_updates_are_deferred(
    capfd: pytest.CaptureFixture[str],
) -> None:
    run(of(two_safe()), DEFERRED, steps=1)
    assert "updates of 2 tables fused (all deferred)" in capfd.readouterr().err


@pytest.mark.parametrize("resource", slow_but([False, True], False))
def test_the_models_own_group_lookup_of_such_a_table_sees_current_rows(resource: bool) -> None:
    """Its gradient is no fused one, but the update of the sum is."""

    def lookups(inputs: Dict[str, Any]) -> List[Any]:
        table = models.table("one", resource=resource)
        features = [tf.sparse.from_dense(inputs[name]) for name in ("ids", "more")]
        own = group_embedding_lookup_sparse([table, table], features[:1] * 2, ["sum", "mean"])
        return [tf.nn.safe_embedding_lookup_sparse(table, features[1]), *own]

    assert_same(of(lookups))


@pytest.mark.parametrize("resource", slow_but([False, True], True))
def test_what_is_replaced_still_works_under_its_name(resource: bool) -> None:
    """The rows before they are pooled, and TensorFlow's own update between two fused ones."""

    def build(inputs: Dict[str, Any]) -> Built:
        def lookups(inputs: Dict[str, Any]) -> List[Any]:
            table = models.table("one", resource=resource, shards=2)
            ids = tf.sparse.from_dense(tf.maximum(inputs["more"], 1))
            return [tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sum")]

        built = of(lookups)(inputs)
        operations = tf.get_default_graph().get_operations()
        gathers = [each for each in operations if each.type in ("GatherV2", "ResourceGather")]
        rows = next(each for each in gathers if each.name.startswith("embedding_lookup_sparse"))
        updates = [each for each in operations if re.match(r"Adam/update_one.*deps$", each.name)]
        assert len(updates) == 2
        return Built(built.loss, built.step, [rows.outputs[0], *updates])

    assert_same(build, every=4)


def test_initializing_again_starts_over() -> None:
    def build(inputs: Dict[str, Any]) -> Built:
        built = of(two_safe())(inputs)
        return Built(built.loss, built.step, [tf.global_variables_initializer()])

    assert_same(build, every=4)
