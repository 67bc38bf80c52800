"""How far a run is that records its steps."""

from __future__ import annotations

import pickle
from pathlib import Path

from graph_opt.checking.records import Facts, GrowingRecord, RecordFile, Step


def step(updates: int) -> Step:
    return Step(1, 1, updates, 0, updates, {}, ())


def test_a_record_that_grows_tells_how_many_steps_have_trained(tmp_path: Path) -> None:
    path = tmp_path / "record"
    record = GrowingRecord(str(path))
    assert record.updates() == 0
    file = RecordFile(str(path))
    file.add(step(1))
    file.add(step(2))
    assert record.updates() == 2
    file.add(Facts())
    file.add(step(3))
    assert record.updates() == 3
    file.close()
    assert record.updates() == 3


def test_a_step_that_is_half_written_counts_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "record"
    record = GrowingRecord(str(path))
    whole = pickle.dumps(step(1)) + pickle.dumps(step(2))
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert record.updates() == (length >= len(pickle.dumps(step(1))))
    path.write_bytes(whole)
    assert record.updates() == 2
