"""Connections between ranks, which only ranks of the same training can make.

On one machine they are sockets without a port, and the kernel tells whose process is at the other
end. To other machines a TCP port is open, and both ends prove that they know a secret, which ranks
have in their environment. It never is in the launcher's store, which anybody can read and write.
"""

from __future__ import annotations

import hmac
import os
import select
import socket
import struct
from typing import Any, Dict, List, Optional

SECRET = "GRAPH_OPT_SECRET"

_LEAST_SECRET = 16
_NONCE_BYTES = 32
_LENGTH = struct.Struct("!Q")
_CREDENTIALS = struct.Struct("3i")  # process, user, group
_TIMEVAL = struct.Struct("@ll")
_HANDSHAKE_SECONDS = 20
_BACKLOG = 128


class NotOneOfOurs(OSError):
    """The other end is no rank of this training."""


class Channel:
    """Messages over a connected socket.

    Args:
      connected: The socket.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, data: Any) -> None:
        """Sends a message: bytes, or a memoryview of them."""
        self._socket.sendall(_LENGTH.pack(len(data)))
        self._socket.sendall(data)

    def receive(self, most: Optional[int] = None) -> bytes:
        """The next message.

        Raises:
          EOFError: The other end is closed.
          OSError: It has more than `most` bytes, or does not come within the limit.
        """
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if most is not None and size > most:
            raise OSError("a message of {} bytes, of at most {}".format(size, most))
        return self._exactly(size)

    def has_message(self, seconds: float) -> bool:
        """Whether one begins, or the other end is closed, within this time."""
        waiting = select.poll()  # select.select takes no descriptor above 1023
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(1000 * seconds))

    def limit(self, seconds: Optional[float]) -> None:
        """How long a message may take from now on; None for any time."""
        self._socket.settimeout(seconds)

    def end(self) -> None:
        """Wakes whoever waits for a message."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It is closed already.

    def close(self) -> None:
        """Closes this end."""
        self._socket.close()

    def prove(self, is_server: bool) -> None:
        """Makes sure that the other end is a rank of this training.

        Raises:
          OSError: It is not, or says nothing in time.
          EOFError: It is closed.
        """
        if self._socket.family == socket.AF_UNIX:
            self._check_user()
            return
        secret = secret_of_ranks()
        if secret is None:
            raise NotOneOfOurs("{} is not set".format(SECRET))
        mine = os.urandom(_NONCE_BYTES)
        self.send(mine)
        theirs = self.receive(_NONCE_BYTES)
        self.send(_proof(secret, is_server, mine + theirs))
        if not hmac.compare_digest(
            self.receive(_NONCE_BYTES), _proof(secret, not is_server, theirs + mine)
        ):
            raise NotOneOfOurs("it has another {}".format(SECRET))

    def _check_user(self) -> None:
        found = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        user = _CREDENTIALS.unpack(found)[1]
        if user != os.geteuid():
            raise NotOneOfOurs("it is a process of user {}".format(user))

    def _exactly(self, size: int) -> bytes:
        parts: List[bytes] = []
        while size:
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise EOFError("the other end is closed")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def secret_of_ranks() -> Optional[bytes]:
    """What ranks of several machines know and nobody else does; None if they have no such secret.

    Raises:
      ValueError: It is too short to be one.
    """
    secret = os.environ.get(SECRET)
    if not secret:
        return None
    if len(secret) < _LEAST_SECRET:
        raise ValueError("{} needs {} letters or more".format(SECRET, _LEAST_SECRET))
    return secret.encode("utf-8")


def listening(host: Optional[str], place: Dict[str, Any]) -> List[socket.socket]:
    """Sockets at which other ranks connect to this one.

    Args:
      host: This machine's address for ranks of other machines; None if there are none.
      place: Is told where they are, for `connected`.
    """
    name = "graph_opt_rows_{}".format(os.urandom(16).hex())
    place.update(machine=_this_machine(), name=name)
    sockets = [socket.socket(socket.AF_UNIX)]
    sockets[0].bind("\0" + name)  # has no file, and is gone with the process
    if host is not None:
        sockets.append(socket.socket(socket.AF_INET))
        sockets[1].bind((host, 0))
        place.update(zip(("host", "port"), sockets[1].getsockname()))
    for each in sockets:
        each.listen(_BACKLOG)
    return sockets


def connected(place: Dict[str, Any]) -> Channel:
    """A connection to a rank that listens there.

    Raises:
      OSError: There is none, or it is no rank of this training.
      EOFError: It does not take this process for one.
    """
    is_here = place["machine"] == _this_machine()
    if not is_here and "host" not in place:
        raise NotOneOfOurs("it is on another machine, and {} is not set there".format(SECRET))
    made = socket.socket(socket.AF_UNIX if is_here else socket.AF_INET)
    # Of a local one with a timeout of Python's, connecting fails at once where others wait, too.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(_HANDSHAKE_SECONDS, 0))
    try:
        made.connect("\0" + place["name"] if is_here else (place["host"], place["port"]))
        channel = Channel(made)
        channel.limit(_HANDSHAKE_SECONDS)
        channel.prove(is_server=False)
    except BaseException:
        made.close()
        raise
    channel.limit(None)
    return channel


def _proof(secret: bytes, of_server: bool, nonces: bytes) -> bytes:
    return hmac.new(secret, (b"server" if of_server else b"client") + nonces, "sha256").digest()


def _this_machine() -> str:
    """Where sockets without a port are seen: a container may have a network of its own."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
        return "{}:{}".format(boot.read().strip(), os.stat("/proc/self/ns/net").st_ino)
