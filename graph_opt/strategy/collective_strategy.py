"""DeepRec's `CollectiveStrategy`, under the names that scripts import it by."""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import Any, Iterator, Mapping, Optional

from graph_opt.sharding.transport_in_use import transport_in_use, transport_or_init
from graph_opt.strategy import data_parallel
from graph_opt.strategy.embedding_scope import embedding_scope
from graph_opt.strategy.saved_model import export_saved_model

_BACKEND = "COLLECTIVE_STRATEGY"
_BACKENDS = ("sok", "hb")


class Number(int):
    """A number that scripts may also call: DeepRec's have `strategy.world_size` both ways."""

    def __call__(self) -> int:
        """The number."""
        return int(self)


class CollectiveStrategy:
    """Trains a model on all ranks alike, and divides its tables among them.

    Ranks are processes that `graph-opt run -np N` or `horovodrun` starts; Horovod is initialized if
    the script has not done so. With one rank the scopes change nothing, and Horovod is not needed.

    Raises:
      ValueError: The environment variable COLLECTIVE_STRATEGY is neither `sok` nor `hb`, which mean
        the same here.
      ImportError: A launcher has started several ranks, but Horovod is not installed.

    Example:
      >>> strategy = CollectiveStrategy()
      >>> with strategy.scope():
      ...     with strategy.embedding_scope():
      ...         table = tf.get_variable("table", [1000000, 16])
      ...     pooled = tf.nn.embedding_lookup_sparse(table, ids, None)
      ...     train = tf.train.AdagradOptimizer(0.1).minimize(loss_of(pooled))
      ...     with tf.train.MonitoredTrainingSession(checkpoint_dir="model") as session:
      ...         session.run(train)
    """

    def __init__(self) -> None:
        backend = os.environ.get(_BACKEND, _BACKENDS[0])
        if backend not in _BACKENDS:
            raise ValueError(
                "{} is {!r}; choose one of {}".format(_BACKEND, backend, ", ".join(_BACKENDS))
            )
        transport_or_init()

    @property
    def world_size(self) -> Number:
        """Number of ranks."""
        return Number(transport_in_use().size)

    @property
    def rank(self) -> Number:
        """Number of this rank."""
        return Number(transport_in_use().rank)

    @property
    def local_rank(self) -> Number:
        """Number of this rank among those on this machine."""
        return Number(transport_in_use().local_rank)

    @contextlib.contextmanager
    def scope(self) -> Iterator[CollectiveStrategy]:
        """In this block, optimizers of `tf.train` apply the average of all ranks' gradients.

        Learning rates stay as they are. Sessions of a graph that is trained like this start with
        the values of rank 0 on all ranks; `tf.train.MonitoredTrainingSession` and `tf.estimator`
        restore and write checkpoints, and write summaries, on rank 0 only.
        """
        with data_parallel.data_parallel():
            yield self

    @contextlib.contextmanager
    def embedding_scope(self) -> Iterator[None]:
        """In this block, tables are made that sessions shard across ranks, lookups included."""
        with embedding_scope():
            yield

    def estimator(self, model_fn: Any, **arguments: Any) -> Any:
        """A `tf.estimator.Estimator` that trains in this strategy's scope.

        Args:
          model_fn: As for `tf.estimator.Estimator`.
          **arguments: Others of `tf.estimator.Estimator`.
        """
        # TensorFlow's estimators are loaded, and change TensorFlow, when they are first used.
        module = importlib.import_module("graph_opt.strategy.estimator")
        return module.collective_estimator(model_fn, **arguments)

    def export_saved_model(
        self,
        savedmodel_dir: str,
        checkpoint_dir: Optional[str] = None,
        signature_def_fn: Any = None,
        assets_extra: Optional[Mapping[str, str]] = None,
        as_text: bool = False,
        clear_devices: bool = True,
        strip_default_attrs: bool = True,
    ) -> str:
        """Writes a SavedModel of a checkpoint, which TensorFlow alone serves; see `saved_model`."""
        return export_saved_model(
            savedmodel_dir,
            checkpoint_dir,
            signature_def_fn,
            assets_extra,
            as_text,
            clear_devices,
            strip_default_attrs,
        )
