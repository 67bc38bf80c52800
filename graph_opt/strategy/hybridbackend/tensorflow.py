"""`scope`, `embedding_scope`, `context` and `estimator` of HybridBackend.

Example:
  >>> import hybridbackend.tensorflow as hb
  >>> with hb.scope():
  ...     with hb.embedding_scope():
  ...         table = tf.get_variable("table", [1000000, 16])
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any, Iterator

from graph_opt.reporting.stderr import say_for_all_ranks
from graph_opt.sharding.transport_in_use import transport_or_init
from graph_opt.strategy import data_parallel
from graph_opt.strategy import embedding_scope as divided
from graph_opt.strategy.collective_strategy import CollectiveStrategy, Number


class _Context:
    """Which ranks there are."""

    @property
    def rank(self) -> Number:
        """Number of this rank."""
        return Number(transport_or_init().rank)

    @property
    def local_rank(self) -> Number:
        """Number of this rank among those on this machine."""
        return Number(transport_or_init().local_rank)

    @property
    def world_size(self) -> Number:
        """Number of ranks."""
        return Number(transport_or_init().size)


context = _Context()


@contextlib.contextmanager
def scope(**options: Any) -> Iterator[_Context]:
    """In this block, optimizers of `tf.train` apply the average of all ranks' gradients.

    Args:
      **options: HybridBackend's; they have no effect.
    """
    _say_without_effect("scope", options)
    transport_or_init()
    with data_parallel.data_parallel():
        yield context


@contextlib.contextmanager
def embedding_scope(**options: Any) -> Iterator[None]:
    """In this block, tables are made that sessions shard across ranks, lookups included.

    Args:
      **options: HybridBackend's; they have no effect.
    """
    _say_without_effect("embedding_scope", options)
    transport_or_init()
    with divided.embedding_scope():
        yield


def _estimator(model_fn: Any, **arguments: Any) -> Any:
    """A `tf.estimator.Estimator` that all ranks train alike."""
    return CollectiveStrategy().estimator(model_fn, **arguments)


estimator = SimpleNamespace(Estimator=_estimator)


def _say_without_effect(name: str, options: Any) -> None:
    if options:
        say_for_all_ranks("hb.{}: {} has no effect".format(name, ", ".join(sorted(options))))


def __getattr__(name: str) -> Any:
    raise AttributeError(
        "graph_opt has no hybridbackend.tensorflow.{}: only scope, embedding_scope, context and "
        "estimator.Estimator".format(name)
    )
