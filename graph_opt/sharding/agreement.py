"""What ranks tell each other while they work on something together, outside of training steps."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.sharding.transport import Transport

_MESSAGE = "graph_opt_rows"


class Agreement:
    """Messages of bytes between ranks, and the first error of any of them.

    A rank that fails goes on to send what the others wait for. `agree` then fails on all ranks.

    Args:
      transport: How to reach the others.
      steps: What runs the messages.
    """

    def __init__(self, transport: Transport, steps: ArraySteps) -> None:
        self.rank = transport.rank
        self.size = transport.size
        self._transport = transport
        self._steps = steps
        self._error: Optional[BaseException] = None

    @property
    def has_failed(self) -> bool:
        """Whether this rank has noted an error."""
        return self._error is not None

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Keeps the first error of its block for `agree`."""
        try:
            yield
        except Exception as error:
            self._error = self._error or error

    def agree(self) -> None:
        """Waits for all ranks.

        Raises:
          Exception: This rank's own error, if it has one.
          RuntimeError: That of the first other rank.
        """
        error = self._error
        text = "" if error is None else "{}: {}".format(type(error).__name__, error)
        texts = [bytes(one).decode("utf-8") for one in self.gather(text.encode("utf-8"))]
        self._error = None
        if error is not None:
            raise error
        for rank, said in enumerate(texts):
            if said:
                raise RuntimeError("rank {} failed: {}".format(rank, said))

    def gather(self, data: bytes) -> List[np.ndarray]:
        """What each rank gives, on all ranks."""
        mine = np.frombuffer(data, np.uint8)
        return self._all_to_all([mine] * self.size)

    def collect(self, data: np.ndarray) -> List[np.ndarray]:
        """What each rank gives, on rank 0; nothing elsewhere."""
        nothing = np.zeros([0], np.uint8)
        return self._all_to_all([data] + [nothing] * (self.size - 1))

    def _all_to_all(self, parts: Sequence[np.ndarray]) -> List[np.ndarray]:
        if self.size == 1:
            return list(parts)
        # One byte more for each: no message is empty, which a transport may not carry.
        sent = np.concatenate([np.append(part, np.uint8(0)) for part in parts])
        splits = np.array([len(part) + 1 for part in parts], np.int32)
        received, sizes = self._steps.run(_MESSAGE, self._send, sent, splits)
        ends = np.cumsum(sizes)
        return [received[end - size : end - 1] for end, size in zip(ends, sizes)]

    def prepare(self) -> None:
        """Adds the nodes of messages to a graph before it is finalized."""
        if self.size > 1:
            self._steps.prepare(
                _MESSAGE, self._send, np.zeros([0], np.uint8), np.zeros([0], np.int32)
            )

    def _send(self, data: Any, splits: Any) -> Tuple[tf.Tensor, tf.Tensor]:
        name = self._transport.message_name(_MESSAGE)
        return self._transport.all_to_all(data, splits, name)
