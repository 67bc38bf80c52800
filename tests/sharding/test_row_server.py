"""Who may ask a rank for its rows, and how much those who may not can take from it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.sharding import row_server
from graph_opt.sharding.rank_failure import FailureBoard
from graph_opt.sharding.row_channel import SECRET, Channel, NotOneOfOurs, connected
from graph_opt.sharding.row_server import AskedRanks, RowServer
from graph_opt.sharding.row_service import RowService
from graph_opt.sharding.store import InProcessStore

REPOSITORY = Path(__file__).parents[2]
ROWS = np.arange(6, dtype=np.float32)
WAIT_SECONDS = 60.0


class StoreOfSeveralMachines(InProcessStore):
    @property
    def is_of_one_machine(self) -> bool:
        return False


def handle(request: Dict[str, Any]) -> Tuple[Dict[str, Any], List[Any]]:
    return {"echo": request["say"]}, [ROWS]


def place_in(store: InProcessStore) -> Dict[str, Any]:
    left = store.get("rows_of_0", WAIT_SECONDS)
    assert left is not None
    found: Dict[str, Any] = json.loads(left.decode("utf-8"))
    return found


def served(store: InProcessStore) -> Dict[str, Any]:
    RowServer(store, 0, 2, handle)
    return place_in(store)


def asks(store: InProcessStore) -> None:
    with AskedRanks(store, lambda: None, "the test asks") as asked:
        head, parts = asked.ask(0, {"say": "hello"})
    assert head["echo"] == "hello"
    np.testing.assert_array_equal(np.frombuffer(parts[0], np.float32), ROWS)


def elsewhere(store: InProcessStore) -> Dict[str, Any]:
    """Makes a rank look like one of another machine."""
    place = dict(place_in(store), machine="another")
    store.set("rows_of_0", json.dumps(place).encode("utf-8"))
    return place


def test_ranks_of_one_machine_open_no_port_and_leave_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SECRET, "a long and random text")
    store = InProcessStore()
    assert sorted(served(store)) == ["machine", "name"]
    asks(store)


def test_processes_of_other_users_get_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    store = InProcessStore()
    place = served(store)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(NotOneOfOurs, match="of user"):
        connected(place)
    raw = socket.socket(socket.AF_UNIX)
    raw.connect("\0" + place["name"])
    raw.settimeout(WAIT_SECONDS)
    assert raw.recv(1) == b""


def test_several_machines_need_a_secret_which_is_not_in_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(SECRET, raising=False)
    store = StoreOfSeveralMachines()
    with pytest.raises(tf.errors.FailedPreconditionError, match=SECRET):
        served(store)
    monkeypatch.setenv(SECRET, "too short")
    with pytest.raises(ValueError, match="16 letters"):
        served(store)
    monkeypatch.setenv(SECRET, "a long and random text")
    served(store)
    place = elsewhere(store)
    assert "random" not in json.dumps(place) and place["host"] == "127.0.0.1"
    asks(store)


@pytest.mark.parametrize("answer", [b"", bytes(32), b"server", b"reflected"])
def test_who_does_not_know_the_secret_gets_no_answer(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, "a long and random text")
    store = StoreOfSeveralMachines()
    served(store)
    place = elsewhere(store)
    raw = socket.create_connection((place["host"], place["port"]), WAIT_SECONDS)
    channel = Channel(raw)
    nonce = channel.receive()
    channel.send(nonce if answer == b"reflected" else bytes(32))
    proof = channel.receive()
    channel.send(proof if answer == b"reflected" else answer)
    with pytest.raises((EOFError, OSError)):
        channel.send(json.dumps({"say": "hello"}).encode("utf-8"))
        channel.receive()
        raise AssertionError("was answered")


def test_idle_connections_keep_no_rank_from_its_rows() -> None:
    store = InProcessStore()
    place = served(store)
    before = len(os.listdir("/proc/self/fd"))
    idle = []
    for _ in range(300):
        one = socket.socket(socket.AF_UNIX)
        one.connect("\0" + place["name"])
        idle.append(one)
    asks(store)
    # Those of the server: the kernel holds back what it has not accepted.
    assert len(os.listdir("/proc/self/fd")) - before - len(idle) < 100
    for one in idle:
        one.close()
    asks(store)


def test_rows_are_given_while_the_interpreter_ends() -> None:
    program = (
        "import atexit\n"
        "from tests.sharding.test_row_server import InProcessStore, asks, served\n"
        "store = InProcessStore()\n"
        "served(store)\n"
        "atexit.register(lambda: (asks(store), print('given')))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=str(REPOSITORY),
        stdout=subprocess.PIPE,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert ran.stdout == "given\n"


def test_who_asks_for_nothing_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_server, "_FIRST_SECONDS", 0.05)
    store = InProcessStore()
    channel = connected(served(store))
    channel.limit(WAIT_SECONDS)
    with pytest.raises(EOFError):
        channel.receive()


@pytest.mark.parametrize("message", [b"", b"{", b"[]", b"\xff", b"{}", b"[" * 100_000])
def test_a_malformed_message_is_an_answered_error(message: bytes) -> None:
    store = InProcessStore()
    channel = connected(served(store))
    for _ in range(2):
        channel.send(message)
        assert "Error" in json.loads(channel.receive())["error"]
    channel.send(json.dumps({"say": "hello"}).encode("utf-8"))
    assert json.loads(channel.receive())["echo"] == "hello"
    channel.close()


def test_ranks_give_files_only_of_checkpoints_that_they_have_restored(tmp_path: Any) -> None:
    with tf.Session() as session:
        table = tf.get_variable("table", [4, 2])
        session.run(table.initializer)
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
    store = InProcessStore()
    board = FailureBoard(store, 0, 2)
    service = RowService(store, board, lambda: None, 2, lambda: False)
    for request in (
        {"ask": "tensors", "prefix": prefix},
        {"ask": "file", "prefix": prefix, "name": "table", "first": 0, "count": 4},
    ):
        with pytest.raises(PermissionError, match="not restored here"):
            service._answer(request)
