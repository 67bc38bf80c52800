"""Which ranks there are, and what they tell each other."""

from __future__ import annotations

from typing import Any, Tuple

from graph_opt.compat import tf
from graph_opt.compat.legacy_optimizers import use_legacy_optimizers
from graph_opt.reporting.stderr import say_for_all_ranks
from graph_opt.sharding.table_savers import watch_savers
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.transport_in_use import (
    HOROVOD,
    SINGLE,
    communicating_through,
    launched_ranks,
    reach_ranks,
    transport_in_use,
)

__all__ = ["HOROVOD", "SINGLE", "communicating_through", "launched_ranks", "transport_in_use"]

_told = False


def init(comm_tool: str = HOROVOD, use_legacy_optimizer: bool = True) -> None:
    """Says how ranks reach each other; to be called before tables are made. Again, it does nothing.

    Args:
      comm_tool: `horovod`, after `horovod.tensorflow.init()`; or `single` for one rank. Where
        Horovod is not installed and no launcher has started several ranks, both mean one rank.
      use_legacy_optimizer: Whether `tf.keras.optimizers` and `tf.optimizers` become their `legacy`
        modules in this process, until `graph_opt.uninstall()`: scripts for SparseOperationKit rely
        on it. `sok.OptimizerWrapper` takes the new classes as well.

    Raises:
      ValueError: There is no such tool.
      RuntimeError: Horovod is not initialized, or `init` was called with another tool.
      ImportError: A launcher has started several ranks, but Horovod is not installed.

    Example:
      >>> hvd.init()
      >>> sok.init()
    """
    set_comm_tool(comm_tool)
    if use_legacy_optimizer:
        use_legacy_optimizers()


def set_comm_tool(tool: str) -> None:
    """The same as `sok.init(tool, use_legacy_optimizer=False)`.

    Example:
      >>> sok.set_comm_tool("single")
    """
    global _told
    transport = reach_ranks(tool)
    watch_savers()
    if transport.size > 1 and not _told:
        _told = True
        say_for_all_ranks(
            "gradients of sharded tables are summed over the {0} ranks: divide by {0} in the "
            "loss or the learning rate to average, unless hvd.DistributedOptimizer or "
            "DistributedGradientTape does".format(transport.size)
        )


def rank() -> int:
    """Number of this rank.

    Example:
      >>> sok.init("single")
      >>> sok.rank()
      0
    """
    return transport_in_use().rank


def local_rank() -> int:
    """Number of this rank among those on this machine.

    Example:
      >>> sok.init("single")
      >>> sok.local_rank()
      0
    """
    return transport_in_use().local_rank


def num_ranks() -> int:
    """Number of ranks.

    Example:
      >>> sok.init("single")
      >>> sok.num_ranks()
      1
    """
    return transport_in_use().size


def id_in_rank() -> int:
    """0: each rank has one device.

    Example:
      >>> sok.init("single")
      >>> sok.id_in_rank()
      0
    """
    return 0


def num_gpu_per_rank() -> int:
    """1: each rank has one device.

    Example:
      >>> sok.init("single")
      >>> sok.num_gpu_per_rank()
      1
    """
    return 1


def global_gpu_id() -> int:
    """Number of this rank.

    Example:
      >>> sok.init("single")
      >>> sok.global_gpu_id()
      0
    """
    return rank()


def num_gpus() -> int:
    """Number of ranks.

    Example:
      >>> sok.init("single")
      >>> sok.num_gpus()
      1
    """
    return num_ranks()


def alltoall(tensor: Any, splits: Any) -> Tuple[tf.Tensor, tf.Tensor]:
    """Sends a part of a tensor to each rank.

    Args:
      tensor: Cut along its first axis.
      splits: int32 [N]. How much goes to rank 0, 1, ...

    Returns:
      The parts received, one after another, and the size of each.
    """
    sent = tf.convert_to_tensor(tensor)
    transport = transport_in_use()
    return transport.all_to_all(sent, tf.cast(splits, tf.int32), _message(transport, "alltoall"))


def allgather(tensor: Any) -> tf.Tensor:
    """The tensors of all ranks, one after another along the first axis."""
    transport = transport_in_use()
    return transport.all_gather(tensor, _message(transport, "allgather"))


def allreduce(tensor: Any, op: str = "sum") -> tf.Tensor:
    """The elementwise `sum`, `average`, `max` or `min` of the tensors of all ranks.

    Raises:
      ValueError: There is no such reduction.
    """
    transport = transport_in_use()
    return transport.all_reduce(tensor, op, _message(transport, "allreduce"))


def broadcast(tensor: Any, root: int) -> tf.Tensor:
    """The tensor of rank `root`; those of the others must have its shape."""
    transport = transport_in_use()
    return transport.broadcast(tensor, root, _message(transport, "broadcast"))


def _message(transport: Transport, kind: str) -> str:
    return transport.message_name("graph_opt_sok_" + kind)
