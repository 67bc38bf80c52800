"""What ranks need to reach each other: all-to-all of rows, by name."""

from __future__ import annotations

import abc
from typing import Any, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.sharding.store import Store

GRADIENT_SUFFIX = "_gradients"


class Transport(abc.ABC):
    """Carries messages between the ranks of a group.

    Attributes:
      rank: Number of this rank.
      size: Number of ranks.
      store: What ranks tell each other outside of messages; None if nothing carries it.
    """

    rank: int
    size: int
    store: Optional[Store] = None

    @abc.abstractmethod
    def all_to_all(
        self, tensor: tf.Tensor, splits: tf.Tensor, name: str
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Sends a part of a tensor to each rank, and receives one from each.

        All ranks must call it under the same name, which no other message in flight may have.

        Args:
          tensor: Cut along its first axis; of the same dtype on all ranks, as are its other
            dimensions.
          splits: int32 [N]. How much of it goes to rank 0, 1, ...
          name: Name of the message.

        Returns:
          The parts from rank 0, 1, ..., one after another, and how large each is (int32 [N]). The
          gradient with respect to `tensor` travels back the same way, in a message named with
          `GRADIENT_SUFFIX`.
        """


class OneRank(Transport):
    """A group of one rank: nothing travels."""

    rank = 0
    size = 1

    def all_to_all(
        self, tensor: tf.Tensor, splits: tf.Tensor, name: str
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """See `Transport`."""
        return tf.convert_to_tensor(tensor), tf.convert_to_tensor(splits, tf.int32)


def gather_from_all(transport: Transport, value: Any, name: str) -> tf.Tensor:
    """The tensors of all ranks, one after another along the first axis.

    Args:
      transport: How to reach the others.
      value: This rank's tensor, of rank 1 or more; its first dimension may differ by rank.
      name: Name of the message.

    Example:
      >>> keys = gather_from_all(transport, my_keys, "keys")
    """
    tensor = tf.convert_to_tensor(value)
    if transport.size == 1:
        return tensor
    repeats = tf.concat([[transport.size], tf.ones([tf.rank(tensor) - 1], tf.int32)], axis=0)
    splits = tf.fill([transport.size], tf.shape(tensor)[0])
    return transport.all_to_all(tf.tile(tensor, repeats), splits, name)[0]
