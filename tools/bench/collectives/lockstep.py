"""Ranks that take their turns together: a step needs all of them."""

from __future__ import annotations

import time
from typing import List

import tensorflow.compat.v1 as tf

from tools.bench.collectives.modes import AHEAD
from tools.bench.training.contenders import Contender

_LOOK_SECONDS = 0.005
_CALM_SECONDS = 0.05


class Ranks:
    """All ranks of Horovod, which must be initialized."""

    def __init__(self) -> None:
        import horovod.tensorflow as hvd

        self.number: int = hvd.rank()
        self.size: int = hvd.size()
        graph = tf.Graph()
        with graph.as_default():
            self._given = tf.placeholder(tf.int64, [])
            self._said = hvd.broadcast(self._given, 0, name="what_the_first_rank_says")
        self._session = tf.Session(graph=graph)

    def first_says(self, number: int) -> int:
        """The number that the first rank gives, on all ranks; waits for all of them."""
        return int(self._session.run(self._said, {self._given: number}))

    def let_rest(self, contender: Contender) -> None:
        """Waits until what runs ahead has filled its buffers on all ranks.

        Its messages would slow down the next contender, and meet those of its own under their
        names.
        """
        if contender.name in AHEAD:
            before: List[int] = []
            while True:
                now = [counters["put_count"] for counters in contender.counters().values()]
                if now == before:
                    break
                before = now
                time.sleep(_LOOK_SECONDS if not before else _CALM_SECONDS)
        self.first_says(0)
