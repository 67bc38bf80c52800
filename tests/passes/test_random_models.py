"""Random models whose lookups run ahead: the stock graph's losses, step by step, to the end."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.example_share import example_share
from tests.random_models.choices import STAGE, STILL, Model, Stage, models
from tests.random_models.graphs import assert_moved, config, script_of, train

MODELS = models(STILL)


def _check_losses(model: Model, stage: Stage) -> None:
    script, options = script_of(model), config(stage=stage, staged=model.inputs.staged)
    stock, ahead = train(script, None), train(script, options)
    assert ahead.losses == stock.losses
    assert_moved(model, ahead.report)


@example_share(0.03)
@given(MODELS, STAGE)
def test_losses_equal_stock_at_every_step(model: Model, stage: Stage) -> None:
    _check_losses(model, stage)


@pytest.mark.slow
@pytest.mark.fuzz("async")
@given(MODELS, STAGE)
def test_losses_of_many_models_equal_stock_at_every_step(model: Model, stage: Stage) -> None:
    _check_losses(model, stage)
