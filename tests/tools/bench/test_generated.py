"""Generated rows: repeatable, in Criteo's format, skewed, and with something to learn in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List

import numpy as np

from tools.bench.workloads.dlrm.generated import generated_files, generated_text
from tools.bench.workloads.scoring import roc_auc

ROW = re.compile(rb"[01](\t\d*){13}(\t([0-9a-f]{8})?){26}")
FIRST_CATEGORY = 14


def fields(text: bytes) -> List[List[bytes]]:
    return [line.split(b"\t") for line in text.splitlines()]


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert generated_text(500, seed=3) == generated_text(500, seed=3)
    assert generated_text(500, seed=3) != generated_text(500, seed=4)
    assert generated_text(500, seed=3) != generated_text(500, seed=3, stream=1)


def test_every_line_is_a_row_of_criteo() -> None:
    lines = generated_text(2000, seed=1).splitlines()
    assert len(lines) == 2000
    assert all(ROW.fullmatch(line) for line in lines)


def test_fields_are_empty_about_as_often_as_in_the_real_files() -> None:
    rows = fields(generated_text(4000, seed=1))
    empty = np.mean([[field == b"" for field in row] for row in rows], axis=0)
    assert empty[0] == 0.0
    assert 0.40 < empty[1] < 0.50  # I1
    assert 0.72 < empty[FIRST_CATEGORY + 21] < 0.80  # C22


def test_few_ids_are_frequent_and_many_are_rare() -> None:
    rows = fields(generated_text(4000, seed=1))
    ids, counts = np.unique([row[FIRST_CATEGORY + 2] for row in rows], return_counts=True)
    assert counts.max() > 200
    assert (counts == 1).sum() > 500
    assert ids.size > 1000


def test_what_is_learned_from_some_rows_ranks_others() -> None:
    def table(rows: List[List[bytes]], column: int) -> Dict[bytes, float]:
        clicks: Dict[bytes, List[float]] = {}
        for row in rows:
            clicks.setdefault(row[column], [0.3, 1.0])
            clicks[row[column]][0] += row[0] == b"1"
            clicks[row[column]][1] += 1.0
        return {key: np.log(hit / (total - hit)) for key, (hit, total) in clicks.items()}

    training = fields(generated_text(20000, seed=1))
    held_out = fields(generated_text(4000, seed=1, stream=1))
    small_columns = [FIRST_CATEGORY + column for column in (4, 5, 8, 13, 16, 19, 21, 22)]
    tables = {column: table(training, column) for column in small_columns}
    scores = [
        sum(tables[column].get(row[column], 0.0) for column in small_columns) for row in held_out
    ]
    labels = np.array([row[0] == b"1" for row in held_out])
    assert roc_auc(labels, np.array(scores)) > 0.62


def test_files_are_written_once(tmp_path: Path) -> None:
    first = generated_files(tmp_path, 300, 40, seed=1)
    assert [len(path.read_bytes().splitlines()) for path in first] == [300, 40]
    times = [path.stat().st_mtime_ns for path in first]
    assert generated_files(tmp_path, 300, 40, seed=1) == first
    assert [path.stat().st_mtime_ns for path in first] == times
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(p.name for p in first)
