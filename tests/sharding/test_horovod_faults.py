"""A rank of Horovod fails: the others learn which and why, within seconds."""

from __future__ import annotations

import re

import pytest

from tests.horovod_processes import NEEDS_HOROVOD, run_ranks_of

SECONDS = 8.0


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize(
    ("fault", "error", "told"),
    [
        ("killed", "UnknownError", "rank 1 .*killed"),
        ("raised", "UnknownError", "rank 1 failed: KeyError: 'no such feature'"),
        ("left", "UnknownError", "rank 1 has ended"),
        ("early", "InvalidArgumentError", r"rank 1: ValueError: record 17 is torn \(early\)"),
        (
            *("late", "InvalidArgumentError"),
            r"rank 1 failed: InvalidArgumentError: ValueError: record 17 is torn \(late\)",
        ),
        ("differs", "InvalidArgumentError", "different graphs: combiners of lookup 0: .*rank 1"),
        ("slow", "DeadlineExceededError", "rank 1 has kept rank 0 waiting .*_ids' last; rank 1"),
        ("eager", "UnknownError", "rank 1 failed: KeyError: 'no such feature'"),
    ],
)
def test_the_other_rank_learns_which_rank_failed_and_why(fault: str, error: str, told: str) -> None:
    ran = run_ranks_of(2, "tests.sharding.faulty_ranks", fault, timeout=120)
    found = re.search(r"rank 0: {}: .*{}.*: (\d+\.\d) s".format(error, told), ran.stdout)
    assert found is not None, ran.stdout
    assert float(found.group(1)) < SECONDS
    if fault in ("differs", "slow"):
        assert re.search("rank 1: {}: .*{}".format(error, told), ran.stdout), ran.stdout
    if fault == "early":
        assert "rank 0: went on" in ran.stdout and "rank 1: went on" in ran.stdout
