"""The tests that are named as those of what a release lacks."""

from __future__ import annotations

from pathlib import Path

from tests.release_features import named_tests

REPOSITORY = Path(__file__).resolve().parents[1]


def test_every_test_that_is_named_is_there() -> None:
    split = [named.partition("::") for named in named_tests()]
    sources = {path: (REPOSITORY / path).read_text("utf-8") for path, _, _ in split}
    missing = [
        (path, test)
        for path, _, test in split
        if "\ndef " + test.partition("[")[0] not in sources[path]
    ]
    assert missing == []
