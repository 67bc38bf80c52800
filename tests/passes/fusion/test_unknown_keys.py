"""Which lookups of dynamic tables make no rows: those of sessions that serve."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from graph_opt.compat import tf
from graph_opt.dynamic.options import DynamicTableOptions
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.sharding.initializers import Constant
from tests.passes import fused_models
from tests.passes.one_pass import Passed, ran_pass

PASS = "read_unknown_keys"


def looked_up(insert: Any = True, trains: bool = False) -> None:
    table = DynamicTableVariable("table", 2, DynamicTableOptions(Constant(1.0)))
    keys = tf.placeholder(tf.int64, [None], name="keys")
    rows = table.sparse_read(keys, name="rows", insert=insert)
    if trains:
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(rows))


def ran(fuse_inference: Optional[bool] = True, **known: Any) -> Passed:
    named = {} if fuse_inference is None else {"fuse_inference": fuse_inference}
    return ran_pass(PASS, fused_models.config(**named), **known)


def test_lookups_make_no_rows() -> None:
    looked_up()
    passed = ran()
    (moved,) = passed.moved()
    assert moved.startswith("rows:4 ") and moved.endswith(" -> unknown_keys/0/insert")
    (insert,) = [node for node in passed.change.after.node if node.name == "unknown_keys/0/insert"]
    assert not tf.make_ndarray(insert.attr["value"].tensor)
    assert "1 lookup of dynamic tables made to read default rows" in passed.report.changes[0]


def test_neither_do_those_that_were_told_by_a_tensor() -> None:
    looked_up(tf.placeholder(tf.bool, [], name="insert"))
    assert ran().moved() == ["rows:4 insert -> unknown_keys/0/insert"]


@pytest.mark.parametrize("fuse_inference", [None, False])
def test_only_where_the_option_asks_for_it(fuse_inference: Optional[bool]) -> None:
    looked_up()
    assert ran(fuse_inference).is_idle


def test_lookups_that_make_none_stay() -> None:
    looked_up(insert=False)
    assert ran().is_idle


def test_a_graph_that_trains_makes_rows_unless_its_session_evaluates() -> None:
    looked_up(trains=True)
    assert ran().is_idle
    assert not ran(evaluates=True).is_idle
