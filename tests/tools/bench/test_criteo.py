"""Criteo's files as batches: layouts, empty fields, order, held-out rows, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tools.bench.workloads.dlrm import criteo
from tools.bench.workloads.dlrm.schema import CATEGORICALS

HEADER = ",".join(
    ["Id", "Label"] + [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
)
Batches = List[Tuple[Dict[str, np.ndarray], np.ndarray]]


def row(number: int, separator: str = "\t", label: Optional[str] = None) -> str:
    """A row whose I1 and C1 hold its number; I3 and C2 are empty."""
    counters = [str(number), "2", ""] + ["7"] * 10
    categories = [f"{number:08x}", ""] + [f"{column:08x}" for column in range(24)]
    return separator.join([label or str(number % 2), *counters, *categories])


def write(path: Path, lines: Sequence[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def tab_file(path: Path, numbers: Sequence[int]) -> str:
    return write(path, [row(number) for number in numbers])


def read(dataset: tf.data.Dataset) -> Batches:
    step = tf.data.make_one_shot_iterator(dataset).get_next()
    found = []
    with tf.Session() as session:
        while True:
            try:
                found.append(session.run(step))
            except tf.errors.OutOfRangeError:
                return found


def numbers_of(batches: Batches) -> List[int]:
    """The row numbers in the batches, read from C1."""
    return [int(value, 16) for features, _ in batches for value in features["C1"][:, 0]]


def test_rows_of_a_tab_separated_file(tmp_path: Path) -> None:
    path = tab_file(tmp_path / "day.tsv", [1, 2, 3])
    ((features, label),) = read(criteo.batches([path], batch_size=8))
    assert label.tolist() == [[1.0], [0.0], [1.0]]
    expected = np.log1p(np.array([1.0, 2.0, 0.0] + [7.0] * 10, np.float32))
    np.testing.assert_allclose(features[criteo.COUNTERS][0], expected, rtol=1e-6)
    assert features["C1"].tolist() == [[b"00000001"], [b"00000002"], [b"00000003"]]
    assert features["C2"].tolist() == [[b""]] * 3
    assert set(features) == {criteo.COUNTERS, *CATEGORICALS}


@pytest.mark.parametrize("has_id", [True, False])
def test_rows_of_a_comma_separated_file_with_a_header(tmp_path: Path, has_id: bool) -> None:
    header = HEADER if has_id else HEADER[len("Id,") :]
    lines = [("9," if has_id else "") + row(number, ",") for number in (4, 5)]
    path = write(tmp_path / "train.csv", [header, *lines])
    batches = read(criteo.batches([path], batch_size=8))
    assert numbers_of(batches) == [4, 5]
    assert batches[0][1].tolist() == [[0.0], [1.0]]


def test_carriage_returns_and_negative_counters_are_accepted(tmp_path: Path) -> None:
    path = write(tmp_path / "day.tsv", [row(1).replace("\t2\t", "\t-2\t", 1) + "\r"])
    ((features, _),) = read(criteo.batches([path], batch_size=8))
    assert features[criteo.COUNTERS][0, 1] == 0.0
    assert features["C26"][0, 0] == b"00000017"


def test_batches_run_on_over_files_and_epochs_and_the_last_is_odd(tmp_path: Path) -> None:
    first = tab_file(tmp_path / "day_0.tsv", [0, 1, 2])
    second = tab_file(tmp_path / "day_1.tsv", [3, 4])
    batches = read(criteo.batches([first, second], batch_size=4, epochs=2))
    assert [len(label) for _, label in batches] == [4, 4, 2]
    assert numbers_of(batches) == [0, 1, 2, 3, 4] * 2


def test_held_out_lines_and_the_others_are_all_lines(tmp_path: Path) -> None:
    paths = [tab_file(tmp_path / f"{day}.tsv", range(day, day + 10)) for day in (0, 10)]
    kept = read(criteo.batches(paths, 4, selection=criteo.Selection(every=5)))
    held_out = read(criteo.batches(paths, 4, selection=criteo.Selection(5, is_held_out=True)))
    assert numbers_of(held_out) == [4, 9, 14, 19]
    assert sorted(numbers_of(kept) + numbers_of(held_out)) == list(range(20))
    assert [len(label) for _, label in kept] == [4, 4, 4, 4]


def test_shuffled_rows_are_the_same_rows_and_follow_the_seed(tmp_path: Path) -> None:
    path = tab_file(tmp_path / "day.tsv", range(50))
    orders = [
        numbers_of(read(criteo.batches([path], 8, shuffle_rows=50, seed=seed)))
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(50)) != orders[0]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(row(1)[: -len("\t00000017")], id="a field short", marks=pytest.mark.slow),
        pytest.param(row(1) + "\tff", id="a field long"),
        pytest.param(row(1, label="2"), id="label", marks=pytest.mark.slow),
        pytest.param(row(1).replace("\t7\t", "\tseven\t", 1), id="counter"),
        pytest.param("", id="empty line", marks=pytest.mark.slow),
        pytest.param(row(1, ","), id="other separator"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path: Path, bad: str) -> None:
    good = tab_file(tmp_path / "day_0.tsv", range(7))
    path = write(tmp_path / "day_1.tsv", [row(0), row(1), bad, row(3)])
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        read(criteo.batches([good, path], batch_size=2))
    assert f"{path}, line 3: need a label 0 or 1, 13 numbers and 26 categories" in str(raised.value)


def test_a_bad_row_under_a_header_is_named_by_its_line_in_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "train.csv", [HEADER, "1," + row(1, ","), "2,1,2"])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"train.csv, line 3: need an id, a"):
        read(criteo.batches([path], batch_size=2))


def test_a_file_in_another_format_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "other.txt", ["user\titem\trating"])
    with pytest.raises(ValueError, match=r"other.txt, line 1: neither a header .* nor a row"):
        criteo.batches([path], batch_size=2)


def test_files_of_different_layouts_are_refused(tmp_path: Path) -> None:
    tabs = tab_file(tmp_path / "day.tsv", [1])
    commas = write(tmp_path / "train.csv", [HEADER, "1," + row(1, ",")])
    with pytest.raises(ValueError, match="different layouts"):
        criteo.batches([tabs, commas], batch_size=2)


def test_files_are_found_by_globs_in_order(tmp_path: Path) -> None:
    for day in (1, 0, 2):
        tab_file(tmp_path / f"day_{day}.tsv", [day])
    found = criteo.find_files([str(tmp_path / "day_[01].tsv"), str(tmp_path / "day_2.tsv")])
    assert [Path(path).name for path in found] == ["day_0.tsv", "day_1.tsv", "day_2.tsv"]
    with pytest.raises(FileNotFoundError, match=r"no file matches '.*week"):
        criteo.find_files([str(tmp_path / "week_*.tsv")])


def test_the_real_rows_are_read(shared_data: Path) -> None:
    path = shared_data / "criteo_tiny.csv"
    if not path.exists():
        pytest.skip("no Criteo rows beside the checkout")
    batches: Any = read(criteo.batches([str(path)], batch_size=512))
    labels = np.concatenate([label for _, label in batches])
    assert labels.shape == (1999, 1)
    assert 0.2 < labels.mean() < 0.22
    assert batches[0][0]["C1"][0, 0] == b"68fd1e64"
