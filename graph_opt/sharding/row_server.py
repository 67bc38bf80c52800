"""Requests between ranks outside of messages: one asks, a thread of the other answers.

A request and the head of an answer are JSON; rows follow the head as they are in memory.
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.reporting.stderr import say
from graph_opt.sharding.row_channel import SECRET, Channel, connected, listening, secret_of_ranks
from graph_opt.sharding.store import Store

Head = Dict[str, Any]
Answer = Tuple[Head, List[Any]]
Handler = Callable[[Head], Answer]

WAIT = "wait"
_ERROR = "error"
_SIZES = "sizes"
_ATTEMPTS = 5
_FIRST_SECONDS = 20.0
_MOST_REQUEST_BYTES = 64 << 20
# A rank may have some connections to another, and each of them is a thread there.
_SPARE = 32
_WAITING_THREADS = 4
_LOOK_SECONDS = 0.25
_NOTED_SECONDS = 30.0
_MOST_SECONDS = 600.0


class RowServer:
    """Answers the requests of other ranks, in threads that end with the process.

    Args:
      store: Where they find it.
      rank: Number of this rank.
      size: Number of ranks.
      handle: Called with a request; returns the head of the answer, and arrays.
      key: Where the store has its place; None: where `AskedRanks` looks for it.

    Raises:
      tf.errors.FailedPreconditionError: Ranks of other machines could not prove that they are such.
    """

    def __init__(
        self, store: Store, rank: int, size: int, handle: Handler, key: Optional[str] = None
    ) -> None:
        self._handle = handle
        self._changed = threading.Condition()
        self._open = 0
        # Those that have not asked for anything yet, the oldest first.
        self._silent: List[Channel] = []
        self._most_silent = _SPARE + 2 * size
        self._most_open = 2 * (_SPARE + 2 * size)
        self._threads = _WaitingThreads(self._serve)
        place: Head = {}
        sockets = listening(None if store.is_of_one_machine else _guarded_host(store), place)
        for each in sockets:
            threading.Thread(
                target=self._accept, args=(each,), name="graph_opt_rows", daemon=True
            ).start()
        store.set(key or _place_key(rank), json.dumps(place).encode("utf-8"))

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:  # too many open files, for one
                time.sleep(_LOOK_SECONDS)
                continue
            channel = Channel(accepted)
            if not self._admits(channel):
                channel.close()
                continue
            self._threads.take(channel)

    def _admits(self, channel: Channel) -> bool:
        """Whether there is room; of those that ask for nothing, the oldest makes room for it."""
        with self._changed:
            while self._open >= self._most_open or len(self._silent) >= self._most_silent:
                if not self._silent:
                    return False
                self._silent.pop(0).end()
                self._changed.wait_for(lambda: self._open < self._most_open, _LOOK_SECONDS)
            self._silent.append(channel)
            self._open += 1
            return True

    def _serve(self, channel: Channel) -> None:
        try:
            channel.limit(_FIRST_SECONDS)
            channel.prove(is_server=True)
            request = channel.receive(_MOST_REQUEST_BYTES)
            self._is_not_silent(channel)
            channel.limit(None)
            while True:
                self._send(channel, *self._answered(request))
                request = channel.receive(_MOST_REQUEST_BYTES)
        except (OSError, EOFError):
            pass  # The other rank is done, or nobody of ours.
        finally:
            self._is_not_silent(channel)
            channel.close()
            with self._changed:
                self._open -= 1
                self._changed.notify_all()

    def _is_not_silent(self, channel: Channel) -> None:
        with self._changed:
            if channel in self._silent:
                self._silent.remove(channel)

    def _send(self, channel: Channel, head: Head, arrays: List[Any]) -> None:
        parts = [memoryview(_as_bytes(array)) for array in arrays]
        sent = dict(head, **{_SIZES: [len(part) for part in parts]})
        channel.send(json.dumps(sent).encode("utf-8"))
        for part in parts:
            channel.send(part)

    def _answered(self, request: bytes) -> Answer:
        try:
            return self._handle(json.loads(request.decode("utf-8")))
        except Exception as error:  # raised again where it was asked for
            return {_ERROR: "{}: {}".format(type(error).__name__, error)}, []


class _WaitingThreads:
    """Threads that serve connections; some always wait for the next one.

    Ranks serve rows until all have closed their sessions, which may be while the interpreter ends.
    From Python 3.12 on, no thread can be started then.

    Args:
      serve: Serves a connection until it ends.
    """

    def __init__(self, serve: Callable[[Channel], None]) -> None:
        self._serve = serve
        self._channels: queue.SimpleQueue[Channel] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._start()

    def take(self, channel: Channel) -> None:
        """Has a thread serve a connection; the last to be taken waits if no thread can be had."""
        with self._lock:
            self._waiting -= 1
        self._channels.put(channel)
        self._start()

    def _start(self) -> None:
        with self._lock, contextlib.suppress(RuntimeError):
            while self._waiting < _WAITING_THREADS:
                threading.Thread(target=self._work, name="graph_opt_rows", daemon=True).start()
                self._waiting += 1

    def _work(self) -> None:
        while True:
            self._serve(self._channels.get())
            with self._lock:
                self._waiting += 1


def answer_in(channel: Channel) -> Tuple[Head, List[bytes]]:
    """The next answer of a `RowServer`: its head, and its arrays.

    Raises:
      EOFError: The other end is closed.
      OSError: It does not come within the limit.
    """
    head = json.loads(channel.receive().decode("utf-8"))
    return head, [channel.receive() for _ in head[_SIZES]]


def _guarded_host(store: Store) -> str:
    if secret_of_ranks() is None:
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            "ranks on several machines give each other rows over TCP, and nobody else may ask for "
            "them: set {} to a long random text on all of them (horovodrun and mpirun -x hand it "
            "on)".format(SECRET),
        )
    return store.host()


class AskedRanks:
    """Connections to other ranks.

    Args:
      store: Where their addresses are.
      check: Raises an error if there is no point in waiting for a rank.
      purpose: What it is for: what follows "rank R ... , for which".
      most_seconds: How long to wait for a rank that is not where it can answer.
    """

    def __init__(
        self,
        store: Store,
        check: Callable[[], None],
        purpose: str,
        most_seconds: float = _MOST_SECONDS,
    ) -> None:
        self._store = store
        self._check = check
        self._purpose = purpose
        self._most_seconds = most_seconds
        self._open: Dict[int, Channel] = {}

    def __enter__(self) -> AskedRanks:
        return self

    def __exit__(self, *_: Any) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def ask(self, rank: int, request: Head) -> Tuple[Head, List[bytes]]:
        """The answer of a rank; see `ask_all`."""
        return self.ask_all({rank: request})[rank]

    def ask_all(
        self, requests: Dict[int, Head], meanwhile: Callable[[], None] = lambda: None
    ) -> Dict[int, Tuple[Head, List[bytes]]]:
        """The answers of ranks.

        Args:
          requests: By rank.
          meanwhile: What this rank does while the others work.

        Raises:
          tf.errors.UnknownError: A rank has ended, or failed to answer.
          tf.errors.DeadlineExceededError: It does not come to where it can answer.
        """
        for rank, request in requests.items():
            self._send(rank, request)
        meanwhile()
        return {rank: self._received(rank, request) for rank, request in requests.items()}

    def _received(self, rank: int, request: Head) -> Tuple[Head, List[bytes]]:
        wait = _LimitedWait(self._purpose, self._most_seconds)
        while True:
            head, parts = self._receive(rank)
            if _ERROR in head:
                text = "rank {} failed: {}".format(rank, head[_ERROR])
                raise tf.errors.UnknownError(None, None, text)
            if WAIT not in head:
                return head, parts
            self._check()
            wait.go_on("rank {} {}".format(rank, head[WAIT]))
            self._send(rank, request)

    def _send(self, rank: int, request: Head) -> None:
        try:
            self._connection(rank).send(json.dumps(request).encode("utf-8"))
        except (OSError, EOFError) as error:
            raise self._gone(rank, error) from error

    def _receive(self, rank: int) -> Tuple[Head, List[bytes]]:
        connection = self._open[rank]
        try:
            while not connection.has_message(_LOOK_SECONDS):
                self._check()
            return answer_in(connection)
        except (OSError, EOFError) as error:
            raise self._gone(rank, error) from error

    def _connection(self, rank: int) -> Channel:
        if rank not in self._open:
            self._open[rank] = self._connected(rank)
        return self._open[rank]

    def _connected(self, rank: int) -> Channel:
        for _ in range(_ATTEMPTS - 1):
            # It makes room for others before this rank has proven what it is.
            with contextlib.suppress(EOFError):
                return connected(json.loads(self._place(rank).decode("utf-8")))
            self._check()
        return connected(json.loads(self._place(rank).decode("utf-8")))

    def _place(self, rank: int) -> bytes:
        """Where a rank answers, once it does."""
        wait = _LimitedWait(self._purpose, self._most_seconds)
        while True:
            place = self._store.get(_place_key(rank), self._store.look_seconds)
            if place is not None:
                return place
            self._check()
            wait.go_on("rank {} has not opened its session yet".format(rank))

    def _gone(self, rank: int, error: Any) -> tf.errors.OpError:
        self._open.pop(rank, None)
        text = "rank {} does not answer, for which {} waits: {}".format(rank, self._purpose, error)
        return tf.errors.UnknownError(None, None, text)


class _LimitedWait:
    """For another rank: with a line if it takes long, and with a limit."""

    def __init__(self, purpose: str, most_seconds: float) -> None:
        self._purpose = purpose
        self._most_seconds = most_seconds
        self._begun = time.monotonic()
        self._noted = False

    def go_on(self, lacks: str) -> None:
        """Called each time that there is nothing yet; `lacks` is what the rank has yet to do.

        Raises:
          tf.errors.DeadlineExceededError: It has taken too long.
        """
        waited = time.monotonic() - self._begun
        text = "{}, for which {} waits".format(lacks, self._purpose)
        if waited > self._most_seconds:
            raise tf.errors.DeadlineExceededError(None, None, text)
        if waited > _NOTED_SECONDS and not self._noted:
            self._noted = True
            say(text)


def _place_key(rank: int) -> str:
    return "rows_of_{}".format(rank)


def _as_bytes(array: Any) -> Any:
    return array.reshape(-1).view("uint8")
