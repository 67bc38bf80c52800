"""Pipelined training gives the numbers of TensorFlow: with old weights, if these miss an update."""

from __future__ import annotations

from typing import Iterator

import pytest

from tests.passes.pipeline import delayed_training as models
from tests.quick_cases import slow_but
from tests.session.parameter_servers import stock_servers

OPTIMIZERS = ("sgd", "momentum", "adagrad", "adam", "ftrl")


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker with two parameter servers in processes of their own, which are stock TensorFlow."""
    with stock_servers(2) as target:
        yield target


def check(
    target: str, optimizer: str, resource: bool, servers: int, steps: int, staleness: int = 1
) -> None:
    def build() -> models.Model:
        return models.model(optimizer, resource, average=resource)

    train = models.delayed if staleness else models.undelayed
    reference = train(target, build, steps, servers)
    pipelined = models.pipelined(target, build, models.pipelining(staleness), steps, servers)
    assert pipelined.difference(reference) == []


@pytest.mark.parametrize("resource", slow_but([True, False], True))
def test_numbers_are_those_of_delayed_gradients(target: str, resource: bool) -> None:
    check(target, "adam", resource, servers=1, steps=5)


def test_weights_that_miss_no_update_give_stock_numbers(target: str) -> None:
    check(target, "adam", True, servers=1, steps=4, staleness=0)


@pytest.mark.slow
@pytest.mark.parametrize("staleness", [0, 1])
@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_fifty_steps_of_each_optimizer(
    target: str, optimizer: str, resource: bool, servers: int, staleness: int
) -> None:
    check(target, optimizer, resource, servers, steps=50, staleness=staleness)
