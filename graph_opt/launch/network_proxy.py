"""A TCP proxy that makes loopback as slow as a network: latency, and a limit of bandwidth.

    worker ──► [ listen ──(delay, rate)──► target ] ──► server
    worker ◄── [        ◄──(delay, rate)──        ] ◄── server

Every chunk is stamped when it is read and written when it is due: once it has had the time on the
wire that its bytes take at the given rate, behind all others of its direction, and the delay after
that. Without a rate, chunks queue up without limit while they wait, so that throughput is that of
loopback. `tc netem` would do this in the kernel, but needs privileges and a kernel module.

Signals make it fail as a network does: SIGUSR1 resets all connections and every new one, until
SIGUSR2 mends it; between SIGSTOP and SIGCONT, connections stay and nothing passes.
"""

from __future__ import annotations

import collections
import ctypes
import os
import select
import signal
import socket
import struct
import time
from types import FrameType
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

Address = Tuple[str, int]
Observer = Callable[[bytes], Any]

CHUNK_BYTES = 1 << 20
RATED_CHUNK_BYTES = 1 << 14  # as little as a rate of 0.1 Gbit/s sends in 1.3 ms
MOST_BACKLOG_SECONDS = 0.05  # of what is read before a rate lets it pass
CHUNKS_PER_WRITE = 64  # below IOV_MAX (1024 on Linux)
_END_OF_STREAM = b""
_PR_SET_TIMERSLACK = 29
_ABORTED = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset at once


class Chunk(NamedTuple):
    """Bytes that may be written from the time `due` (time.monotonic) on; none: end of stream."""

    due: float
    data: bytes


class Link:
    """One way between a target and all that talk to it.

    Args:
      delay: Latency in seconds.
      bytes_per_second: The rate that all connections share; None for no limit.
    """

    def __init__(self, delay: float, bytes_per_second: Optional[float]) -> None:
        self._delay = delay
        self._rate = bytes_per_second
        self._free_at = 0.0

    @property
    def chunk_bytes(self) -> int:
        """How much is read at once."""
        return CHUNK_BYTES if self._rate is None else RATED_CHUNK_BYTES

    def due(self, size: int) -> float:
        """When that many bytes, which are sent now, have arrived."""
        now = time.monotonic()
        if self._rate is None:
            return now + self._delay
        self._free_at = max(now, self._free_at) + size / self._rate
        return self._free_at + self._delay

    def is_full(self, now: float) -> bool:
        """Whether so much is on its way that senders must wait."""
        return self._free_at - now > MOST_BACKLOG_SECONDS


class Direction:
    """One way of one connection: what was read from `source` and waits to go to `sink`."""

    def __init__(
        self, source: socket.socket, sink: socket.socket, link: Link, observe: Observer
    ) -> None:
        self.source = source
        self.sink = sink
        self.is_reading = True
        self.is_finished = False
        self.is_blocked = False
        self._link = link
        self._observe = observe
        self._pending: Deque[Chunk] = collections.deque()

    def may_read(self, now: float) -> bool:
        """Whether more may be taken from the source."""
        return self.is_reading and not self._link.is_full(now)

    @property
    def next_due(self) -> Optional[float]:
        """When the oldest chunk may be written; None while nothing waits."""
        return self._pending[0].due if self._pending else None

    def read(self) -> None:
        """Takes what has arrived and stamps it."""
        try:
            data = self.source.recv(self._link.chunk_bytes)
        except BlockingIOError:
            return
        except OSError:
            data = _END_OF_STREAM
        self._observe(data)
        self.is_reading = data != _END_OF_STREAM
        self._pending.append(Chunk(self._link.due(len(data)), data))

    def write(self, now: float) -> None:
        """Writes all chunks that are due, as far as the sink takes them."""
        self.is_blocked = False
        while self._pending and self._pending[0].due <= now and not self.is_blocked:
            if self._pending[0].data == _END_OF_STREAM:
                self._finish()
                return
            self._write_due(now)

    def _write_due(self, now: float) -> None:
        due: List[bytes] = []
        for chunk in self._pending:
            if chunk.due > now or chunk.data == _END_OF_STREAM or len(due) == CHUNKS_PER_WRITE:
                break
            due.append(chunk.data)
        try:
            written = self.sink.sendmsg(due)
        except BlockingIOError:
            self.is_blocked = True
            return
        except OSError:
            self._finish()
            return
        self._drop(written)

    def _drop(self, written: int) -> None:
        while written:
            chunk = self._pending.popleft()
            if len(chunk.data) > written:
                self._pending.appendleft(Chunk(chunk.due, chunk.data[written:]))
                self.is_blocked = True
                return
            written -= len(chunk.data)

    def _finish(self) -> None:
        self._pending.clear()
        self.is_reading = False
        self.is_finished = True
        try:
            self.sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the peer has closed the connection already


def _observed_by_nobody() -> Tuple[Observer, Observer]:
    return lambda data: None, lambda data: None


class NetworkProxy:
    """Listens on one loopback port per target, and forwards as a network would.

    Args:
      targets: Addresses (host, port) to forward to.
      delay_seconds: Latency added in each direction, >= 0.
      bytes_per_second: What passes at most to each target, and from it; None for no limit.
      observers: Called for each connection. Of the two functions that it returns, one is given all
        that is sent to the target, in order and in pieces of any size, and the other one all that
        comes from there.

    Attributes:
      is_cut: Whether connections are reset; may be changed by a signal handler.

    Raises:
      ValueError: The delay is negative, or the rate not positive.
    """

    def __init__(
        self,
        targets: Sequence[Address],
        delay_seconds: float,
        bytes_per_second: Optional[float] = None,
        observers: Callable[[], Tuple[Observer, Observer]] = _observed_by_nobody,
    ) -> None:
        if delay_seconds < 0:
            raise ValueError("delay must not be negative, got {} s".format(delay_seconds))
        if bytes_per_second is not None and bytes_per_second <= 0:
            raise ValueError("rate must be positive, got {} B/s".format(bytes_per_second))
        self.is_cut = False
        self._listeners: Dict[socket.socket, Address] = {}
        self._links: Dict[socket.socket, Tuple[Link, Link]] = {}
        self._directions: List[Direction] = []
        self._observers = observers
        for target in targets:
            listener = _listener()
            self._listeners[listener] = target
            self._links[listener] = (
                Link(delay_seconds, bytes_per_second),
                Link(delay_seconds, bytes_per_second),
            )

    @property
    def ports(self) -> List[int]:
        """The ports listened on, in the order of the targets."""
        return [listener.getsockname()[1] for listener in self._listeners]

    def run(self, stop: int, wake: int) -> None:
        """Forwards until the file descriptor `stop` becomes readable (or is closed).

        Args:
          stop: The file descriptor.
          wake: One that becomes readable when `is_cut` has changed.
        """
        try:
            while not self._turn(stop, wake):
                pass
        finally:
            self._close()

    def _turn(self, stop: int, wake: int) -> bool:
        now = time.monotonic()
        reading = {d.source.fileno(): d for d in self._directions if d.may_read(now)}
        listening = {listener.fileno(): listener for listener in self._listeners}
        blocked = [d.sink.fileno() for d in self._directions if d.is_blocked]
        wanted = [stop, wake, *listening, *reading]
        readable, _, _ = select.select(wanted, blocked, [], self._seconds_to_wait(now))
        for source in readable:
            if source == stop:
                return True
            if source == wake:
                os.read(wake, CHUNK_BYTES)
            elif source in reading:
                reading[source].read()
            else:
                self._accept(listening[source])
        if self.is_cut:
            self._reset()
        now = time.monotonic()
        for direction in self._directions:
            direction.write(now)
        self._forget_finished()
        return False

    def _reset(self) -> None:
        for direction in self._directions:  # Each end is the source of one of the two.
            direction.source.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTED)
            direction.source.close()
        self._directions = []

    def _seconds_to_wait(self, now: float) -> Optional[float]:
        dues = [d.next_due for d in self._directions if not d.is_blocked]
        waits = [max(0.0, due - now) for due in dues if due is not None]
        if any(d.is_reading and not d.may_read(now) for d in self._directions):
            waits.append(MOST_BACKLOG_SECONDS)
        return min(waits) if waits else None

    def _accept(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        try:
            server = socket.create_connection(self._listeners[listener])
        except OSError:
            client.close()  # to the client this looks as if nobody listened at the target
            return
        for end in (client, server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        there, back = self._links[listener]
        sent, received = self._observers()
        self._directions.append(Direction(client, server, there, sent))
        self._directions.append(Direction(server, client, back, received))

    def _forget_finished(self) -> None:
        if not any(d.is_finished for d in self._directions):
            return
        open_sinks = {d.sink for d in self._directions if not d.is_finished}
        for direction in self._directions:
            if direction.is_finished and direction.source not in open_sinks:
                direction.source.close()
                direction.sink.close()
        self._directions = [d for d in self._directions if d.source.fileno() >= 0]

    def _close(self) -> None:
        for listener in self._listeners:
            listener.close()
        for direction in self._directions:
            direction.source.close()


def _listener() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    listener.setblocking(False)
    return listener


def serve(proxy: NetworkProxy, stop: int) -> None:
    """Prints the ports listened on, and forwards until a file descriptor becomes readable."""
    _wake_on_time()
    wake = _told_by_signals(proxy)
    print(*proxy.ports, flush=True)
    proxy.run(stop, wake)


def _told_by_signals(proxy: NetworkProxy) -> int:
    """Lets signals cut and mend the proxy; returns what becomes readable after one."""

    def told(number: int, _: Optional[FrameType]) -> None:
        proxy.is_cut = number == signal.SIGUSR1

    wake, written = os.pipe()
    for end in (wake, written):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(written)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, told)
    return wake


def _wake_on_time() -> None:
    """Asks Linux not to wake this thread up to 50 us late, as it may: that would be added twice."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    except (AttributeError, OSError):
        pass  # another system: the delay is a little longer
