"""Refusals: how they read, and what they hold."""

from __future__ import annotations

from graph_opt.graph.refusal import Refusal


def test_a_refusal_says_what_was_needed_and_what_was_there() -> None:
    refusal = Refusal("placeholder_upstream", at="ids", need="a feed", saw="none")
    assert str(refusal) == "ids: placeholder_upstream: need a feed, saw none"
    assert refusal.to_dict() == {
        "code": "placeholder_upstream",
        "node": "ids",
        "need": "a feed",
        "saw": "none",
    }
