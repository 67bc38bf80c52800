"""Horovod as the transport between processes; the only module that imports it."""

from __future__ import annotations

import importlib
from typing import Any, Tuple

from graph_opt.compat import tf
from graph_opt.sharding.store import launchers_store
from graph_opt.sharding.transport import GRADIENT_SUFFIX, Transport

_INSTALL = "install it with 'pip install graph_opt[horovod]' (or 'make horovod' in a checkout)"


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
        self.store = launchers_store()

    def all_to_all(
        self, tensor: tf.Tensor, splits: tf.Tensor, name: str
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """See `Transport`."""

        @tf.custom_gradient
        def exchange(sent: tf.Tensor, sizes: tf.Tensor) -> Any:
            received, received_splits = self._all_to_all(sent, sizes, name)

            def back(gradient: tf.Tensor, _: Any = None) -> Any:
                returned = self._all_to_all(gradient, received_splits, name + GRADIENT_SUFFIX)
                return returned[0], None

            return (received, received_splits), back

        tensor = tf.convert_to_tensor(tensor)
        # Whatever the splits were computed from is not the exchange's own: they are an argument.
        received, received_splits = exchange(tensor, tf.cast(splits, tf.int32))
        received.set_shape([None] + list(tensor.shape[1:]))
        return received, received_splits

    def _all_to_all(self, tensor: tf.Tensor, splits: tf.Tensor, name: str) -> Any:
        # Ranks meet under the last component of the node's name, wherever the node was cloned to.
        return self._horovod.alltoall(tensor, splits, name=name, ignore_name_scope=True)
