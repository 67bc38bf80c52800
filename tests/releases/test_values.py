"""A graph that any release wrote trains, fused, to the numbers to which it trains as written."""

from __future__ import annotations

import itertools
from typing import Any, Dict, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.inspect.shapes import add_shapes
from graph_opt.passes.optimize import optimize_graph_def
from tests.passes import fused_models
from tests.plain_sessions import plain_session
from tests.quick_cases import one_of_each
from tests.releases.archives import names
from tests.releases.outcomes import TENSORFLOW_1, TOTALS, not_fused, optimizer_of
from tests.releases.read import can_be_imported, read_graph
from tests.rules.lookup_models import ROWS
from tests.rules.lookup_values import FEATURES, random_batch
from tests.rules.test_lookup_inputs import initialize

STEPS = 3
# Models whose graphs are fused whichever release wrote them.
NAMES = [name for name in names(TENSORFLOW_1) if not not_fused(TENSORFLOW_1, name)]
NAMES = [name for name in NAMES if name in names("2.15.1")]


def batches() -> List[Dict[str, Any]]:
    """Random batches whose last row has ids: some lookups have no result for later rows."""
    drawn = (random_batch(seed, ROWS) for seed in itertools.count())
    full = (batch for batch in drawn if batch["shape"][0] - 1 in batch["indices"][:, 0])
    return list(itertools.islice(full, STEPS))


def values_of_variables(session: Any) -> Dict[str, np.ndarray]:
    reads = {}
    for operation in session.graph.get_operations():
        if operation.type == "VariableV2":
            reads[operation.name] = operation.outputs[0]
        elif operation.type == "VarHandleOp":
            dtype = operation.get_attr("dtype")
            reads[operation.name] = tf.raw_ops.ReadVariableOp(
                resource=operation.outputs[0], dtype=dtype
            )
    return dict(session.run(reads))


def trained(graph_def: Any, name: str) -> Dict[str, np.ndarray]:
    """All variables after a few steps on random batches."""
    (source,) = [node.name for node in graph_def.node if node.op == "IteratorGetNext"]
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        with plain_session() as session:
            initialize(session)
            for batch in batches():
                feed = {"{}:{}".format(source, at): batch[key] for at, key in enumerate(FEATURES)}
                session.run(optimizer_of(name), feed)
            return values_of_variables(session)


@pytest.mark.parametrize("release, name", one_of_each(list(TOTALS), NAMES[::4]))
def test_a_fused_graph_trains_as_it_does_unfused(release: str, name: str) -> None:
    graph_def = read_graph(release, name)
    if not can_be_imported(graph_def):
        pytest.skip("this TensorFlow cannot run graphs of {}".format(release))
    shaped = tf.GraphDef()
    shaped.CopyFrom(graph_def)
    add_shapes(shaped)
    fused = optimize_graph_def(shaped, fused_models.config())
    assert len(fused.report.fused) == len(fused.report.fused_lookups) > 0
    stock, found = trained(graph_def, name), trained(fused.graph_def, name)
    assert set(stock) <= set(found)
    for variable, value in stock.items():
        np.testing.assert_allclose(found[variable], value, rtol=1e-5, atol=1e-6, err_msg=variable)
