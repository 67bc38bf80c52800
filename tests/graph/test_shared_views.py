"""A command that looks at a graph in several places indexes it once."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.graph.shared_views import asked_once, view_of, views_shared
from graph_opt.graph.view import GraphView


def test_a_graph_has_one_view_inside_the_block_and_another_after_it() -> None:
    tf.constant(1, name="one")
    graph_def, other = (tf.get_default_graph().as_graph_def() for _ in range(2))
    with views_shared():
        view = view_of(graph_def)
        assert view_of(graph_def) is view
        assert view_of(other) is not view
    assert view_of(graph_def) is not view_of(graph_def) is not view


def test_what_is_asked_of_a_view_is_found_out_once_inside_the_block() -> None:
    asked = []

    @asked_once
    def size(view: GraphView) -> int:
        asked.append(view)
        return len(view)

    tf.constant(1, name="one")
    graph_def = tf.get_default_graph().as_graph_def()
    with views_shared():
        assert [size(view_of(graph_def)), size(view_of(graph_def))] == [1, 1]
        assert len(asked) == 1
    assert size(view_of(graph_def)) == 1 and len(asked) == 2
