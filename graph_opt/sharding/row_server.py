"""Requests between ranks outside of messages: one asks, a thread of the other answers.

A request and the head of an answer are JSON; rows follow the head as they are in memory.
"""

from __future__ import annotations

import json
import os
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Client,
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from typing import Any, Callable, Dict, List, Tuple

from graph_opt.compat import tf
from graph_opt.reporting.stderr import say
from graph_opt.sharding.store import Store

Head = Dict[str, Any]
Answer = Tuple[Head, List[Any]]
Handler = Callable[[Head], Answer]

WAIT = "wait"
_ERROR = "error"
_SIZES = "sizes"
_KEY_BYTES = 32
_BACKLOG = 128
_LOOK_SECONDS = 0.25
_NOTED_SECONDS = 30.0
_MOST_SECONDS = 600.0


class RowServer:
    """Answers the requests of other ranks, in threads that end with the process.

    Args:
      store: Where they find it.
      rank: Number of this rank.
      handle: Called with a request; returns the head of the answer, and arrays.
    """

    def __init__(self, store: Store, rank: int, handle: Handler) -> None:
        self._handle = handle
        self._key = os.urandom(_KEY_BYTES)
        self._listener = Listener((store.host(), 0), backlog=_BACKLOG)
        host, port = self._listener.address
        place = {"host": host, "port": port, "key": self._key.hex()}
        threading.Thread(target=self._accept, name="graph_opt_rows", daemon=True).start()
        store.set(_place_key(rank), json.dumps(place).encode("utf-8"))

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:  # too many open files, for one
                time.sleep(_LOOK_SECONDS)
                continue
            threading.Thread(
                target=self._answer, args=(connection,), name="graph_opt_rows", daemon=True
            ).start()

    def _answer(self, connection: Connection) -> None:
        with connection:
            try:
                deliver_challenge(connection, self._key)
                answer_challenge(connection, self._key)
                while True:
                    head, arrays = self._answered(json.loads(connection.recv_bytes()))
                    parts = [memoryview(_as_bytes(array)) for array in arrays]
                    sent = dict(head, **{_SIZES: [len(part) for part in parts]})
                    connection.send_bytes(json.dumps(sent).encode("utf-8"))
                    for part in parts:
                        connection.send_bytes(part)
            except (OSError, EOFError, AuthenticationError):
                pass  # The other rank is done, or nobody of ours.

    def _answered(self, request: Head) -> Answer:
        try:
            return self._handle(request)
        except Exception as error:  # raised again where it was asked for
            return {_ERROR: "{}: {}".format(type(error).__name__, error)}, []


class AskedRanks:
    """Connections to other ranks.

    Args:
      store: Where their addresses are.
      check: Raises an error if there is no point in waiting for a rank.
      purpose: What it is for: what follows "rank R ... , for which".
    """

    def __init__(self, store: Store, check: Callable[[], None], purpose: str) -> None:
        self._store = store
        self._check = check
        self._purpose = purpose
        self._open: Dict[int, Connection] = {}

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
        wait = _LimitedWait(self._purpose)
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
            self._connection(rank).send_bytes(json.dumps(request).encode("utf-8"))
        except (OSError, EOFError, AuthenticationError) as error:
            raise self._gone(rank, error) from error

    def _receive(self, rank: int) -> Tuple[Head, List[bytes]]:
        connection = self._open[rank]
        try:
            while not connection.poll(_LOOK_SECONDS):
                self._check()
            head = json.loads(connection.recv_bytes())
            return head, [connection.recv_bytes() for _ in head[_SIZES]]
        except (OSError, EOFError) as error:
            raise self._gone(rank, error) from error

    def _connection(self, rank: int) -> Connection:
        if rank not in self._open:
            found = json.loads(self._place(rank).decode("utf-8"))
            self._open[rank] = Client(
                (found["host"], found["port"]), authkey=bytes.fromhex(found["key"])
            )
        return self._open[rank]

    def _place(self, rank: int) -> bytes:
        """Where a rank answers, once it does."""
        wait = _LimitedWait(self._purpose)
        while True:
            place = self._store.get(_place_key(rank), _LOOK_SECONDS)
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

    def __init__(self, purpose: str) -> None:
        self._purpose = purpose
        self._begun = time.monotonic()
        self._noted = False

    def go_on(self, lacks: str) -> None:
        """Called each time that there is nothing yet; `lacks` is what the rank has yet to do.

        Raises:
          tf.errors.DeadlineExceededError: It has taken too long.
        """
        waited = time.monotonic() - self._begun
        text = "{}, for which {} waits".format(lacks, self._purpose)
        if waited > _MOST_SECONDS:
            raise tf.errors.DeadlineExceededError(None, None, text)
        if waited > _NOTED_SECONDS and not self._noted:
            self._noted = True
            say(text)


def _place_key(rank: int) -> str:
    return "rows_of_{}".format(rank)


def _as_bytes(array: Any) -> Any:
    return array.reshape(-1).view("uint8")
