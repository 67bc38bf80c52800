"""The table of what was tested with each release of TensorFlow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.releases.__main__ import PAGE, known_releases, main
from tools.releases.outcome import Outcome, outcome_of
from tools.releases.page import with_rows

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_number(number):
    if number > 1:
        pytest.skip("TensorFlow 9.9.9 has no Estimators")
    assert number == 0
"""
DEMO = {"ratio": 9.26, "stock": 4.64, "graph_opt": 43.0}
ROW = "| 9.9.9 | 1 | 1 | 2 | 4.6 → 43.0 | **9.3** | 2026-11-28 |"
PAGE_OF_TWO = """before
<!-- releases -->
| TensorFlow | ... |
|---|---|
| 2.15.1 | kept |
| 10.0.0 | kept, too |
<!-- end -->
<!-- skipped -->
| TensorFlow | ... |
|---|---|
| 10.0.0 | 7 | gone |
<!-- end -->
after
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `make test-release` leaves it."""
    folder = tmp_path_factory.mktemp("release")
    (folder / "test_numbers.py").write_text(TESTS)
    (folder / "demo.json").write_text(json.dumps(DEMO))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["--rootdir", str(folder), "--junit-xml", str(folder / "tests.xml"), str(folder)]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, timeout=120)
    return folder


def test_an_outcome_counts_tests_and_reasons(ran: Path) -> None:
    found = outcome_of("9.9.9", ran, 1)
    assert (found.passed, found.failed, found.is_good) == (1, 1, False)
    assert found.skipped == {"TensorFlow 9.9.9 has no Estimators": 2}
    assert found.line == "TensorFlow 9.9.9: 1 passed, 2 skipped, 1 failed; demo 9.3 times"


def test_a_release_that_does_not_build_says_that_nothing_ran(tmp_path: Path) -> None:
    found = outcome_of("9.9.9", tmp_path, 2)
    assert (found.line, found.is_good) == ("TensorFlow 9.9.9: no test ran", False)


def test_a_row_replaces_that_of_its_release_in_the_order_of_releases(ran: Path) -> None:
    new = outcome_of("9.9.9", ran, 1)._replace(date="2026-11-28")
    again = Outcome("10.0.0", "2026-11-28", 7, 0, {}, None, True)
    assert with_rows(PAGE_OF_TWO, [again, new]).splitlines()[4:8] == [
        "| 2.15.1 | kept |",
        ROW,
        "| 10.0.0 | 7 | 0 | 0 |  |  | 2026-11-28 |",
        "<!-- end -->",
    ]
    assert with_rows(PAGE_OF_TWO, [again, new]).splitlines()[-3:] == [
        "| 9.9.9 | 2 | it has no Estimators |",
        "<!-- end -->",
        "after",
    ]


def test_every_release_has_a_row() -> None:
    page = PAGE.read_text("utf-8")
    for release in known_releases():
        assert "\n| {} |".format(release) in page


def test_an_unknown_release_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["1.4.0"])
    assert "releases.txt has no 1.4.0" in capsys.readouterr().err
