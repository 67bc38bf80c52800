"""Counts the calls and bytes that pass through a proxy between TensorFlow's tasks.

gRPC opens a stream of HTTP/2 for each call, with one HEADERS frame from the caller. A connection
starts with a preface of 24 bytes; a frame has a header of 9 bytes, of which the first three are the
length of what follows it, and the fourth is its type (RFC 9113, sections 3.4 and 4.1).
"""

from __future__ import annotations

from typing import List, NamedTuple, Tuple

from graph_opt.launch.network_proxy import Observer

_PREFACE_BYTES = 24
_FRAME_HEADER_BYTES = 9
_LENGTH_BYTES = 3
_HEADERS = 1


class Passed(NamedTuple):
    """Calls, and the bytes of these and of their answers."""

    calls: int
    bytes: int


class Traffic:
    """What has passed, over all connections and in both directions.

    Example:
      >>> traffic = Traffic()
      >>> proxy = NetworkProxy(targets, 0.0, observers=traffic.observers)
      >>> # While it runs, from any thread:
      >>> traffic.so_far
      Passed(calls=1217, bytes=80318912)
    """

    def __init__(self) -> None:
        self._callers: List[_Caller] = []
        self._answered = 0

    def observers(self) -> Tuple[Observer, Observer]:
        """Those of a new connection: of what the caller sends, and of what it is answered."""
        caller = _Caller()
        self._callers.append(caller)
        return caller.take, self._take_answer

    def _take_answer(self, data: bytes) -> None:
        self._answered += len(data)

    @property
    def so_far(self) -> Passed:
        """What has passed until now."""
        callers = list(self._callers)
        sent = sum(caller.bytes for caller in callers)
        return Passed(sum(caller.calls for caller in callers), sent + self._answered)


class _Caller:
    """Counts calls in what is sent over one connection."""

    def __init__(self) -> None:
        self.calls = 0
        self.bytes = 0
        self._skipped = _PREFACE_BYTES
        self._header = b""

    def take(self, data: bytes) -> None:
        """Reads on in the stream."""
        self.bytes += len(data)
        position = 0
        while position < len(data):
            if self._skipped:
                step = min(self._skipped, len(data) - position)
                self._skipped -= step
            else:
                step = min(_FRAME_HEADER_BYTES - len(self._header), len(data) - position)
                self._header += data[position : position + step]
            position += step
            if len(self._header) == _FRAME_HEADER_BYTES:
                self.calls += self._header[_LENGTH_BYTES] == _HEADERS
                self._skipped = int.from_bytes(self._header[:_LENGTH_BYTES], "big")
                self._header = b""
