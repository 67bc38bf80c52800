"""Updates of tables sharded across ranks: one op sums what ranks send, and updates."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List

import pytest

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.divided_gradients import divided_by
from graph_opt.sharding.in_process import InProcessGroup
from graph_opt.sok.communication import communicating_through
from tests.passes import fused_models as models
from tests.passes.drawings import value_of
from tests.passes.fusion.fused_drawings import fused

SHARDED = "ResourceExchangeApply"
SLICES = "ResourceGroupEmbeddingApply"
Changed = Callable[[Any, int], Any]


@pytest.fixture(autouse=True)
def first_of_two_ranks() -> Iterator[None]:
    """Messages are written as those of this rank."""
    with communicating_through(InProcessGroup(2).transport(0)):
        yield


def exchange(*modes: Any) -> List[Any]:
    """The tables of an exchange, and their gradients."""
    tables = [
        sok.Variable(
            shape=[8, 3 + number], initializer="ones", mode=mode, name="t{}".format(number)
        )
        for number, mode in enumerate(modes)
    ]
    bags = tf.sparse_placeholder(tf.int64, [None, 4])
    pooled = sok.lookup_sparse(tables, [bags] * len(tables), combiners=["sum"] * len(tables))
    loss = tf.add_n([tf.reduce_sum(tf.square(one)) for one in pooled])
    return list(zip(tf.gradients(loss, tables), tables))


def updates(*pairs: Any, optimizer: Any = None) -> List[Any]:
    """The ops that update them once they are fused."""
    (optimizer or tf.train.AdagradOptimizer(0.1)).apply_gradients(pairs)
    passed = fused(models.config(adam="deferred"))
    return [node for node in passed.view.nodes.values() if node.op in (SHARDED, SLICES)]


def shown(node: Any, *names: str) -> Dict[str, Any]:
    return {name: value_of(node.attr[name]) for name in names}


def test_the_update_takes_what_ranks_send() -> None:
    (update,) = updates(*exchange(None, "localized:1", "localized:0"))
    assert update.op == SHARDED
    assert list(update.input)[:6] == ["t0", "t1", "t2", "t0/Adagrad", "t1/Adagrad", "t2/Adagrad"]
    assert shown(update, "table_names", "table_widths", "served", "num_divisors") == {
        "table_names": ["t0", "t1", "t2"],
        "table_widths": [3, 4, 5],
        "served": [0, 2],
        "num_divisors": 0,
    }


def test_tables_that_this_rank_does_not_have_may_be_left_out() -> None:
    here, there, other = exchange(None, "localized:1", "localized:0")
    (update,) = updates(other, here)
    assert update.op == SHARDED
    assert shown(update, "table_names", "served") == {"table_names": ["t0", "t2"], "served": [0, 1]}
    del there


def test_each_exchange_has_an_update_of_its_own() -> None:
    found = updates(*exchange(None, None), *exchange(None))
    assert [node.op for node in found] == [SHARDED] * 2


def test_sums_are_divided_as_the_script_divides_them() -> None:
    pairs = [(divided_by(one, 2), table) for one, table in exchange(None, None)]
    (update,) = updates(*pairs)
    assert update.op == SHARDED and update.attr["num_divisors"].i == 1


def test_a_deferred_update_is_one_as_well() -> None:
    (update,) = updates(*exchange(None, None), optimizer=tf.train.AdamOptimizer(0.1))
    assert update.op == SHARDED and len(update.attr["row_states"].list.s) == 2


@pytest.mark.parametrize(
    "changed",
    [
        lambda one, number: divided_by(one, number + 2),
        lambda one, number: tf.IndexedSlices(tf.minimum(one.values, 1.0), one.indices),
        lambda one, number: one if number else tf.IndexedSlices(one.values * 2.0, one.indices),
    ],
)
def test_gradients_that_are_changed_are_summed_before(changed: Changed) -> None:
    pairs = [
        (changed(one, number), table) for number, (one, table) in enumerate(exchange(None, None))
    ]
    assert {node.op for node in updates(*pairs)} == {SLICES}


def test_a_table_that_another_optimizer_trains_is_summed_before() -> None:
    first, second = exchange(None, None)
    tf.train.MomentumOptimizer(0.1, 0.9).apply_gradients([first])
    assert [node.op for node in updates(second)] == [SLICES] * 2


def test_keys_are_summed_before() -> None:
    table = sok.DynamicVariable(4, initializer="ones", name="keys")
    bags = tf.sparse_placeholder(tf.int64, [None, 4])
    loss = tf.reduce_sum(sok.lookup_sparse(table, bags, combiners="sum"))
    pairs = zip(tf.gradients(loss, [table]), [table])
    assert SHARDED not in {node.op for node in updates(*pairs)}
