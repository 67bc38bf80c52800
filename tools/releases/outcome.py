"""What testing one release of TensorFlow came to."""

from __future__ import annotations

import collections
import datetime
import json
import xml.etree.ElementTree
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Optional


class Outcome(NamedTuple):
    """One release.

    Attributes:
      release: Of TensorFlow.
      date: Of the run.
      passed, failed: Numbers of tests; 0 if none ran.
      skipped: How often each reason was given.
      demo: What `make demo` found with Adam (tools/demo/adam.py), or None if it did not end.
      is_good: Whether all was built and no test failed.
    """

    release: str
    date: str
    passed: int
    failed: int
    skipped: Mapping[str, int]
    demo: Optional[Mapping[str, Any]]
    is_good: bool

    @property
    def line(self) -> str:
        """For people who wait."""
        if not self.passed:
            return "TensorFlow {}: no test ran".format(self.release)
        skipped = sum(self.skipped.values())
        counts = "{} passed, {} skipped, {} failed".format(self.passed, skipped, self.failed)
        sped = "" if self.demo is None else "; demo {:.1f} times".format(self.demo["ratio"])
        return "TensorFlow {}: {}{}".format(self.release, counts, sped)


def outcome_of(release: str, folder: Path, code: int) -> Outcome:
    """Reads what `make test-release` left.

    Args:
      release: Of TensorFlow.
      folder: Has `demo.json` and `tests.xml`, as far as these were written.
      code: That make ended with.
    """
    demo, tests = folder / "demo.json", folder / "tests.xml"
    passed = failed = 0
    skipped: Dict[str, int] = collections.Counter()
    for case in _cases(tests):
        if case.find("skipped") is not None:
            skipped[_reason(case.find("skipped"))] += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        else:
            passed += 1
    return Outcome(
        release,
        datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        passed,
        failed,
        skipped,
        json.loads(demo.read_text("utf-8")) if demo.exists() else None,
        code == 0,
    )


def _cases(path: Path) -> Any:
    if not path.exists():
        return []
    return xml.etree.ElementTree.parse(path).getroot().iter("testcase")


def _reason(skipped: Any) -> str:
    return str(skipped.get("message", "")).replace("Skipped: ", "")
