"""Records of several ranks, compared as one run."""

from __future__ import annotations

from graph_opt.checking.comparison import compare
from graph_opt.checking.ranks import run_of_ranks
from graph_opt.checking.records import Facts, Run, Step, Variables, value_of

_NOTHING = Facts()


def rank(losses: list[float], table: float, facts: Facts = _NOTHING) -> Run:
    """What a rank records that returns these losses."""
    steps = [
        Step(1, 1, number, 0, number, {}, (value_of("loss:0", loss),))
        for number, loss in enumerate(losses, 1)
    ]
    end = Variables(1, len(losses), (value_of("table", table),))
    return Run(steps, [end], facts)


def test_the_first_rank_that_differs_is_named() -> None:
    stock = run_of_ranks([rank([3.0, 2.0], 1.0), rank([3.0, 2.0], 1.0)])
    assert compare(stock, stock).is_bit_equal and compare(stock, stock).values == 6
    found = compare(stock, run_of_ranks([rank([3.0, 4.0], 1.0), rank([5.0, 2.0], 7.0)]))
    assert str(found.first).startswith("loss:0 in training step 1 of rank 1")
    assert [one.where for one in found.variables] == ["at the end of session 1 of rank 1"]
    assert {name: one.other for name, one in found.scalars.items()} == {
        "loss:0 of rank 0": 4.0,
        "loss:0 of rank 1": 2.0,
    }


def test_a_limit_is_reached_if_all_ranks_have_reached_it() -> None:
    both = rank([1.0], 1.0, Facts(reached_limit=True, exact=True, copied=("table",)))
    one = rank([1.0], 1.0, Facts(cut_off=True, copied=("table", "other")))
    assert run_of_ranks([both, both]).facts.reached_limit
    facts = run_of_ranks([both, one]).facts
    assert facts.copied == ("table", "other")
    assert not facts.reached_limit and facts.exact and facts.cut_off
