"""`Init`, with which scripts for SparseOperationKit 1 begin."""

from __future__ import annotations

import sys
import weakref
from typing import Any, MutableMapping, Optional

from graph_opt.compat import tf
from graph_opt.sharding.transport_in_use import (
    HOROVOD,
    SINGLE,
    launched_ranks,
    transport_if_chosen,
)
from graph_opt.sok.communication import set_comm_tool

_HOROVOD_MODULE = "horovod.tensorflow"
_seeds: MutableMapping[Any, Optional[int]] = weakref.WeakKeyDictionary()


def Init(  # noqa: N802 (SparseOperationKit's name)
    global_batch_size: int, seed: Optional[int] = None
) -> tf.Tensor:
    """Says how ranks reach each other; to be called once, before layers are made.

    Ranks reach each other through Horovod if the script has imported `horovod.tensorflow`, or if a
    launcher has started several ranks. Otherwise there is one rank.

    Args:
      global_batch_size: Samples of all ranks in a step. Batches need not have that size, nor equal
        ones on all ranks.
      seed: Of the tables whose initializer has none; the same on all ranks.

    Returns:
      The string `OK`. In a session it need not be run.

    Raises:
      ValueError: The batch size is not a positive number.
      RuntimeError: Horovod is not initialized, or `tf.distribute` has several replicas.

    Example:
      >>> hvd.init()
      >>> session.run(sok.Init(global_batch_size=8192))
      b'OK'
    """
    if isinstance(global_batch_size, bool) or int(global_batch_size) < 1:
        raise ValueError(
            "global_batch_size is {!r}; need a positive number".format(global_batch_size)
        )
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if replicas > 1:
        raise RuntimeError(
            "tf.distribute has {} replicas in this process, but tables are sharded across "
            "processes that Horovod starts: horovodrun -np {} python SCRIPT".format(
                replicas, replicas
            )
        )
    _start()
    _seeds[tf.get_default_graph()] = seed
    return tf.constant("OK")


def seed_of_tables() -> Optional[int]:
    """The seed that `Init` was given; None if there is none."""
    return _seeds.get(tf.get_default_graph())


def _start() -> None:
    if transport_if_chosen() is None:
        set_comm_tool(HOROVOD if _HOROVOD_MODULE in sys.modules or launched_ranks() > 1 else SINGLE)
