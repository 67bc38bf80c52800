"""`graph-opt proxy`: makes loopback as slow as a network."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import subprocess
import sys
import threading
from typing import Iterator, List, Optional, Sequence

from graph_opt.cli.exit_codes import WrongInput
from graph_opt.cli.messages import warn
from graph_opt.launch.network_proxy import NetworkProxy, serve

_BYTES_PER_GBIT = 1e9 / 8
_STOP_SECONDS = 5.0


def handle(options: argparse.Namespace) -> int:
    """Forwards until standard input is closed, or Ctrl-C."""
    rate = None if options.gbit is None else options.gbit * _BYTES_PER_GBIT
    delay = options.delay_ms / 1e3
    with contextlib.suppress(KeyboardInterrupt):
        proxy = NetworkProxy(options.targets, delay, rate, counts_calls=options.count)
        end_of_input = functools.partial(_answered, proxy) if options.count else sys.stdin.fileno
        serve(proxy, end_of_input)
    return 0


def _answered(proxy: NetworkProxy) -> int:
    """Answers lines of standard input, of which one with a number sets the delay, in ms.

    Returns:
      A file descriptor that becomes readable at the end of these.
    """
    readable, written = os.pipe()

    def answer() -> None:
        for line in sys.stdin:
            if line.strip():
                _set_delay(proxy, line.strip())
            print(*proxy.passed, flush=True)
        os.close(written)

    threading.Thread(target=answer, daemon=True).start()
    return readable


def _set_delay(proxy: NetworkProxy, text: str) -> None:
    try:
        proxy.set_delay(float(text) / 1e3)
    except ValueError:
        warn("proxy", "{!r} is no delay in ms, which is a number from 0 on".format(text))


@contextlib.contextmanager
def proxy_before(
    addresses: Sequence[str], delay_ms: float, gbit: Optional[float]
) -> Iterator[List[str]]:
    """Where the addresses are reached through a proxy, which runs in a process of its own.

    Raises:
      WrongInput: It did not start.
    """
    command = [sys.executable, "-m", "graph_opt.cli", "proxy", "--delay-ms", str(delay_ms)]
    command += [] if gbit is None else ["--gbit", str(gbit)]
    process = subprocess.Popen(
        [*command, *addresses],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C must not cut the tasks off that are to end in order.
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        ports = process.stdout.readline().decode().split()
        if len(ports) != len(addresses):
            raise WrongInput("the proxy for --delay-ms and --gbit did not start")
        yield ["127.0.0.1:" + port for port in ports]
    finally:
        process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
