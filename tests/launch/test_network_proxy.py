"""The proxy: adds its delay to each direction, keeps to its rate, changes no byte, ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Iterator, List

import pytest

from graph_opt.launch.network_library import load_library
from tools.bench.cluster.processes import ChildProcess, ProcessEnded

BULK_BYTES = 48 << 20


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it receives."""

    def handle(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            data = self.request.recv(1 << 20)
            if not data:
                return
            self.request.sendall(data)


class EchoServer(socketserver.ThreadingTCPServer):
    daemon_threads = True


@pytest.fixture(scope="module")
def echo_port() -> Iterator[int]:
    with EchoServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def proxy(port: int, delay_ms: float, *flags: str) -> Iterator[ChildProcess]:
    arguments = ["proxy", "--delay-ms", str(delay_ms), *flags, f"127.0.0.1:{port}"]
    child = ChildProcess("delay proxy", "graph_opt.cli", arguments)
    try:
        yield child
    finally:
        child.close()


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=300)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive(connection: socket.socket, size: int) -> bytes:
    parts: List[bytes] = []
    while size:
        parts.append(connection.recv(min(size, 1 << 20)))
        assert parts[-1], "the connection was closed early"
        size -= len(parts[-1])
    return b"".join(parts)


def round_trip_on(connection: socket.socket, repeats: int = 15) -> float:
    """Least seconds from sending a byte to having it back: other processes delay some."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        connection.sendall(b"x")
        receive(connection, 1)
        times.append(time.perf_counter() - start)
    return min(times)


def round_trip(port: int, repeats: int = 15) -> float:
    with connect(port) as connection:
        return round_trip_on(connection, repeats)


def test_a_round_trip_takes_twice_the_delay_longer(echo_port: int) -> None:
    added = {}
    for delay_ms in (0, 10, 30):
        with proxy(echo_port, delay_ms) as child:
            added[delay_ms] = round_trip(int(child.ready_line()))
    # Ratios, so that a loaded machine passes: 60 ms against 20 ms, both over the bare path.
    assert added[10] - added[0] >= 0.019
    assert 2.0 < (added[30] - added[0]) / (added[10] - added[0]) < 4.0


def bulk_seconds(echo_port: int) -> float:
    """Seconds from sending much data to having it back."""
    data = bytes(range(256)) * (BULK_BYTES // 256)
    with proxy(echo_port, 50) as child, connect(int(child.ready_line())) as connection:
        start = time.perf_counter()
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        assert receive(connection, len(data)) == data
        sender.join()
        return time.perf_counter() - start


def test_bulk_data_arrives_whole_and_is_not_throttled(echo_port: int) -> None:
    # With a window of even 1 MiB per round trip, 48 MiB would take 4.8 s. A machine with much else
    # to do may need as long for once.
    assert any(bulk_seconds(echo_port) < 3.0 for _ in range(5))


def test_connections_share_a_rate(echo_port: int) -> None:
    data = bytes(1 << 20)
    with proxy(echo_port, 0, "--gbit", "0.08") as child:  # 10 MB/s
        port = int(child.ready_line())
        start = time.perf_counter()
        with connect(port) as one, connect(port) as other:
            for connection in (one, other):
                threading.Thread(target=connection.sendall, args=(data,)).start()
            assert receive(one, len(data)) == data and receive(other, len(data)) == data
    assert time.perf_counter() - start > 2 * len(data) / 10e6


def test_the_end_of_one_direction_is_passed_on_and_the_other_stays_open(echo_port: int) -> None:
    with proxy(echo_port, 1) as child, connect(int(child.ready_line())) as connection:
        connection.sendall(b"last words")
        connection.shutdown(socket.SHUT_WR)
        assert receive(connection, 10) == b"last words"
        assert connection.recv(1) == b""


def test_a_target_that_nobody_listens_at_closes_the_connection() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with proxy(unused.getsockname()[1], 1) as child:
            with connect(int(child.ready_line())) as connection:
                assert connection.recv(1) == b""


def test_the_process_ends_when_its_owner_closes_it(echo_port: int) -> None:
    with proxy(echo_port, 1) as child:
        assert round_trip(int(child.ready_line()), repeats=1) > 0
        assert not child.has_ended()
        assert child.cpu_seconds() > 0
    assert child.has_ended()


def test_a_child_that_dies_at_the_start_says_why() -> None:
    child = ChildProcess("delay proxy", "graph_opt.cli", ["proxy", "--delay-ms", "fast", "a:1"])
    try:
        with pytest.raises(
            ProcessEnded, match=r"delay proxy .* ended with exit status 2(?s:.*)fast"
        ):
            child.ready_line()
    finally:
        child.close()


def test_a_library_that_is_missing_or_damaged_says_how_to_build_it(tmp_path: Path) -> None:
    path = tmp_path / "libgraph_opt_network.so"
    with pytest.raises(ImportError, match=r"network\.so\): run 'pip install"):
        load_library(str(path))
    path.write_bytes(b"not a library")
    with pytest.raises(ImportError, match=r"network\.so\) does not load.*pip install"):
        load_library(str(path))


def test_calls_and_bytes_are_counted(echo_port: int) -> None:
    call = bytes([0, 0, 7, 1, 0, 0, 0, 0, 1]) + bytes(7)  # a HEADERS frame
    data = bytes([0, 1, 0, 0, 0, 0, 0, 0, 1]) + bytes(256)
    stream = b"P" * 24 + call + data + call
    with proxy(echo_port, 0, "--count") as child:
        with connect(int(child.ready_line())) as connection:
            for piece in (stream[:30], stream[30:36], stream[36:]):
                connection.sendall(piece)
                assert receive(connection, len(piece)) == piece
            child.tell("")
            assert child.ready_line() == "2 {}".format(2 * len(stream))


def test_a_line_sets_the_delay_of_connections_that_are_open(echo_port: int) -> None:
    seconds = []
    with proxy(echo_port, 20, "--count") as child:
        with connect(int(child.ready_line())) as connection:
            for line in ("", "0", "30"):
                child.tell(line)
                child.ready_line()
                seconds.append(round_trip_on(connection, repeats=5))
    assert seconds[0] >= 0.039 and seconds[1] < 0.03 and seconds[2] >= 0.059


def test_what_is_sent_after_the_delay_fell_does_not_overtake(echo_port: int) -> None:
    with proxy(echo_port, 100, "--count") as child:
        with connect(int(child.ready_line())) as connection:
            connection.sendall(b"x")
            assert receive(connection, 1) == b"x"  # Later ones are no part of opening it.
            connection.sendall(b"a" * 1000)
            child.tell("0")
            child.ready_line()
            connection.sendall(b"b" * 1000)
            assert receive(connection, 2000) == b"a" * 1000 + b"b" * 1000


@pytest.mark.parametrize("line", ["-1", "nan", "slow"])
def test_a_wrong_delay_is_told(line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "graph_opt.cli", "proxy", "--count", "--delay-ms", "1", "ps:2222"],
        input=line + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[1:] == ["0 0"]
    assert "{!r} is no delay in ms".format(line) in done.stderr


def passes(port: int) -> bool:
    try:
        with connect(port) as connection:
            connection.sendall(b"x")
            return connection.recv(1) == b"x"
    except ConnectionError:
        return False


def test_an_interrupt_ends_the_process_in_order(echo_port: int) -> None:
    with proxy(echo_port, 1) as child, connect(int(child.ready_line())) as connection:
        connection.sendall(b"x")
        assert receive(connection, 1) == b"x"  # It has been accepted.
        os.kill(child.pid, signal.SIGINT)
        assert connection.recv(1) == b""
        with pytest.raises(ProcessEnded, match="ended with exit status 0"):
            child.ready_line()


def test_signals_cut_all_connections_and_mend_the_network(echo_port: int) -> None:
    with proxy(echo_port, 1) as child:
        port = int(child.ready_line())
        with connect(port) as before:
            before.sendall(b"x")
            assert receive(before, 1) == b"x"
            os.kill(child.pid, signal.SIGUSR1)
            with pytest.raises(ConnectionResetError):
                before.recv(1)
        assert not passes(port)
        os.kill(child.pid, signal.SIGUSR2)
        while not passes(port):
            pass  # The signal is on its way.
