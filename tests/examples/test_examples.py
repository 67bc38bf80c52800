"""Each example trains, says what graph_opt did, and learns what it learns without graph_opt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import List

import pytest

from tests.examples.scripts import EXAMPLES, Started
from tests.release_features import HAS_ESTIMATORS, needs_estimators
from tests.session.parameter_servers import free_addresses

pytestmark = pytest.mark.example
SAME = 1e-5  # fused: sums are added in another order
SAME_LATER = 1e-3  # that difference, once dozens of steps of a deep model have grown it
STALE = 0.05  # ahead: a row may miss the updates of a few steps, more of them on a busy machine
STALE_SCORE = 0.1
DLRM = "--buckets 100 --batch 32 --steps 50"
WIDE = "--columns 6 --buckets 100 --batch 32 --rows 256 --epochs 5"
MOST_LINES = 155


def losses(printed: str) -> List[float]:
    found = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", printed)]
    assert found, printed
    return found


def check_modes(printed: List[str], lookups: int) -> None:
    """Compares what stock, fused and both printed."""
    stock, fused, both = printed
    check_fused(stock, fused, lookups, SAME)
    check_counts(both, lookups)
    assert losses(both) == pytest.approx(losses(stock), rel=STALE)
    assert "{0} of {0} lookups moved".format(lookups) in both


def check_fused(stock: str, fused: str, lookups: int, difference: float) -> None:
    # Without the colon, the name is also that of a source file that TensorFlow's log names.
    assert [("graph_opt: " in printed) for printed in (stock, fused)] == [False, True]
    assert losses(fused) == pytest.approx(losses(stock), rel=difference)
    check_counts(fused, lookups)


def check_counts(printed: str, lookups: int) -> None:
    assert "{0} of {0} lookups fused".format(lookups) in printed
    assert "updates fused: {0} of {0}".format(lookups) in printed


def scores(printed: str) -> List[float]:
    """What the Estimator printed: its AUC, a probability predicted, and one served."""
    found = re.findall(r"(AUC|first visit|served):? (0\.\d+)", printed)
    assert [name for name, _ in found] == ["AUC", "first visit", "served"]
    return [float(score) for _, score in found]


def modes(arguments: str) -> List[str]:
    return ["{} --mode {}".format(arguments, mode) for mode in ("stock", "fused", "both")]


def test_examples_are_short() -> None:
    lines = {path.name: len(path.read_text("utf-8").splitlines()) for path in EXAMPLES.iterdir()}
    assert lines and {name: count for name, count in lines.items() if count > MOST_LINES} == {}


@pytest.mark.slow
def test_dlrm(tmp_path: Path) -> None:
    # With `both`, the next test trains it, and test_wide compares.
    stock, fused = Started("dlrm", tmp_path, modes(DLRM)[:2]).printed()
    check_fused(stock, fused, 26, SAME_LATER)


@pytest.mark.slow
def test_dlrm_with_dynamic_tables(tmp_path: Path) -> None:
    check_modes(Started("dlrm", tmp_path, modes(DLRM + " --dynamic")).printed(), lookups=26)


@pytest.mark.slow
def test_dlrm_with_a_parameter_server(tmp_path: Path) -> None:
    ps, chief = free_addresses(2)
    cluster = {"ps": [ps], "chief": [chief]}
    started = {}
    for job in cluster:
        place = json.dumps({"cluster": cluster, "task": {"type": job, "index": 0}})
        (tmp_path / job).mkdir()
        adam = DLRM + " --optimizer adam --learning-rate 0.001"
        started[job] = Started("dlrm", tmp_path / job, [adam], TF_CONFIG=place)
    (printed,) = started["chief"].printed()
    assert "updates fused: 26 of 26 (26 deferred)" in printed
    assert "26 of 26 lookups fused" in printed and "26 of 26 lookups moved" in printed
    assert losses(printed)
    assert started["ps"].process.is_alive()
    started["ps"].process.kill()


@pytest.mark.slow
def test_dlrm_on_criteos_rows(shared_data: Path, tmp_path: Path) -> None:
    rows = (shared_data / "criteo_tiny.csv").read_text().splitlines()[1:]
    tabs = [row.partition(",")[2].replace(",", "\t") + "\n" for row in rows]
    (tmp_path / "day_0").write_text("".join(tabs[:1000]))
    (tmp_path / "day_1").write_text("".join(tabs[1000:]))
    line = "--data day_* --epochs 1 --steps 1000 --batch 32 --buckets 1000 --checkpoint-dir model"
    (printed,) = Started("dlrm", tmp_path, [line]).printed()
    assert "26 of 26 lookups fused" in printed
    assert (tmp_path / "model" / "model.ckpt-63.index").exists()


def test_wide(tmp_path: Path) -> None:
    lines = modes(WIDE)
    printed = Started("wide", tmp_path, [*lines[:2], lines[2] + " --checkpoint model"]).printed()
    check_modes(printed, lookups=6)
    assert all("end of the data after step 40" in text for text in printed)
    assert "saved model-40" in printed[-1]


@pytest.mark.slow
def test_feed_dict(tmp_path: Path) -> None:
    check_modes(Started("feed_dict", tmp_path, modes("--steps 100")).printed(), lookups=3)


@pytest.mark.slow
@needs_estimators
def test_estimator(tmp_path: Path) -> None:
    stock, optimized = Started(
        "estimator", tmp_path, ["--stock --epochs 1", "--epochs 1"]
    ).printed()
    assert losses(optimized) == pytest.approx(losses(stock), rel=STALE)
    assert scores(optimized) == pytest.approx(scores(stock), abs=STALE_SCORE)
    assert "7 of 7 lookups fused" in optimized and "7 of 7 lookups moved" in optimized


@pytest.mark.skipif(HAS_ESTIMATORS, reason="this TensorFlow has Estimators")
def test_what_a_release_lacks_is_one_line(tmp_path: Path) -> None:
    failure = Started("estimator", tmp_path, [""]).failure()
    assert failure.splitlines()[-1].startswith("Estimators ended with TensorFlow 2.15; this is 2.")


@pytest.mark.slow
def test_keras(tmp_path: Path) -> None:
    stock, optimized = Started(
        "keras_fit", tmp_path, ["--stock --epochs 2", "--epochs 2"]
    ).printed()
    assert losses(optimized) == pytest.approx(losses(stock), rel=STALE)
    assert "2 of 2 lookups fused" in optimized and "2 of 2 lookups moved" in optimized


def test_a_pattern_without_files_is_one_line(tmp_path: Path) -> None:
    failure = Started("dlrm", tmp_path, ["--data nothing_*"]).failure()
    assert failure.splitlines()[-1] == "no file matches nothing_*"


@pytest.mark.slow
def test_a_row_without_all_columns_is_named(tmp_path: Path) -> None:
    (tmp_path / "day_0").write_text("1\t" * 38 + "1\n")
    failure = Started("dlrm", tmp_path, [DLRM + " --data day_0"]).failure()
    assert "Expect 40 fields but have 39 in record 0" in failure
