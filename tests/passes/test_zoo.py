"""Models as people write them: everything is fused and runs ahead, or the reason is listed here."""

from __future__ import annotations

from typing import Any, Dict, List, Set, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.session.live import optimize_graph
from graph_opt.session.session import Session
from tests.passes import fused_models
from tests.passes.zoo_models import MODELS, batches
from tests.plain_sessions import plain_session
from tests.quick_cases import slow_but

# (model, what is not fused or does not run ahead, code). A gradient with a row for each id enters
# the norm by which gradients are clipped: as TensorFlow writes it, or the norm would differ.
EXPECTED: Set[Tuple[str, str, str]] = {
    ("bst", "embedding_lookup", "gradient_changed_before_update"),
    ("bst", "embedding_lookup_1", "gradient_changed_before_update"),
}
STEPS = 4


def run(name: str, options: Any) -> Tuple[List[float], Dict[str, Any]]:
    """Losses, and variables at the end."""
    with tf.Graph().as_default():
        tf.set_random_seed(2)
        loss, step = MODELS[name](batches())
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        initialize = [tf.global_variables_initializer(), tf.tables_initializer()]
        with Session(config=options) if options else plain_session() as session:
            session.run(initialize)
            losses = [float(session.run([loss, step])[0]) for _ in range(STEPS)]
            return losses, session.run(variables)


@pytest.mark.parametrize("name", slow_but(MODELS, "bst", "deepfm", "din", "dssm", "wide_and_deep"))
def test_what_is_left_has_a_known_reason(name: str) -> None:
    MODELS[name](batches())
    report = optimize_graph(tf.get_default_graph(), fused_models.config(prefetch=True))
    left = {
        (name, lookup.name, refusal["code"])
        for lookup in report.fused_lookups
        for refusal in lookup.refusals
    }
    left.update(
        (name, lookup.name, lookup.refusal["code"]) for lookup in report.lookups if lookup.refusal
    )
    left.update((name, refusal["node"], refusal["code"]) for refusal in report.refusals)
    assert left == {entry for entry in EXPECTED if entry[0] == name}
    assert report.fused_lookups and len(report.moved) == len(report.lookups)
    assert {lookup.update for lookup in report.fused_lookups} <= {"fused", "deferred"}
    assert all(one.refusals for one in report.fused_lookups if one.gradient == "stock")
    assert not [reader for reader in report.dense_readers if reader.in_each_step]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_they_train_as_with_tensorflow(name: str) -> None:
    losses, values = run(name, None)
    fused, fused_values = run(name, fused_models.config())
    np.testing.assert_allclose(fused, losses, rtol=1e-5)
    for variable, value in values.items():
        np.testing.assert_allclose(fused_values[variable], value, rtol=1e-4, atol=1e-5)
