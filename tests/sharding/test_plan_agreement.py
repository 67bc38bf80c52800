"""Ranks that compare what they are about to exchange, at moments that are hard to hit."""

from __future__ import annotations

import threading

import pytest

from graph_opt.sharding.plan_agreement import PlanAgreement
from graph_opt.sharding.store import InProcessStore

PLAN = b"the same"
TIMEOUT = 60


class IsElsewhereError(Exception):
    """What `check` raises for a rank that is in a step."""


def is_elsewhere() -> None:
    raise IsElsewhereError


def test_a_rank_that_agrees_and_goes_on_before_the_check_is_in_the_same_step() -> None:
    store = InProcessStore()
    first, second = (PlanAgreement(store, rank, size=2) for rank in range(2))

    def first_agrees_then_is_elsewhere() -> None:
        agreeing = threading.Thread(target=lambda: first.agree(PLAN, is_elsewhere, TIMEOUT))
        agreeing.start()
        agreeing.join(TIMEOUT)
        is_elsewhere()

    second.agree(PLAN, first_agrees_then_is_elsewhere, TIMEOUT)


def test_the_check_ends_the_wait_for_a_rank_that_leaves_nothing() -> None:
    plans = PlanAgreement(InProcessStore(), rank=1, size=2)
    with pytest.raises(IsElsewhereError):
        plans.agree(PLAN, is_elsewhere, TIMEOUT)
