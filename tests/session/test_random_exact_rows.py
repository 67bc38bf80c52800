"""Random models whose lookups run ahead with exact rows: the bits of trainings in main."""

from __future__ import annotations

from typing import Iterator

import pytest
from hypothesis import given

from tests.example_share import example_share
from tests.random_models.choices import OPTIMIZERS, STAGE, Model, Stage, models
from tests.random_models.graphs import (
    assert_moved,
    assert_same,
    config,
    difference,
    script_of,
    train,
)
from tests.session.parameter_servers import cluster

MODELS = models(OPTIMIZERS)
SERVERS = 2
TOLERANCE = 2e-5


def _check(model: Model, stage: Stage, target: str = "") -> None:
    script = script_of(model, SERVERS if target else 0)
    fused = train(script, config(group=True, exact=True), target)
    options = config(group=True, stage=stage, exact=True, staged=model.inputs.staged)
    exact = train(script, options, target)
    assert_same(exact, fused)
    assert_moved(model, exact.report)
    if target and model.optimizer != "adam":  # Here rows without a gradient stay.
        assert difference(fused, train(script, None, target)) < TOLERANCE


@example_share(0.03)
@given(MODELS, STAGE)
def test_random_models(model: Model, stage: Stage) -> None:
    _check(model, stage)


@pytest.mark.slow
@pytest.mark.fuzz("exact")
@given(MODELS, STAGE)
def test_many_random_models(model: Model, stage: Stage) -> None:
    _check(model, stage)


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """The target of a worker with servers in processes of their own."""
    with cluster(SERVERS) as (one,):
        yield one


@example_share(0.02)
@given(model=MODELS, stage=STAGE)
def test_random_models_on_servers(target: str, model: Model, stage: Stage) -> None:
    _check(model, stage, target)


@pytest.mark.slow
@pytest.mark.fuzz("servers")
@given(model=MODELS, stage=STAGE)
def test_many_random_models_on_servers(target: str, model: Model, stage: Stage) -> None:
    _check(model, stage, target)
