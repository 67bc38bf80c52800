"""Horovod as the transport between processes; the only module that imports its ops."""

from __future__ import annotations

import atexit
import functools
import importlib
import threading
from typing import Any, Callable, Iterable, List, Tuple

from graph_opt.compat import tf
from graph_opt.compat.eager import differentiated_by, record_gradient
from graph_opt.ops.message_names import GRADIENT_SUFFIX, message_name
from graph_opt.sharding.horovod_scripts import leave_tables_alone
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
_GRADIENTS = {"HorovodAlltoall": "GraphOptHorovodAlltoall", "Bitcast": "GraphOptHorovodBitcast"}
# What Horovod's ops do not take travels as a dtype of its size; gradients need one of floats.
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
      RuntimeError: `horovod.tensorflow.init()` has not been called.

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
        self.store = launchers_store()

    def all_to_all(
        self, tensor: tf.Tensor, splits: tf.Tensor, name: str
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """See `Transport`."""
        tensor = tf.convert_to_tensor(tensor)
        received, received_splits = _all_to_all(tensor, tf.cast(splits, tf.int32), name)
        received.set_shape([None] + list(tensor.shape[1:]))
        return received, received_splits

    def fail(self, error: str) -> None:
        """Shuts Horovod down, on all ranks."""
        with _shut_down:
            if not self._horovod.is_initialized():
                return
            places = [(name, getattr(self._horovod, name)()) for name in _PLACES]
            # Runs before Horovod's own: two shutdowns at once would wait for ever.
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


@tf.autograph.experimental.do_not_convert
def _all_to_all(tensor: tf.Tensor, splits: tf.Tensor, name: str) -> Any:
    def send(carrier: tf.Tensor) -> Any:
        # Ranks meet under the last component of the node's name, wherever the node was cloned to.
        return horovod().alltoall(carrier, splits, name=name, ignore_name_scope=True)

    def send_back(gradient: tf.Tensor) -> tf.Tensor:
        returned = message_name(name + GRADIENT_SUFFIX)
        return _all_to_all(tf.convert_to_tensor(gradient), received_splits, returned)[0]

    carrier = _CARRIERS.get(tensor.dtype)
    with differentiated_by(_GRADIENTS):
        received, received_splits = send(tf.bitcast(tensor, carrier) if carrier else tensor)
        if carrier:
            received = tf.bitcast(received, tensor.dtype)
    record_gradient("GraphOptAllToAll", received, tensor, send_back)
    return received, received_splits


def _carried(tensor: tf.Tensor, send: Callable[..., tf.Tensor], **arguments: Any) -> tf.Tensor:
    carrier = _CARRIERS.get(tensor.dtype)
    if carrier is None:
        return send(tensor, **arguments)
    return tf.bitcast(send(tf.bitcast(tensor, carrier), **arguments), tensor.dtype)


@tf.RegisterGradient(_GRADIENTS["HorovodAlltoall"])
def _differentiate_all_to_all(op: Any, gradient: Any, _: Any) -> List[Any]:
    """Horovod's own gradient names its message after the gradient's node."""
    if gradient is None:
        return [None, None]
    name = message_name(op.name.rsplit("/", 1)[-1] + GRADIENT_SUFFIX)
    return [_all_to_all(tf.convert_to_tensor(gradient), op.outputs[1], name)[0], None]


@tf.RegisterGradient(_GRADIENTS["Bitcast"])
def _differentiate_bitcast(op: Any, gradient: Any) -> Any:
    """Of a tensor that travels as another dtype, so does the gradient."""
    return tf.bitcast(gradient, op.inputs[0].dtype)


def _wait_for_shutdown() -> None:
    with _shut_down:
        pass
