"""A TCP proxy that adds latency in each direction and nothing else.

    worker ──► [ listen ──(D ms)──► target ] ──► server
    worker ◄── [        ◄──(D ms)──        ] ◄── server

Every chunk is stamped when it is read and written once it is D milliseconds old. Chunks queue up
without limit while they wait, so that throughput is that of loopback: latency without throttling.
`tc netem` would do this in the kernel, but needs privileges and a kernel module.

Run as a process of its own (one thread, one loop, all connections):

    python -m tools.bench.cluster.delay_proxy --delay-ms 1 --target HOST:PORT --target HOST:PORT

prints one line with the ports it listens on, in the order of the targets, and ends when its
standard input is closed, so that it never outlives the process that started it.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import select
import socket
import sys
import time
from typing import Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

Address = Tuple[str, int]

CHUNK_BYTES = 1 << 20
CHUNKS_PER_WRITE = 64  # below IOV_MAX (1024 on Linux)
_END_OF_STREAM = b""
_PR_SET_TIMERSLACK = 29


class Chunk(NamedTuple):
    """Bytes that may be written from the time `due` (time.monotonic) on; none: end of stream."""

    due: float
    data: bytes


class Direction:
    """One way of one connection: what was read from `source` and waits to go to `sink`."""

    def __init__(self, source: socket.socket, sink: socket.socket, delay: float) -> None:
        self.source = source
        self.sink = sink
        self.is_reading = True
        self.is_finished = False
        self.is_blocked = False
        self._delay = delay
        self._pending: Deque[Chunk] = collections.deque()

    @property
    def next_due(self) -> Optional[float]:
        """When the oldest chunk may be written; None while nothing waits."""
        return self._pending[0].due if self._pending else None

    def read(self) -> None:
        """Takes what has arrived and stamps it."""
        try:
            data = self.source.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = _END_OF_STREAM
        self.is_reading = data != _END_OF_STREAM
        self._pending.append(Chunk(time.monotonic() + self._delay, data))

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


class DelayProxy:
    """Listens on one loopback port per target and forwards with a delay each way.

    Args:
      targets: addresses (host, port) to forward to.
      delay_seconds: latency added to every byte in each direction, >= 0.
    """

    def __init__(self, targets: Sequence[Address], delay_seconds: float) -> None:
        if delay_seconds < 0:
            raise ValueError(f"delay must not be negative, got {delay_seconds} s")
        self._delay = delay_seconds
        self._listeners: Dict[socket.socket, Address] = {}
        self._directions: List[Direction] = []
        for target in targets:
            self._listeners[_listener()] = target

    @property
    def ports(self) -> List[int]:
        """The ports listened on, in the order of the targets."""
        return [listener.getsockname()[1] for listener in self._listeners]

    def run(self, stop: int) -> None:
        """Forwards until the file descriptor `stop` becomes readable (or is closed)."""
        try:
            while not self._turn(stop):
                pass
        finally:
            self._close()

    def _turn(self, stop: int) -> bool:
        reading = {d.source.fileno(): d for d in self._directions if d.is_reading}
        listening = {listener.fileno(): listener for listener in self._listeners}
        blocked = [d.sink.fileno() for d in self._directions if d.is_blocked]
        wanted = [stop, *listening, *reading]
        readable, _, _ = select.select(wanted, blocked, [], self._seconds_to_next_chunk())
        for source in readable:
            if source == stop:
                return True
            if source in reading:
                reading[source].read()
            else:
                self._accept(listening[source])
        now = time.monotonic()
        for direction in self._directions:
            direction.write(now)
        self._forget_finished()
        return False

    def _seconds_to_next_chunk(self) -> Optional[float]:
        dues = [d.next_due for d in self._directions if not d.is_blocked]
        waiting = [due for due in dues if due is not None]
        return max(0.0, min(waiting) - time.monotonic()) if waiting else None

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
        self._directions.append(Direction(client, server, self._delay))
        self._directions.append(Direction(server, client, self._delay))

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


def _wake_on_time() -> None:
    """Asks Linux not to wake this thread up to 50 us late, as it may: that would be added twice."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    except (AttributeError, OSError):
        pass  # another system: the delay is a little longer


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the proxy until standard input is closed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--delay-ms", type=float, required=True, help="added each way")
    parser.add_argument(
        "--target", type=_address, action="append", required=True, help="HOST:PORT, repeatable"
    )
    options = parser.parse_args(arguments)
    _wake_on_time()
    proxy = DelayProxy(options.target, options.delay_ms / 1000.0)
    print(*proxy.ports, flush=True)
    proxy.run(stop=sys.stdin.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
