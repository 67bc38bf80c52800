"""A TCP proxy that makes loopback as slow as a network: latency, and a limit of bandwidth.

    worker ──► [ listen ──(delay, rate)──► target ] ──► server
    worker ◄── [        ◄──(delay, rate)──        ] ◄── server

What is read is stamped and written when it is due: once it has had the time on the wire that its
bytes take at the given rate, behind all others of its direction, and the delay after that. Without
a rate, bytes queue up without limit while they wait, so that throughput is that of loopback.
`tc netem` would do this in the kernel, but needs privileges and a kernel module. Forwarding is
compiled (ops_src/network), since it takes its time from the cores that it shares with the tasks.

Signals make it fail as a network does: SIGUSR1 resets all connections and every new one, until
SIGUSR2 mends it; between SIGSTOP and SIGCONT, connections stay and nothing passes.
"""

from __future__ import annotations

import os
import signal
import weakref
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.launch.network_library import load_library

Address = Tuple[str, int]


class Passed(NamedTuple):
    """Calls of gRPC, and the bytes of these and of their answers."""

    calls: int
    bytes: int


class NetworkProxy:
    """Listens on one loopback port per target, and forwards as a network would.

    Args:
      targets: Addresses (host, port) to forward to.
      delay_seconds: Latency added in each direction, >= 0.
      bytes_per_second: What passes at most to each target, and from it; None for no limit.
      counts_calls: Whether calls of gRPC are counted, not only bytes.

    Attributes:
      ports: The ports listened on, in the order of the targets.

    Raises:
      ValueError: The delay is negative, or the rate not positive.
      OSError: A port could not be had.
      ImportError: The proxy has not been compiled.

    Example:
      >>> proxy = NetworkProxy([("127.0.0.1", 2222)], 0.001)
      >>> serve(proxy, stop=sys.stdin.fileno)
      40213
    """

    def __init__(
        self,
        targets: Sequence[Address],
        delay_seconds: float,
        bytes_per_second: Optional[float] = None,
        counts_calls: bool = False,
    ) -> None:
        if bytes_per_second is not None and bytes_per_second <= 0:
            raise ValueError("rate must be positive, got {} B/s".format(bytes_per_second))
        self._library = load_library()
        self._handle = self._library.graph_opt_proxy_new(
            _checked_delay(delay_seconds), bytes_per_second or 0.0, counts_calls
        )
        # Not at exit: a thread may still ask what has passed.
        weakref.finalize(self, self._library.graph_opt_proxy_delete, self._handle).atexit = False
        self.ports: List[int] = [self._listen_for(target) for target in targets]

    @property
    def passed(self) -> Passed:
        """What has passed until now, in both directions; may be asked for by any thread."""
        return Passed(
            self._library.graph_opt_proxy_calls(self._handle),
            self._library.graph_opt_proxy_bytes(self._handle),
        )

    def set_delay(self, seconds: float) -> None:
        """Changes the latency of what is sent from now on; may be called by any thread.

        Args:
          seconds: Latency added in each direction, >= 0. Nothing overtakes what was sent before.

        Raises:
          ValueError: It is negative.
        """
        self._library.graph_opt_proxy_set_delay(self._handle, _checked_delay(seconds))

    def run(self, stop: int, wake: int) -> None:
        """Forwards until the file descriptor `stop` becomes readable (or is closed).

        Args:
          stop: The file descriptor.
          wake: One that does not block, from which the numbers of signals come as bytes: SIGUSR1
            cuts the network, SIGUSR2 mends it, and others interrupt it for Python's handlers.

        Raises:
          OSError: No more connections can be opened.
        """
        try:
            while self._checked(self._library.graph_opt_proxy_run(self._handle, stop, wake)):
                pass  # Python runs the handler of the signal that it was interrupted by.
        finally:
            self._library.graph_opt_proxy_close(self._handle)

    def _listen_for(self, target: Address) -> int:
        host, port = target
        return self._checked(
            self._library.graph_opt_proxy_add_target(
                self._handle, host.encode(), str(port).encode()
            )
        )

    def _checked(self, result: int) -> int:
        if result < 0:
            raise OSError(-result, "the network proxy failed: " + os.strerror(-result))
        return result


def _checked_delay(seconds: float) -> float:
    if not seconds >= 0:
        raise ValueError("delay must not be negative, got {} s".format(seconds))
    return seconds


def serve(proxy: NetworkProxy, stop: Callable[[], int]) -> None:
    """Prints the ports listened on, and forwards until a file descriptor becomes readable.

    Args:
      proxy: What forwards.
      stop: Gives the file descriptor; called once the ports have been printed.
    """
    wake = _told_by_signals()
    print(*proxy.ports, flush=True)
    proxy.run(stop(), wake)


def _told_by_signals() -> int:
    """Lets the numbers of signals be written to a pipe; returns its end to read from."""
    wake, written = os.pipe()
    for end in (wake, written):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(written)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, frame: None)  # The proxy reads it from the pipe.
    return wake
