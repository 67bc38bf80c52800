"""Dense weights and gradients that travel as one give TensorFlow's numbers, to the bit."""

from __future__ import annotations

from typing import Any, Iterator

import pytest
from hypothesis import given

from tests.example_share import example_share
from tests.optimizer_models import STOCK
from tests.passes.transfers import dense_models as models
from tests.passes.transfers import random_layers
from tests.session.parameter_servers import stock_servers

# Rows and ids of the table, and what tells the worker that the update is done.
OTHERS = ["Adam", "IteratorGetNext", "clip_by_global_norm/mul_1", "embedding_lookup"]
OPTIMIZERS = ("sgd", "momentum", "adagrad", "adam", "ftrl")


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker with two parameter servers in processes of their own, which are stock TensorFlow."""
    with stock_servers(2) as target:
        yield target


@pytest.mark.grappler
@pytest.mark.parametrize("resource", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_numbers_are_those_of_stock(target: str, resource: bool) -> None:
    build = models.usual_model("adam", resource)
    stock = models.train(target, build)
    packed = models.train(target, build, models.packing())
    assert packed.difference(stock) == []
    assert sorted(name for name in packed.received if "pack_dense" not in name) == OTHERS
    assert len(packed.received) < len(stock.received) // 4


@pytest.mark.slow
@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_hundred_steps_of_each_optimizer_are_those_of_stock(
    target: str, optimizer: str, resource: bool, servers: int
) -> None:
    build = models.usual_model(optimizer, resource)
    stock = models.train(target, build, steps=100, servers=servers)
    packed = models.train(target, build, models.packing(), 100, servers)
    assert packed.difference(stock) == []
    assert len(packed.received) < len(stock.received) // 2


def _check(target: str, model: random_layers.Model) -> None:
    def build() -> Any:
        return random_layers.build(model, STOCK[model.optimizer]())

    stock = models.train(target, build, steps=3)
    packed = models.train(target, build, models.packing(model.max_bytes), steps=3)
    assert packed.difference(stock) == []
    assert len(packed.received) <= len(stock.received)


@example_share(0.03)
@given(random_layers.MODELS)
def test_random_models_train_as_in_stock(target: str, model: random_layers.Model) -> None:
    _check(target, model)


@pytest.mark.slow
@given(random_layers.MODELS)
def test_many_random_models_train_as_in_stock(target: str, model: random_layers.Model) -> None:
    _check(target, model)
