"""What one rank leaves, all find: in one process, with the first rank, on horovodrun's server."""

from __future__ import annotations

import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Dict, Iterator, Type

import pytest

from graph_opt.sharding.plan_agreement import PlanAgreement
from graph_opt.sharding.rank_failure import FailureBoard
from graph_opt.sharding.rank_store import AskedStore, KeptStore
from graph_opt.sharding.store import (
    InProcessStore,
    RendezvousStore,
    Store,
    any_has_ended,
    end_of,
    launchers_store,
    note_end,
)


def _handler(values: Dict[str, bytes]) -> Type[BaseHTTPRequestHandler]:
    """Answers as `horovod.runner.http.http_server.KVStoreHandler` of Horovod 0.28."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, scope, key = self.path.split("/")
            value = values.get(scope + "/" + key)
            self.send_response(404 if value is None else 200)
            self.send_header("Content-Length", str(len(value or b"")))
            self.end_headers()
            self.wfile.write(value or b"")

        def do_PUT(self) -> None:
            _, scope, key = self.path.split("/")
            values[scope + "/" + key] = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@pytest.fixture
def server() -> Iterator[Any]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _handler({}))
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture(params=["in process", "rendezvous", "first rank"])
def store(request: Any) -> Store:
    if request.param == "in process":
        return InProcessStore()
    if request.param == "first rank":
        return AskedStore(KeptStore(2, None).place)
    address, port = request.getfixturevalue("server").server_address
    return RendezvousStore(address, port)


def test_the_latest_value_is_found(store: Store) -> None:
    assert store.get("key") is None
    store.set("key", b"first")
    store.set("key", b"\x00second\n")
    store.set("another/key with spaces", b"")
    assert store.get("key") == b"\x00second\n"
    assert store.get("another/key with spaces", 60) == b""


def test_a_rank_can_wait_for_what_another_leaves(store: Store) -> None:
    setter = threading.Thread(target=store.set, args=("late", b"value"))
    assert store.get("late", 0.01) is None
    setter.start()
    assert store.get("late", 60) == b"value"
    setter.join()


def test_a_launcher_that_is_gone_is_an_error_and_no_wait() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens
        store = RendezvousStore("127.0.0.1", unused.getsockname()[1])
        with pytest.raises(OSError, match=r"rendezvous server of horovodrun at 127.0.0.1:\d+"):
            store.get("key", 60)
        with pytest.raises(OSError, match="does not answer"):
            store.set("key", b"")


def listening_socket() -> socket.socket:
    """One at a port that the system chose; Python 3.7 has no `socket.create_server`."""
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    made.listen()
    return made


def test_a_server_that_is_slow_to_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graph_opt.sharding.store._ANSWER_SECONDS", 0.2)
    monkeypatch.setattr("graph_opt.sharding.store._BUSY_SECONDS", 0.6)
    with listening_socket() as listening:
        store = RendezvousStore(*listening.getsockname())
        kept = []

        def answer_the_second() -> None:
            kept.append(listening.accept()[0])
            with listening.accept()[0] as asked:
                asked.recv(1 << 16)
                asked.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nvalue")

        server = threading.Thread(target=answer_the_second)
        server.start()
        assert store.get("key") == b"value"
        server.join()
        with pytest.raises(OSError, match="does not answer: timed out"):
            store.set("key", b"value")
        kept[0].close()


def test_a_server_that_resets_connections_is_asked_again() -> None:
    with listening_socket() as listening:
        store = RendezvousStore(*listening.getsockname())

        def answer_the_second() -> None:
            with listening.accept()[0] as reset:
                reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with listening.accept()[0] as asked:
                asked.recv(1 << 16)
                asked.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nvalue")

        server = threading.Thread(target=answer_the_second)
        server.start()
        assert store.get("key") == b"value"
        server.join()


def test_many_ranks_look_less_often() -> None:
    few, many = (RendezvousStore("127.0.0.1", 1, ranks=ranks) for ranks in (4, 200))
    assert few.look_seconds == InProcessStore().look_seconds < many.look_seconds


def test_one_look_tells_whether_any_rank_has_ended(store: Store) -> None:
    assert not any_has_ended(store) and end_of(store, 3) is None
    note_end(store, 3, "has ended")
    assert any_has_ended(store) and end_of(store, 3) == "has ended" and end_of(store, 2) is None


def test_the_launcher_is_found_by_its_environment(
    monkeypatch: pytest.MonkeyPatch, server: Any
) -> None:
    monkeypatch.delenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", raising=False)
    assert launchers_store() is None
    address, port = server.server_address
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", address)
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", str(port))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    found = launchers_store()
    assert found is not None
    found.set("key", b"value")
    assert found.get("key") == b"value"


@pytest.mark.slow
def test_a_hundred_ranks_come_to_the_same_step(server: Any) -> None:
    ranks = 100
    address, port = server.server_address
    late = threading.Event()

    def come(rank: int) -> None:
        store = RendezvousStore(address, port, ranks=ranks)
        board = FailureBoard(store, rank, ranks)

        def check() -> None:
            assert board.cause() is None and board.ended() is None
            board.last_states()
            late.set()  # somebody has waited

        if rank == ranks // 2:
            assert late.wait(60)
        board.enter()
        PlanAgreement(store, rank, ranks).agree(b"plan", check, alone_seconds=60)

    with ThreadPoolExecutor(ranks) as pool:
        for future in [pool.submit(come, rank) for rank in range(ranks)]:
            future.result(120)
