"""What ranks need to reach each other: messages by name."""

from __future__ import annotations

import abc
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.ops.message_names import message_name
from graph_opt.sharding.store import Store

SUM = "sum"
AVERAGE = "average"
MAX = "max"
MIN = "min"
OPERATIONS = (SUM, AVERAGE, MAX, MIN)

_REDUCTIONS: Dict[str, Callable[..., tf.Tensor]] = {
    SUM: tf.reduce_sum,
    AVERAGE: tf.reduce_mean,
    MAX: tf.reduce_max,
    MIN: tf.reduce_min,
}


class Transport(abc.ABC):
    """Carries messages between the ranks of a group.

    All ranks must send the same messages. A name must not be in flight twice: take names from
    `message_name`.

    Attributes:
      rank: Number of this rank.
      size: Number of ranks.
      local_rank: Number of this rank among those on the same machine.
      place: What comes before the names of exchanges to make them unique in the process.
      group_name: Name of the group of ranks in one process; "" for other groups.
      store: What ranks tell each other outside of messages; None if nothing carries it.
      guard: Watches the steps of this rank (`graph_opt.sharding.guard`), once there is one.
    """

    rank: int
    size: int
    local_rank: int = 0
    place: str = ""
    group_name: str = ""
    store: Optional[Store] = None
    guard: Any = None

    def message_name(self, base: str) -> str:
        """A name that is unique in the current graph, and the same on all ranks.

        Args:
          base: What the message is about, such as `graph_opt_exchange`. The name starts with it,
            and may in turn be the start of the names of several messages.
        """
        return message_name(base)

    @abc.abstractmethod
    def all_to_all(
        self, tensor: tf.Tensor, splits: tf.Tensor, name: str
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Sends a part of a tensor to each rank, and receives one from each.

        Args:
          tensor: Cut along its first axis; of the same dtype on all ranks, as are its other
            dimensions.
          splits: int32 [N]. How much of it goes to rank 0, 1, ...
          name: Name of the message.

        Returns:
          The parts from rank 0, 1, ..., one after another, and how large each is (int32 [N]). The
          gradient with respect to `tensor` travels back the same way, in a message of its own.
        """

    def fail(self, error: str) -> None:  # noqa: B027 - one rank has nobody to tell
        """Ends the group: messages that wait, and all later ones, fail on all ranks.

        Args:
          error: What follows "rank R " where the transport can say why.
        """

    def keep_apart(  # noqa: B027 - only Horovod has functions that scripts give all variables to
        self, shared: Callable[[Iterable[Any]], List[Any]]
    ) -> None:
        """From now on, functions of the transport that scripts call leave sharded tables alone.

        Args:
          shared: Returns, of some variables, those that all ranks share.
        """

    def all_gather(self, tensor: Any, name: str) -> tf.Tensor:
        """The tensors of all ranks, one after another along the first axis.

        Args:
          tensor: Its first dimension may differ by rank.
          name: Name of the message.

        Example:
          >>> keys = transport.all_gather(my_keys, transport.message_name("keys"))
        """
        mine = tf.convert_to_tensor(tensor)
        if self.size == 1:
            return mine
        repeats = tf.concat([[self.size], tf.ones([tf.rank(mine) - 1], tf.int32)], axis=0)
        splits = tf.fill([self.size], tf.shape(mine)[0])
        return self.all_to_all(tf.tile(mine, repeats), splits, name)[0]

    def all_reduce(self, tensor: Any, operation: str, name: str) -> tf.Tensor:
        """The tensors of all ranks, element by element, as one.

        Args:
          tensor: Of the same shape and dtype on all ranks.
          operation: `sum`, `average`, `max` or `min`.
          name: Name of the message.

        Raises:
          ValueError: There is no such operation.
        """
        check_operation(operation)
        mine = tf.convert_to_tensor(tensor)
        every = self.all_gather(tf.expand_dims(mine, 0), name)
        reduced = _REDUCTIONS[operation](every, axis=0)
        reduced.set_shape(mine.shape)
        return reduced

    def broadcast(self, tensor: Any, root: int, name: str) -> tf.Tensor:
        """The tensor of one rank.

        Args:
          tensor: Of the same shape and dtype on all ranks.
          root: That rank.
          name: Name of the message.

        Raises:
          ValueError: There is no such rank.
        """
        check_root(root, self.size)
        mine = tf.convert_to_tensor(tensor)
        if self.size == 1:
            return mine
        copies = int(self.rank == root)
        sent = tf.stack([mine] * self.size)[: copies * self.size]
        received = self.all_to_all(sent, tf.constant([copies] * self.size, tf.int32), name)[0][0]
        received.set_shape(mine.shape)
        return received


class OneRank(Transport):
    """A group of one rank: nothing travels."""

    rank = 0
    size = 1

    def all_to_all(
        self, tensor: tf.Tensor, splits: tf.Tensor, name: str
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """See `Transport`."""
        return tf.convert_to_tensor(tensor), tf.convert_to_tensor(splits, tf.int32)


def check_operation(operation: str) -> None:
    """Raises ValueError unless there is such an operation of `Transport.all_reduce`."""
    if operation not in OPERATIONS:
        raise ValueError(
            "the operation is {!r}; choose one of {}".format(operation, ", ".join(OPERATIONS))
        )


def check_root(root: int, size: int) -> None:
    """Raises ValueError unless a group of `size` ranks has a rank `root`."""
    if not 0 <= root < size:
        raise ValueError("there is no rank {} among {} ranks".format(root, size))
