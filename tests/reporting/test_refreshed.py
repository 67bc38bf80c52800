"""Counts of several ops, sessions and servers add up to those of a graph."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.reporting.refreshed import (
    TableRefresh,
    note_refreshed,
    refreshed_of,
    refreshed_text,
)

USERS = ["users", ""]


def test_counts_of_sessions_are_added_up() -> None:
    graph = tf.Graph()
    note_refreshed(graph, USERS, [[2, 1, 30, 3, 20, 2], [9] * 6], made=1)
    note_refreshed(graph, USERS, [[1, 0, 10, 1, 5, 1], [9] * 6], made=2)
    assert refreshed_of(graph) == (TableRefresh("users", 3, 1, 40, 4, 25, 3),)
    # The latest count of an op is that of all its steps.
    note_refreshed(graph, USERS, [[4, 1, 50, 3, 30, 2], [9] * 6], made=1)
    note_refreshed(graph, USERS, [[3, 1, 40, 3, 25, 2], [9] * 6], made=1)
    assert refreshed_of(graph) == (TableRefresh("users", 5, 1, 60, 4, 35, 3),)
    assert refreshed_of(tf.Graph()) == ()


def test_what_a_worker_has_counted_before_is_another_graphs() -> None:
    graph = tf.Graph()
    before = [[7, 7, 0, 0, 0, 0], [0] * 6]
    note_refreshed(graph, USERS, before, made=1, begins=True)
    assert refreshed_of(graph) == ()
    after = [[9, 8, 4, 2, 2, 2], [0] * 6]
    note_refreshed(graph, USERS, after, made=1)
    # A session that is made on recovery does not begin anew.
    note_refreshed(graph, USERS, after, made=1, begins=True)
    assert refreshed_of(graph) == (TableRefresh("users", 2, 1, 4, 2, 2, 2),)


def test_text_tells_shares() -> None:
    text = refreshed_text(
        [TableRefresh("items", 8, 8), TableRefresh("users", 8, 2, 1000, 15, 200, 14)]
    )
    assert text.splitlines() == [
        "rows refreshed  steps  in main  ids ahead  changed  bags  again",
        "items               8  100.0%           0  -           0  -",
        "users               8  25.0%         1000  1.5%      200  7.0%",
    ]
    assert refreshed_text([]) == ""
