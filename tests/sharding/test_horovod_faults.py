"""A rank of Horovod fails: the others learn which and why, within seconds."""

from __future__ import annotations

import re

import pytest

from tests.horovod_processes import MPI, NEEDS_HOROVOD, check_all_done, run_ranks_of

SECONDS = 8.0
TORN = "rank 1 failed: InvalidArgumentError: ValueError: record 17 is torn"


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize(
    ("num_ranks", "fault", "lookup", "error", "told"),
    [
        (2, "killed", "number", "UnknownError", "rank 1 .*killed"),
        (2, "raised", "key", "UnknownError", "rank 1 failed: KeyError: 'no such feature'"),
        (2, "left", "number", "UnknownError", "rank 1 has ended"),
        (4, "early", "number", "InvalidArgumentError", "rank 1: ValueError: record 17 is torn"),
        (2, "early", "key", "InvalidArgumentError", "rank 1: ValueError: record 17 is torn"),
        (4, "late", "number", "InvalidArgumentError", TORN),
        (2, "late", "key", "InvalidArgumentError", TORN),
        (2, "last", "number", "InvalidArgumentError", TORN),
        (
            *(4, "differs", "number", "InvalidArgumentError"),
            "different graphs: combiners of lookup 0: .*rank 1",
        ),
        (
            *(2, "slow", "number", "DeadlineExceededError"),
            "rank 1 has kept rank 0 waiting .*_ids' last; rank 1",
        ),
        (2, "eager", "number", "UnknownError", "rank 1 failed: KeyError: 'no such feature'"),
        (2, "function", "number", "UnknownError", "rank 1 failed: KeyError: 'no such feature'"),
        (2, "tape", "number", "UnknownError", "rank 1 failed: KeyError: 'no such feature'"),
        (
            *(2, "twice", "number", "InvalidArgumentError"),
            "rank 1 failed: .* sends message 'graph_opt_exchange_.*run such steps one at a time",
        ),
    ],
)
def test_the_other_ranks_learn_which_rank_failed_and_why(
    num_ranks: int, fault: str, lookup: str, error: str, told: str
) -> None:
    arguments = ("tests.sharding.faulty_ranks", fault, lookup)
    ran = run_ranks_of(num_ranks, *arguments, timeout=120)
    for rank in set(range(num_ranks)) - {1}:
        check_told(ran.stdout, rank, error, told)
    if fault in ("differs", "slow", "twice"):
        check_told(ran.stdout, 1, error, told)
    if fault == "early":
        for rank in range(num_ranks):
            assert "rank {}: went on".format(rank) in ran.stdout


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize(
    ("fault", "error", "told"),
    [
        ("killed", "UnknownError", "rank 1 .*killed"),
        ("late", "InvalidArgumentError", TORN),
        ("differs", "InvalidArgumentError", "different graphs: combiners of lookup 0: .*rank 1"),
        ("slow", "DeadlineExceededError", "rank 1 has kept rank 0 waiting .*_ids' last; rank 1"),
        ("function", "UnknownError", "rank 1 failed: KeyError: 'no such feature'"),
    ],
)
def test_ranks_learn_it_without_a_store_of_the_launcher(fault: str, error: str, told: str) -> None:
    program = "tests.sharding.faulty_ranks"
    ran = run_ranks_of(2, program, fault, "number", MPI, timeout=120)
    check_told(ran.stdout, 0, error, told)


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize(
    ("fault", "error", "told"),
    [
        ("late", "InvalidArgumentError", TORN),
        ("killed", "UnknownError", "rank 1 .*killed"),
        ("threads", "InvalidArgumentError", "stage '.*: threads_num 2, .* but threads_num 3, .*"),
        (
            *("uninitialized", "FailedPreconditionError"),
            "rank 1 failed: .*variable '.*' is not initialized; run its initializer first",
        ),
    ],
)
def test_ranks_that_prefetch_learn_it_too(fault: str, error: str, told: str) -> None:
    ran = run_ranks_of(2, "tests.sharding.faulty_prefetch", fault, timeout=120)
    check_told(ran.stdout, 0, error, told)
    if fault == "threads":
        check_told(ran.stdout, 1, error, told)


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize("fault", ["between", "last"])
def test_ranks_of_an_unmodified_script_learn_it_after_they_have_sent_gradients(fault: str) -> None:
    ran = run_ranks_of(2, "tests.sharding.faulty_replicas", fault, timeout=120)
    check_told(ran.stdout, 0, "InvalidArgumentError", TORN)
    assert "rank 1: InvalidArgumentError: ValueError: record 17 is torn" in ran.stdout


@pytest.mark.slow
@NEEDS_HOROVOD
def test_exchanges_of_one_step_fail_and_end_together() -> None:
    check_all_done(2, "tests.sharding.several_exchanges")


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize("way", ["free", "after", "sessions", "empty"])
def test_input_may_end_apart_where_steps_have_a_message_of_the_script(way: str) -> None:
    check_all_done(2, "tests.sharding.uneven_ranks", way)


def check_told(printed: str, rank: int, error: str, told: str) -> None:
    found = re.search(r"rank {}: {}: .*{}.*: (\d+\.\d) s".format(rank, error, told), printed)
    assert found is not None, printed
    assert float(found.group(1)) < SECONDS
