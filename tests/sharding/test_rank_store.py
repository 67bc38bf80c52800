"""Ranks without a launcher's store: the first has it, the others ask, and learn that it is gone."""

from __future__ import annotations

from typing import Any, List, Optional

import pytest

from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.rank_failure import FailureBoard, RankFailure
from graph_opt.sharding.rank_store import AskedStore, KeptStore, common_store
from graph_opt.sharding.row_channel import SECRET
from graph_opt.sharding.store import Store


@pytest.fixture(autouse=True)
def no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SECRET, raising=False)


def stores_of_ranks(of_one_machine: bool) -> List[Optional[Store]]:
    return run_ranks(3, lambda transport: common_store(transport, of_one_machine), 60)


def test_ranks_of_one_machine_find_what_others_leave() -> None:
    first, second, third = (store for store in stores_of_ranks(True) if store is not None)
    assert isinstance(first, KeptStore)
    second.set("key", b"value")
    assert first.get("key") == third.get("key", 60) == b"value"
    assert third.is_of_one_machine and third.host() == first.host() == "127.0.0.1"


def test_ranks_of_several_machines_need_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stores_of_ranks(False) == [None] * 3
    monkeypatch.setenv(SECRET, "a secret of many letters")
    kept = KeptStore(2, "127.0.0.1")
    elsewhere = AskedStore(dict(kept.place, machine="another"))
    elsewhere.set("key", b"value")
    assert kept.get("key") == b"value"
    assert not elsewhere.is_of_one_machine and elsewhere.host() == kept.host() == "127.0.0.1"


def test_when_the_first_rank_is_gone_the_others_say_so() -> None:
    gone: Any = dict(KeptStore(2, None).place, name="graph_opt_rows_of_nobody")
    store = AskedStore(gone)
    store.set("key", b"value")
    assert store.get("key", 0.1) is None
    ended = RankFailure(0, tf.errors.UNKNOWN, "has ended, or cannot be reached")
    assert FailureBoard(store, 1, 2).find_cause(60) == ended
