"""The store of ranks that no launcher has given one, as under MPI: the first rank has it.

The others ask it over a connection of which nobody else may make one (`row_channel`).
"""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.unwatched_sessions import unwatched_sessions
from graph_opt.sharding.row_channel import Channel, connected, secret_of_ranks
from graph_opt.sharding.row_server import Answer, Head, RowServer, answer_in
from graph_opt.sharding.store import LOOPBACK, InProcessStore, Store, notes_of_end
from graph_opt.sharding.transport import Transport

FIRST = 0
"""The rank that has the store."""

_PLACE = "store"
_MESSAGE = "graph_opt_store"
_MOST_BYTES = 1024  # of what ranks tell each other to find the store
_ANSWER_SECONDS = 20.0
_LOOK_SECONDS = 0.25
_POLL_SECONDS = 0.02
_ANY_PORT = 9
_GONE = "has ended, or cannot be reached"


class KeptStore(InProcessStore):
    """The store, on the first rank.

    Args:
      size: Number of ranks.
      host: This machine's address for ranks of other machines; None if there are none.

    Attributes:
      place: Where it answers the others.
    """

    def __init__(self, size: int, host: Optional[str]) -> None:
        super().__init__()
        self._host = host
        RowServer(self, FIRST, size, self._answer, _PLACE)
        self.place: Dict[str, Any] = json.loads((self.get(_PLACE) or b"").decode("utf-8"))

    def host(self) -> str:
        """See `Store`."""
        return self._host or super().host()

    @property
    def is_of_one_machine(self) -> bool:
        """See `Store`."""
        return self._host is None

    def _answer(self, request: Head) -> Answer:
        if "value" in request:
            self.set(request["key"], bytes.fromhex(request["value"]))
            return {}, []
        value = self.get(request["key"])
        return {}, [] if value is None else [np.array(bytearray(value), np.uint8)]


class AskedStore(Store):
    """The store, on another rank. Once the first is gone, all that it says is that.

    Args:
      place: Where it answers.
    """

    def __init__(self, place: Dict[str, Any]) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._channel: Optional[Channel] = None
        self._left: Optional[Dict[str, bytes]] = None  # by the first rank, once it is gone

    def set(self, key: str, value: bytes) -> None:
        """See `Store`."""
        self._ask({"key": key, "value": value.hex()})

    def get(self, key: str, timeout_seconds: float = 0.0) -> Optional[bytes]:
        """See `Store`."""
        end = time.monotonic() + timeout_seconds
        pause = _POLL_SECONDS
        while True:
            found = self._ask({"key": key})
            left = end - time.monotonic()
            if found or left <= 0:
                return found[0] if found else None
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LOOK_SECONDS)

    def host(self) -> str:
        """See `Store`."""
        return LOOPBACK if self.is_of_one_machine else _address_facing(self._place["host"])

    @property
    def is_of_one_machine(self) -> bool:
        """See `Store`."""
        return "host" not in self._place

    def _ask(self, request: Head) -> List[bytes]:
        with self._lock:
            for _ in range(2):  # where it has closed a connection, it may take another
                if self._left is None:
                    try:
                        return self._answered(request)
                    except (OSError, EOFError):
                        self._close()
            if self._left is None:
                self._left = notes_of_end(FIRST, _GONE)
            value = self._left.get(request["key"])
            return [] if value is None else [value]

    def _answered(self, request: Head) -> List[bytes]:
        if self._channel is None:
            self._channel = connected(self._place)
            self._channel.limit(_ANSWER_SECONDS)
        self._channel.send(json.dumps(request).encode("utf-8"))
        return answer_in(self._channel)[1]

    def _close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = None


def common_store(transport: Transport, of_one_machine: bool) -> Optional[Store]:
    """The store of all ranks, which all of them must call.

    Args:
      transport: How they reach each other.
      of_one_machine: Whether all of them are on this one.

    Returns:
      The store; None if ranks of several machines have no secret that proves what they are.
    """
    mine = {"host": socket.gethostname(), "secret": secret_of_ranks() is not None}
    ranks = _told(transport, mine)
    if not (of_one_machine or all(one["secret"] for one in ranks)):
        return None
    if transport.rank != FIRST:
        return AskedStore(_told(transport, {})[FIRST])
    kept = KeptStore(transport.size, None if of_one_machine else _address_for(ranks))
    _told(transport, kept.place)
    return kept


def _told(transport: Transport, mine: Dict[str, Any]) -> List[Dict[str, Any]]:
    """What all ranks say, in the order of ranks."""
    said = json.dumps(mine).encode("utf-8").ljust(_MOST_BYTES)
    with tf.Graph().as_default(), unwatched_sessions() as session_class:
        given = tf.placeholder(tf.uint8, [1, _MOST_BYTES])
        all_said = transport.all_gather(given, transport.message_name(_MESSAGE))
        with session_class() as session:
            rows = session.run(all_said, {given: np.frombuffer(said, np.uint8)[None]})
    return [json.loads(row.tobytes().decode("utf-8")) for row in rows]


def _address_for(ranks: Sequence[Dict[str, Any]]) -> str:
    """This machine's address for the first other one."""
    here = socket.gethostname()
    others = [one["host"] for one in ranks if one["host"] != here]
    return _address_facing(others[0] if others else here)


def _address_facing(host: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, _ANY_PORT))  # of datagrams: nothing is sent
        return str(probe.getsockname()[0])
