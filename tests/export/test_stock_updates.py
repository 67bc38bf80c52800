"""Updates by DeepRec's optimizers leave in TensorFlow's ops, which train as they do."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.export.users_graph import is_ours
from graph_opt.session.session import Session
from tests.optimizers.deeprec_models import CASES
from tests.quick_cases import slow_but

START = np.random.RandomState(5).normal(size=[6, 3]).astype(np.float32)
ROWS = [[1, 4, 1], [4, 0, 5], [1, 1, 1], [2, 3, 4]]


def trained(session: Any) -> List[np.ndarray]:
    """The table and its slots after each of some steps."""
    graph = session.graph
    variables = sorted(graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES), key=lambda v: v.name)
    session.run("init")
    found = []
    for rows in ROWS:
        session.run("train", {"rows:0": rows})
        found += session.run(variables)
    return found


@pytest.mark.parametrize("use_resource", slow_but([False, True], False))
@pytest.mark.parametrize("case", CASES)
def test_an_exported_graph_trains_without_graph_opt(case: str, use_resource: bool) -> None:
    step = tf.train.get_or_create_global_step()
    table = tf.get_variable("table", initializer=START, use_resource=use_resource)
    rows = tf.placeholder(tf.int64, [None], "rows")
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, rows) - 1.0))
    CASES[case].make(step).minimize(loss, global_step=step, name="train")
    tf.variables_initializer(tf.global_variables(), name="init")
    with Session() as session:
        expected = trained(session)
        meta = tf.train.export_meta_graph()
    assert not [node.name for node in meta.graph_def.node if is_ours(node.op)]
    with tf.Graph().as_default():
        tf.train.import_meta_graph(meta)
        with tf.Session() as session:
            np.testing.assert_array_almost_equal_nulp(
                np.concatenate([one.ravel() for one in expected]).astype(np.float32),
                np.concatenate([one.ravel() for one in trained(session)]).astype(np.float32),
                nulp=16,
            )
