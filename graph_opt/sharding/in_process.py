"""Ranks that are threads of one process: for tests, and to try sharded tables without Horovod."""

from __future__ import annotations

import itertools
import os
import threading
from typing import Callable, List, Optional, Tuple, TypeVar

from graph_opt.compat import tf
from graph_opt.ops.all_to_all import (
    DEFAULT_TIMEOUT_SECONDS,
    RankOfGroup,
    exchange_all_to_all,
    fail_in_process_group,
)
from graph_opt.sharding.store import InProcessStore, note_end
from graph_opt.sharding.transport import Transport

Result = TypeVar("Result")

_numbers = itertools.count()


class InProcessTransport(Transport):
    """Carries messages between the ranks of an `InProcessGroup`."""

    def __init__(self, group: InProcessGroup, rank: int) -> None:
        self.rank = rank
        self.local_rank = rank
        self.place = "{}/{}/".format(group.name, rank)
        self.size = group.size
        self.store = group.store
        self.group_name = group.name
        self._group = group

    def all_to_all(
        self, tensor: tf.Tensor, splits: tf.Tensor, name: str
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """See `Transport`."""
        group = self._group
        sender = RankOfGroup(self.rank, self.size, group.name, group.timeout_seconds)
        return exchange_all_to_all(tensor, splits, name, sender)

    def fail(self, error: str) -> None:
        """See `Transport`."""
        self._group.fail(self.rank, error)


class InProcessGroup:
    """Ranks that reach each other within this process.

    An error of one rank ends the group: all calls that wait, and all later ones, fail with it.

    Attributes:
      name: Unique in this process.
      size: Number of ranks.
      timeout_seconds: Longest wait of a rank for the others.
      store: What the ranks tell each other outside of messages.
    """

    def __init__(self, size: int, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        if size < 1:
            raise ValueError("a group of {} ranks; need at least one".format(size))
        self.name = "in_process_{}_{}".format(os.getpid(), next(_numbers))
        self.size = size
        self.timeout_seconds = timeout_seconds
        self.store = InProcessStore()

    def transport(self, rank: int) -> InProcessTransport:
        """What rank number `rank` sends and receives with.

        Raises:
          ValueError: There is no such rank.
        """
        if not 0 <= rank < self.size:
            raise ValueError("rank {} of a group of {}".format(rank, self.size))
        return InProcessTransport(self, rank)

    def fail(self, rank: int, error: str) -> None:
        """Ends the group.

        Args:
          rank: The rank that can not go on.
          error: What follows "rank R" in the UnknownError of the others.
        """
        note_end(self.store, rank, error)
        fail_in_process_group(self.name, rank, self.size, error)


def run_ranks(
    size: int,
    work: Callable[[InProcessTransport], Result],
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> List[Result]:
    """Runs each rank of a new group in a thread, and waits for all.

    Args:
      size: Number of ranks.
      work: Called for each rank with its transport; builds a graph and a session of its own, or
        runs eagerly.
      timeout_seconds: Longest wait of a rank for the others.

    Returns:
      What `work` has returned, by rank.

    Raises:
      Exception: Whatever the first rank to fail has raised. The others are told, and have ended. As
        they may end before it does, errors of TensorFlow are raised only if there are no others.

    Example:
      >>> run_ranks(2, lambda transport: transport.rank)
      [0, 1]
    """
    group = InProcessGroup(size, timeout_seconds)
    results: List[Optional[Result]] = [None] * size
    errors: List[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = work(group.transport(rank))
        except BaseException as error:  # raised again in the calling thread
            errors.append(error)
            group.fail(rank, "failed: {}: {}".format(type(error).__name__, error))
        else:
            group.fail(rank, "has ended")  # for a rank that sends more messages than this one

    threads = [
        threading.Thread(target=run, args=(rank,), name="rank_{}".format(rank))
        for rank in range(size)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next(
            (error for error in errors if not isinstance(error, tf.errors.OpError)), errors[0]
        )
    return results  # type: ignore[return-value]
