"""Horovod as the transport between processes; the only module that imports its ops."""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import threading
from typing import Any, Callable, Iterable, List, Tuple

from graph_opt.compat import tf
from graph_opt.ops.all_to_all import RankOfGroup, exchange_all_to_all, use_horovod
from graph_opt.sharding.horovod_scripts import leave_tables_alone
from graph_opt.sharding.rank_store import common_store
from graph_opt.sharding.store import launchers_store
from graph_opt.sharding.transport import (
    AVERAGE,
    MAX,
    MIN,
    SUM,
    Transport,
    check_operation,
    check_root,
)

_INSTALL = "install it with 'pip install graph_opt[horovod]' (or 'make horovod' in a checkout)"
_PLACES = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
# What Horovod's ops do not take travels as a dtype of its size.
_CARRIERS = {tf.bfloat16: tf.float16, tf.uint32: tf.int32, tf.uint64: tf.int64}


def horovod() -> Any:
    """The module `horovod.tensorflow`.

    Raises:
      ImportError: It is not installed, or was built for another TensorFlow.
    """
    try:
        return importlib.import_module("horovod.tensorflow")
    except ImportError as error:
        raise ImportError(
            "more than one rank needs Horovod: {} ({})".format(_INSTALL, error)
        ) from error


_shut_down = threading.Lock()


class HorovodTransport(Transport):
    """Messages through Horovod, which must have been initialized.

    Raises:
      ImportError: Horovod is not installed.
      RuntimeError: `horovod.tensorflow.init()` has not been called, or Horovod is of a release
        whose core graph_opt cannot call.

    Example:
      >>> import horovod.tensorflow as hvd
      >>> hvd.init()
      >>> transport = HorovodTransport()
    """

    def __init__(self) -> None:
        self._horovod = horovod()
        if not self._horovod.is_initialized():
            raise RuntimeError("Horovod is not initialized: call horovod.tensorflow.init() first")
        self.rank = int(self._horovod.rank())
        self.size = int(self._horovod.size())
        self.local_rank = int(self._horovod.local_rank())
        if self.size > 1:
            use_horovod(_core())
        self.store = launchers_store()
        if self.store is None and self.size > 1:
            self.store = common_store(self, self.size == int(self._horovod.local_size()))

    def all_to_all(
        self, tensor: tf.Tensor, splits: tf.Tensor, name: str
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """See `Transport`."""
        if self.size == 1:
            return tf.convert_to_tensor(tensor), tf.convert_to_tensor(splits, tf.int32)
        return exchange_all_to_all(
            tensor, tf.cast(splits, tf.int32), name, RankOfGroup(self.rank, self.size)
        )

    def fail(self, error: str) -> None:
        """Shuts Horovod down, on all ranks."""
        with _shut_down:
            if not self._horovod.is_initialized():
                return
            places = [(name, getattr(self._horovod, name)()) for name in _PLACES]
            # Runs before Horovod's own: two shutdowns at once would wait forever.
            atexit.register(_wait_for_shutdown)
            self._horovod.shutdown()
            for name, place in places:
                setattr(self._horovod, name, self._answering(getattr(self._horovod, name), place))

    def keep_apart(self, shared: Callable[[Iterable[Any]], List[Any]]) -> None:
        """See `Transport`."""
        leave_tables_alone(self._horovod, shared)

    def _answering(self, ask: Callable[[], int], last: int) -> Callable[[], int]:
        """`hvd.rank` and the like fail once Horovod is shut down, and would hide what did that."""

        @functools.wraps(ask)
        def answer() -> int:
            return ask() if self._horovod.is_initialized() else last

        return answer

    def all_gather(self, tensor: Any, name: str) -> tf.Tensor:
        """See `Transport`."""
        gather = self._horovod.allgather
        return _carried(tf.convert_to_tensor(tensor), gather, name=name, ignore_name_scope=True)

    def all_reduce(self, tensor: Any, operation: str, name: str) -> tf.Tensor:
        """See `Transport`."""
        check_operation(operation)
        mine = tf.convert_to_tensor(tensor)
        operations = {
            SUM: self._horovod.Sum,
            AVERAGE: self._horovod.Average,
            MAX: self._horovod.Max,
            MIN: self._horovod.Min,
        }
        # Horovod does not compute with bfloat16.
        sent = tf.cast(mine, tf.float32) if mine.dtype == tf.bfloat16 else mine
        reduced = self._horovod.allreduce(
            sent, op=operations[operation], name=name, ignore_name_scope=True
        )
        return tf.cast(reduced, mine.dtype)

    def broadcast(self, tensor: Any, root: int, name: str) -> tf.Tensor:
        """See `Transport`."""
        check_root(root, self.size)
        mine = tf.convert_to_tensor(tensor)
        send = self._horovod.broadcast
        return _carried(mine, send, root_rank=root, name=name, ignore_name_scope=True)


def _core() -> str:
    """Path of the library that `horovod.tensorflow` has loaded."""
    module = importlib.import_module("horovod.tensorflow.mpi_ops")
    path = importlib.import_module("horovod.common.util").get_extension_full_path
    return str(path(os.path.abspath(str(module.__file__)), "mpi_lib"))


def _carried(tensor: tf.Tensor, send: Callable[..., tf.Tensor], **arguments: Any) -> tf.Tensor:
    carrier = _CARRIERS.get(tensor.dtype)
    if carrier is None:
        return send(tensor, **arguments)
    return tf.bitcast(send(tf.bitcast(tensor, carrier), **arguments), tensor.dtype)


def _wait_for_shutdown() -> None:
    with _shut_down:
        pass
