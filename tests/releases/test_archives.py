"""Every release that has a set-up has its graphs, and they are few bytes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.releases.archives import FOLDER, names, releases
from tests.releases.outcomes import TOTALS

REPOSITORY = Path(__file__).resolve().parents[2]
MOST_BYTES = 80_000


def test_every_release_that_has_a_set_up_has_its_graphs() -> None:
    told = subprocess.check_output([str(REPOSITORY / "tools/setup/release.sh"), "all"], text=True)
    assert releases() == list(TOTALS)
    assert sorted(releases()) == sorted(told.split())


def test_the_graphs_are_those_that_are_counted() -> None:
    assert {release: len(names(release)) for release in releases()} == {
        release: totals.graphs for release, totals in TOTALS.items()
    }


def test_archives_are_small() -> None:
    assert max(path.stat().st_size for path in FOLDER.iterdir()) < MOST_BYTES
