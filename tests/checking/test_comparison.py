"""Verdicts on runs that are given as numbers."""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np
import pytest

from graph_opt.checking.check import Wanted, check
from graph_opt.checking.comparison import MOST_RELATIVE, allowed_after, compare
from graph_opt.checking.records import Facts, Run, Step, Variables, add_to, value_of
from graph_opt.checking.verdict import DIFFERENT, EQUAL, ROUNDING, UNCHECKED

ULP = 2.0**-23


def run_of(losses: Sequence[Any], table: Any = 1.0, **facts: Any) -> Run:
    run = Run()
    for number, loss in enumerate(losses, 1):
        value = value_of("loss:0", np.asarray(loss, np.float32))
        add_to(run, Step(1, 1, number, 0, number, {}, (value,)))
    values = (value_of("table", np.full([3], table, np.float32)),)
    add_to(run, Variables(1, len(losses), values))
    add_to(run, Facts(**facts))
    return run


def test_equal_bits_are_equal() -> None:
    compared = compare(run_of([0.5, np.nan]), run_of([0.5, np.nan]))
    assert compared.is_bit_equal and compared.steps == 2 and compared.values == 3


def test_rounding_may_add_up_with_updates_but_not_without_end() -> None:
    def first_of(relative: float, updates: int) -> bool:
        losses = [1.0] * (updates - 1)
        return compare(run_of([*losses, 1.0]), run_of([*losses, 1 + relative])).first is None

    assert first_of(30 * ULP, 1) and not first_of(40 * ULP, 1)
    assert first_of(150 * ULP, 9)
    assert allowed_after(10**9) == MOST_RELATIVE


def test_a_loss_near_0_is_measured_by_what_it_was() -> None:
    assert compare(run_of([1.0, 1e-7]), run_of([1.0, 2e-7])).first is None
    assert compare(run_of([1e-7, 1e-7]), run_of([1e-7, 2e-7])).first is not None


def test_the_first_step_that_differs_is_found() -> None:
    compared = compare(run_of([1.0, 0.9, 0.8]), run_of([1.0, 0.91, 0.5]))
    assert compared.first is not None and compared.first.step == 2
    assert str(compared.first) == "loss:0 in training step 2, by 0.01 of its size"
    assert compared.largest is not None and compared.largest.step == 3
    assert compared.scalars["loss:0"].stock == pytest.approx(0.8)


@pytest.mark.parametrize(
    "one, two",
    [(1.0, np.nan), (np.inf, 1.0), ([1, 2], [1, 3]), (True, False), (b"a", b"b"), ([1.0], 1.0)],
)
def test_what_rounding_cannot_do_differs(one: Any, two: Any) -> None:
    runs = []
    for value in (one, two):
        run = Run()
        add_to(run, Step(1, 1, 1, 0, 1, {}, (value_of("fetched", value),)))
        runs.append(run)
    assert compare(*runs).first is not None
    assert compare(runs[0], runs[0]).is_bit_equal


def test_variables_are_compared_at_the_end_of_runs_of_one_length() -> None:
    compared = compare(run_of([1.0], 2.0), run_of([1.0], 1.0))
    assert str(compared.first) == "variable table at the end of session 1, by 0.5 of its size"
    longer = run_of([1.0, 1.0], 1.0, reached_limit=True)
    assert compare(run_of([1.0], 2.0), longer).is_bit_equal


def test_a_run_that_ends_early_differs_unless_it_was_to_end() -> None:
    stock, other = run_of([1.0, 1.0]), run_of([1.0])
    other.failure = "ended with exit code 1: KeyError"
    first = compare(stock, other).first
    assert (
        first is not None
        and "after 1 steps that train instead of 2" in str(first)
        and "KeyError" in str(first)
    )
    assert compare(stock, run_of([1.0], reached_limit=True)).first is None


def test_large_tensors_are_sampled_and_their_digest_is_of_all() -> None:
    large = np.zeros([10**4], np.float32)
    changed = large.copy()
    changed[1] = 1.0
    value, other = value_of("large", large), value_of("large", changed)
    assert not value.is_whole and value.digest != other.digest
    assert value.numbers is not None and value.numbers.size == 4096


class Runs:
    """Makes runs as if a difference came from some option."""

    def __init__(self, guilty: str = "", stock_again: Sequence[float] = (1.0, 0.5, 0.4)) -> None:
        self.guilty = guilty
        self.stock_again = stock_again
        self.titles: List[str] = []

    def run(self, wanted: Wanted) -> Run:
        self.titles.append(wanted.title)
        asked = ("do_async_embedding", "do_group_embedding")
        if wanted.title == "stock, again":
            return run_of(self.stock_again)
        is_off = wanted.is_first or not self.guilty or self.guilty + "=false" in wanted.settings
        losses = [1.0, 0.5, 0.4] if is_off else [1.0, 0.6, 0.4]
        limit = wanted.most_updates or None
        ahead = ("lookups",)
        return run_of(losses[:limit], asked=asked, ahead=ahead, reached_limit=bool(limit))


def test_the_pass_without_which_nothing_differs_is_named() -> None:
    runs = Runs("do_group_embedding")
    result = check(runs.run)
    assert result.verdict == DIFFERENT and result.exit_code == 1
    assert result.culprit == "fuse_group_embedding" and "certain" in result.certainty
    assert "without async_embedding" in runs.titles
    assert "different: loss:0 in training step 2" in str(result)
    assert result.to_dict()["first"]["step"] == 2


def test_a_difference_that_stays_without_any_one_pass_has_none_named() -> None:
    result = check(Runs("something_else").run)
    assert result.verdict == DIFFERENT and result.culprit == ""
    assert "stays with any one of async_embedding, fuse_group_embedding" in result.certainty


def test_a_script_whose_own_runs_differ_raises_no_alarm() -> None:
    runs = Runs("do_group_embedding", stock_again=[1.0, 0.7, 0.4])
    result = check(runs.run)
    assert result.verdict == UNCHECKED and result.exit_code == 2
    assert "two stock runs differ as well: loss:0 in training step 2" in result.reason
    assert runs.titles == ["stock", "rewritten", "stock, again"]


def test_what_a_failed_step_has_left_is_not_compared() -> None:
    def run(wanted: Wanted) -> Run:
        table = 0.9 if wanted.is_first else 1.0
        run = run_of([1.0, 0.5], table)
        place = 1, 1, 3, 0, 3
        add_to(run, Step(*place, {}, (), raised="OutOfRangeError"))
        return run_of([1.0, 0.5], reached_limit=True) if wanted.most_updates else run

    result = check(run)
    assert result.verdict == EQUAL, result
    assert "training step 3 raised OutOfRangeError" in str(result)


def test_steps_are_found_by_updates_where_hooks_run_more_of_them_by_time() -> None:
    runs = []
    for extra in (0, 1):
        run = Run()
        for number in range(3):
            loss = value_of("loss:0", 1.0 / (1 + number))
            add_to(run, Step(1, 1, number * (1 + extra), 0, number + 1, {}, (loss,)))
            if extra:
                place = 1, 1, number * 2 + 1, 1, number + 1
                add_to(run, Step(*place, {}, (value_of("saved:0", 1),), trains=False))
        runs.append(run)
    assert compare(*runs).is_bit_equal and compare(*runs).values == 3


def test_equal_runs_are_followed_by_one_as_configured() -> None:
    runs = Runs()
    result = check(runs.run)
    assert result.verdict == EQUAL and result.exit_code == 0
    assert runs.titles == ["stock", "rewritten", "as configured"]
    assert "as configured, ahead of updates: the same bits" in str(result)


@pytest.mark.parametrize(
    "ahead, last, told",
    [
        (("lookups",), 0.6, "rows miss updates, so\n  loss:0 ends at 0.6 instead of 0.5,"),
        (("weights",), 0.5 + ULP, "the same within float32 rounding"),
        (("lookups",), 0.5 - ULP, "the same bits"),
        ((), 0.6, ""),
    ],
)
def test_only_what_is_ahead_and_differs_from_what_is_not_is_staleness(
    ahead: Sequence[str], last: float, told: str
) -> None:
    def run(wanted: Wanted) -> Run:
        losses = [1.0, 0.5 if wanted.is_first else 0.5 - ULP]
        losses = [1.0, last] if wanted.title == "as configured" else losses
        return run_of(losses, asked=("do_async_embedding",), ahead=tuple(ahead))

    result = check(run)
    assert result.verdict == ROUNDING and (result.staleness is None) == (not ahead)
    assert told in str(result)


def test_without_training_there_is_no_staleness() -> None:
    def run(wanted: Wanted) -> Run:
        evaluated = Run()
        add_to(evaluated, Step(1, 1, 1, 0, 0, {}, (value_of("loss:0", 1.0),), trains=False))
        add_to(evaluated, Facts(ahead=("lookups",), asked=("do_async_embedding",)))
        return evaluated

    result = check(run)
    assert result.verdict == EQUAL and result.staleness is None
    assert "note: no step trained, so that there was no update to compare" in str(result)


def test_rounding_is_told_from_equality() -> None:
    def run(wanted: Wanted) -> Run:
        return run_of([1.0, 0.5 if wanted.is_first else 0.5 + ULP])

    result = check(run)
    assert result.verdict == ROUNDING and result.exit_code == 0
    assert "equal within float32 rounding; 1 values differ" in str(result)


def test_without_steps_there_is_nothing_to_check() -> None:
    failed = Run(failure="ended with exit code 1: SyntaxError")
    result = check(lambda wanted: failed)
    assert result.exit_code == 2
    assert result.reason == "no step of a session was run: it ended with exit code 1: SyntaxError"


def ahead_with(values: Sequence[Any], again: Any = 0.5) -> Any:
    """Runs of a config with exact rows: these losses if lookups are ahead of updates."""

    def run(wanted: Wanted) -> Run:
        losses = values if wanted.title == "rewritten, ahead" else [1.0, 0.5]
        losses = [1.0, again] if wanted.title == "rewritten, again" else losses
        is_exact = not wanted.is_first
        return run_of(losses, exact=is_exact, asked=("do_async_embedding",), ahead=("lookups",))

    return run


def test_exact_rows_must_equal_rows_that_are_not_ahead() -> None:
    result = check(ahead_with([1.0, 0.5]))
    assert result.verdict == EQUAL and "all 3 values had the same bits" in str(result)
    result = check(ahead_with([1.0, 0.5 + ULP]))
    assert result.verdict == ROUNDING and "1 of 3 values differed within rounding" in str(result)
    assert "the most loss:0 in training step 2" in str(result)
    # It began with more than the order of a sum makes, whatever updates may make of that later on.
    result = check(ahead_with([1.0, 0.5 + 20 * ULP], again=0.5 - ULP))
    assert result.verdict == DIFFERENT and result.culprit == "async_embedding, its exact rows"
    assert "loss:0 in training step 2" in str(result)
    result = check(ahead_with([1.0, 0.6], again=0.7))
    assert result.verdict == EQUAL and "is not known" in str(result)


def test_a_script_that_kills_itself_is_told_that_variables_are_not_known() -> None:
    asked = ("do_group_embedding",)
    result = check(lambda wanted: run_of([1.0], asked=asked, cut_off=True))
    assert result.verdict == EQUAL and "variables at the end were not compared" in str(result)


def test_servers_that_outlive_a_run_are_told() -> None:
    result = check(lambda wanted: run_of([1.0], outlived="" if wanted.is_first else "grpc://one:1"))
    assert result.verdict == UNCHECKED and "'grpc://one:1' outlive a run" in result.reason
