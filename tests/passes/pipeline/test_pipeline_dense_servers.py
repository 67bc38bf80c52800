"""Pipelined training gives the numbers of TensorFlow when weights miss the update before."""

from __future__ import annotations

from typing import Iterator

import pytest

from tests.passes.pipeline import delayed_training as models
from tests.session.parameter_servers import stock_servers

OPTIMIZERS = ("sgd", "momentum", "adagrad", "adam", "ftrl")


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker with two parameter servers in processes of their own, which are stock TensorFlow."""
    with stock_servers(2) as target:
        yield target


def check(target: str, optimizer: str, resource: bool, servers: int, steps: int) -> None:
    def build() -> models.Model:
        return models.model(optimizer, resource, average=resource)

    reference = models.delayed(target, build, steps, servers)
    pipelined = models.pipelined(target, build, models.pipelining(), steps, servers)
    assert pipelined.difference(reference) == []


@pytest.mark.parametrize("resource", [True, False])
def test_numbers_are_those_of_delayed_gradients(target: str, resource: bool) -> None:
    check(target, "adam", resource, servers=1, steps=5)


@pytest.mark.slow
@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_fifty_steps_of_each_optimizer(
    target: str, optimizer: str, resource: bool, servers: int
) -> None:
    check(target, optimizer, resource, servers, steps=50)
