"""`make test-releases`: sets up each release of TensorFlow, tests it, and writes the table of docs.

Each release is tested by `make TF=RELEASE test-release`, whose output goes to a log. What that left
under build/releases/ becomes a row of docs/releases.md, also if it failed. Releases that are not
run keep their rows.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import List, Optional, Sequence

from tools.releases.outcome import Outcome, outcome_of
from tools.releases.page import with_rows

REPOSITORY = Path(__file__).resolve().parents[2]
RELEASES = REPOSITORY / "tools" / "setup" / "release.sh"
PAGE = REPOSITORY / "docs" / "releases.md"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs what the command line says; returns 1 if something failed."""
    known = known_releases()
    parser = argparse.ArgumentParser(
        prog="python -m tools.releases", description="Test graph_opt with releases of TensorFlow."
    )
    parser.add_argument(
        "releases", nargs="*", metavar="RELEASE", help="of {} (default: all)".format(known)
    )
    parser.add_argument(
        "--results", type=Path, default=REPOSITORY / "build" / "releases", help="folder of results"
    )
    flags = parser.parse_args(arguments)
    unknown = sorted(set(flags.releases) - set(known))
    if unknown:
        parser.error("releases.txt has no {}".format(", ".join(unknown)))
    outcomes = [tested(release, flags.results) for release in flags.releases or known]
    PAGE.write_text(with_rows(PAGE.read_text("utf-8"), outcomes), "utf-8")
    print("written: {}".format(PAGE.relative_to(REPOSITORY)))
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


def known_releases() -> List[str]:
    """Those that have a set-up."""
    return subprocess.check_output([str(RELEASES), "all"], text=True).split()


def tested(release: str, results: Path) -> Outcome:
    """Runs the tests of one release and says what came of them."""
    folder = results / release
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.iterdir():
        left.unlink()
    log = folder / "log"
    print("==> TensorFlow {}: see {}".format(release, log.relative_to(REPOSITORY)), flush=True)
    with log.open("w") as output:
        command = ["make", "TF=" + release, "test-release"]
        ran = subprocess.run(command, cwd=REPOSITORY, stdout=output, stderr=subprocess.STDOUT)
    outcome = outcome_of(release, folder, ran.returncode)
    print(outcome.line, flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
