"""Small values that ranks leave for each other outside of collectives, even while these hang."""

from __future__ import annotations

import abc
import http.client
import os
import random
import socket
import threading
import time
from typing import Any, Callable, Dict, Optional, Tuple
from urllib.parse import quote

_ADDRESS = "HOROVOD_GLOO_RENDEZVOUS_ADDR"
_PORT = "HOROVOD_GLOO_RENDEZVOUS_PORT"
_SIZE, _LOCAL_SIZE = "HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE"
_SCOPE = "graph_opt"
LOOPBACK = "127.0.0.1"
_POLL_SECONDS = 0.02
_LOOK_SECONDS = 0.25
# The launcher's server answers some hundred requests a second, each on a connection of its own, and
# a rank that looks sends several.
_LOOKS_A_SECOND = 50.0
_ENDED = "ended"
# The server answers at once, unless its machine is very busy; a launcher that is gone refuses, or
# does not answer at all.
_ANSWER_SECONDS = 5.0
# A server whose few places for new connections are taken may reset more of them.
_BUSY = (socket.timeout, ConnectionResetError)
_BUSY_SECONDS = 15.0
_MAX_PAUSE_SECONDS = 1.0


class Store(abc.ABC):
    """Byte strings by key, seen by all ranks of a group, however their steps fare."""

    @abc.abstractmethod
    def set(self, key: str, value: bytes) -> None:
        """Leaves a value, in place of an earlier one.

        Raises:
          OSError: The store can not be reached.
        """

    @abc.abstractmethod
    def get(self, key: str, timeout_seconds: float = 0.0) -> Optional[bytes]:
        """What was left under a key.

        Args:
          key: The key.
          timeout_seconds: How long to wait for a rank to leave it; 0 looks once.

        Returns:
          The value, or None if nobody has left one by then.

        Raises:
          OSError: The store can not be reached.
        """

    @abc.abstractmethod
    def host(self) -> str:
        """The address under which this rank's machine is reached by the others."""

    @property
    def is_of_one_machine(self) -> bool:
        """Whether all ranks are on this one."""
        return True

    @property
    def look_seconds(self) -> float:
        """How often a rank that waits may look, if all of them do."""
        return _LOOK_SECONDS


class InProcessStore(Store):
    """A store for ranks that are threads of one process."""

    def __init__(self) -> None:
        self._values: Dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: bytes) -> None:
        """See `Store`."""
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def get(self, key: str, timeout_seconds: float = 0.0) -> Optional[bytes]:
        """See `Store`."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._values, timeout_seconds)
            return self._values.get(key)

    def host(self) -> str:
        """See `Store`."""
        return LOOPBACK


class RendezvousStore(Store):
    """The key-value server that `horovodrun --gloo` starts for its ranks.

    Args:
      address: Its host.
      port: Its port.
      scope: Keys of other scopes are apart; Horovod itself uses `global`, `local_...`, `cross_...`.
      of_one_machine: Whether all ranks are on this one.
      ranks: How many ranks ask it.
    """

    def __init__(
        self,
        address: str,
        port: int,
        scope: str = _SCOPE,
        of_one_machine: bool = True,
        ranks: int = 1,
    ) -> None:
        self._address = address
        self._port = port
        self._scope = scope
        self._of_one_machine = of_one_machine
        self._look_seconds = max(_LOOK_SECONDS, ranks / _LOOKS_A_SECOND)
        self._random = random.Random(os.urandom(8))  # ranks are not to ask at the same moments
        self._first_pause = _POLL_SECONDS * (self._look_seconds / _LOOK_SECONDS) ** 2

    def set(self, key: str, value: bytes) -> None:
        """See `Store`."""
        status, _ = self._request("PUT", key, value)
        if status != http.client.OK:
            raise OSError(
                "{} did not take key '{}': HTTP status {}".format(self._described(), key, status)
            )

    def get(self, key: str, timeout_seconds: float = 0.0) -> Optional[bytes]:
        """See `Store`."""
        end = time.monotonic() + timeout_seconds
        pause = min(self._first_pause, self._look_seconds)
        while True:
            status, value = self._request("GET", key)
            if status == http.client.OK:
                return value
            if status != http.client.NOT_FOUND:
                raise OSError(
                    "{} did not give key '{}': HTTP status {}".format(
                        self._described(), key, status
                    )
                )
            left = end - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(pause, left))
            pause = min(2 * pause, self._look_seconds)

    def host(self) -> str:
        """See `Store`."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((self._address, self._port))  # of datagrams: nothing is sent
            return str(probe.getsockname()[0])

    @property
    def is_of_one_machine(self) -> bool:
        """See `Store`."""
        return self._of_one_machine

    @property
    def look_seconds(self) -> float:
        """See `Store`."""
        return self._look_seconds

    def _request(self, method: str, key: str, body: Optional[bytes] = None) -> Tuple[int, bytes]:
        end = time.monotonic() + _BUSY_SECONDS
        pause = _POLL_SECONDS
        while True:
            try:
                return self._answer(method, key, body)
            except _BUSY as error:
                if time.monotonic() > end:
                    text = "{} does not answer: {}".format(self._described(), error)
                    raise OSError(text) from error
            time.sleep(pause * self._random.uniform(0.5, 1.0))
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    def _answer(self, method: str, key: str, body: Optional[bytes]) -> Tuple[int, bytes]:
        # Not urllib: it would ask the proxy that the environment names.
        connection = http.client.HTTPConnection(self._address, self._port, timeout=_ANSWER_SECONDS)
        path = "/{}/{}".format(quote(self._scope, safe=""), quote(key, safe=""))
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read()
        except _BUSY:
            raise
        except http.client.HTTPException as error:
            raise OSError("{} does not answer: {!r}".format(self._described(), error)) from error
        except OSError as error:
            raise OSError("{} does not answer: {}".format(self._described(), error)) from error
        finally:
            connection.close()

    def _described(self) -> str:
        return "the rendezvous server of horovodrun at {}:{}".format(self._address, self._port)


def or_none(ask: Callable[[], Any], otherwise: Any = None) -> Any:
    """What the store says, unless the launcher that has it is gone."""
    try:
        return ask()
    except OSError:
        return otherwise


def note_end(store: Store, rank: int, how: str) -> None:
    """Leaves that a rank's program is over, for `end_of`.

    Args:
      store: Of the group.
      rank: The rank.
      how: What follows "rank R ": "has ended".
    """
    for key, value in notes_of_end(rank, how).items():
        store.set(key, value)


def notes_of_end(rank: int, how: str) -> Dict[str, bytes]:
    """What `note_end` leaves: how a rank has ended, and then, for a single look, that one has."""
    return {_end_key(rank): how.encode("utf-8"), _ENDED: b"+"}


def end_of(store: Store, rank: int) -> Optional[str]:
    """What was left by `note_end` for a rank."""
    left = store.get(_end_key(rank))
    return None if left is None else left.decode("utf-8")


def any_has_ended(store: Store) -> bool:
    """Whether `end_of` has something of any rank."""
    return store.get(_ENDED) is not None


def _end_key(rank: int) -> str:
    return "{}_{}".format(_ENDED, rank)


def launchers_store() -> Optional[Store]:
    """The store of the launcher that started this rank, or None if it has none, as MPI's.

    Example:
      >>> store = launchers_store()
      >>> store.get("failed_1") if store else None
    """
    address, port = os.environ.get(_ADDRESS), os.environ.get(_PORT)
    if not address or not port or not port.isdigit():
        return None
    size = os.environ.get(_SIZE, "")
    of_one_machine = size == os.environ.get(_LOCAL_SIZE, "")
    ranks = int(size) if size.isdigit() else 1
    return RendezvousStore(address, int(port), of_one_machine=of_one_machine, ranks=ranks)
