"""What counts as lost and as doubled."""

from __future__ import annotations

from pathlib import Path
from typing import List

import pytest

from tools.soak.batch_notes import read_notes, violations


@pytest.mark.parametrize(
    "lives, fault",
    [
        ([[0, 1, 2], [0, 1]], ""),
        ([[0, 1], [], [0]], ""),
        ([[0, 1, 3]], "step 3 of session 1 used batch 3, not 2"),
        ([[0, 1, 1]], "step 3 of session 1 used batch 1, not 2"),
        ([[0, 1], [1, 2]], "step 1 of session 2 used batch 1, not 0"),
        ([[0, 1, 2, 3, 4, 5]], "nobody made"),
        ([[0, 1, 2, 3, 4], [0]], "more batches were used than made"),
    ],
)
def test_a_life_must_use_what_the_source_made(
    lives: List[List[int]], fault: str, tmp_path: Path
) -> None:
    lines = ["made {}".format(number) for number in range(5)]
    for used in lives:
        lines += ["life 0", *("used {}".format(number) for number in used)]
    (tmp_path / "chief_0.7.txt").write_text("\n".join([*lines, "made"]))  # Killed as it wrote.
    (notes,) = read_notes(tmp_path)
    found = violations(notes)
    assert any(fault in one for one in found) == bool(fault)
