"""Random models train the same with and without fusion."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.example_share import example_share
from tests.random_models.choices import OPTIMIZERS, Model, models
from tests.random_models.graphs import config, difference, script_of, train

TOLERANCE = 2e-5
MODELS = models(OPTIMIZERS)


def check_training(model: Model) -> None:
    script = script_of(model)
    stock, fused = train(script, None), train(script, config(group=True))
    assert difference(fused, stock) < TOLERANCE
    if model.grouped:  # one op may also do lookups that nothing reads
        return
    read = sum(one.read for one in model.lookups)
    assert bool(read) == bool(fused.report.fused) and len(fused.report.fused) <= read


@example_share(0.03)
@given(MODELS)
def test_random_models_train_the_same(model: Model) -> None:
    check_training(model)


@pytest.mark.slow
@pytest.mark.fuzz("fused")
@given(MODELS)
def test_many_random_models_train_the_same(model: Model) -> None:
    check_training(model)


@pytest.mark.slow
@given(models(["adam"]))
def test_many_random_models_train_the_same_with_adam(model: Model) -> None:
    """Rows that no batch looks up move, too, and so does row 0 of bags without ids."""
    check_training(model._replace(inputs=model.inputs._replace(steps=10)))
