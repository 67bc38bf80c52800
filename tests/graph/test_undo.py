"""Rewrites are undone, even if nodes were added in the meantime."""

from __future__ import annotations

from typing import Any, List, Sequence

import pytest

from graph_opt.compat import tf
from graph_opt.graph.rewrite import (
    AttributeEdit,
    ControlEdit,
    InputEdit,
    Rewrite,
    apply_to_graph_def,
)
from graph_opt.graph.undo import undo_of


def graph_of(*nodes: str) -> Any:
    """A GraphDef of `name: input input` lines."""
    graph_def = tf.GraphDef()
    graph_def.node.extend(node_of(text) for text in nodes)
    return graph_def


def node_of(text: str) -> Any:
    name, _, inputs = text.partition(" <- ")
    return tf.NodeDef(name=name, op="Any", input=inputs.split())


def texts_of(graph_def: Any) -> List[str]:
    return [" <- ".join([node.name, " ".join(node.input)]) if node.input else node.name
            for node in graph_def.node]  # fmt: skip


BUILT = ("source", "lookup <- source", "dense <- lookup:1 ^source", "loss <- dense ^lookup")
FUSED = Rewrite(
    (node_of("fused <- source"),),
    (InputEdit("dense", 0, "fused:2"),),
    (ControlEdit("loss", ("lookup",), ("fused",)),),
)
MOVED = Rewrite(
    (node_of("clone <- source"), node_of("take")),
    (InputEdit("dense", 0, "take"), InputEdit("fused", 0, "take:1")),
    (ControlEdit("dense", ("source", "absent"), ("take",)), ControlEdit("source", (), ("clone",))),
)


def rewritten(rewrites: Sequence[Rewrite]) -> Any:
    graph_def = graph_of(*BUILT)
    for rewrite in rewrites:
        graph_def = apply_to_graph_def(graph_def, rewrite)
    return graph_def


@pytest.mark.parametrize("rewrites", [(), (FUSED,), (FUSED, MOVED), (Rewrite(),)])
def test_the_original_graph_comes_back(rewrites: Sequence[Rewrite]) -> None:
    graph_def = rewritten(rewrites)
    assert undo_of(graph_of(*BUILT), rewrites).apply(graph_def) == frozenset()
    assert texts_of(graph_def) == list(BUILT)


def test_readers_added_since_are_redirected_through_all_rewrites() -> None:
    graph_def = rewritten((FUSED, MOVED))
    graph_def.node.extend([node_of("later <- take fused:2 take:1 ^fused ^take")])
    undo_of(graph_of(*BUILT), (FUSED, MOVED)).apply(graph_def)
    assert texts_of(graph_def)[:-1] == list(BUILT)
    assert texts_of(graph_def)[-1] == "later <- lookup:1 lookup:1 source ^lookup ^source"


def test_edges_that_the_user_moved_since_stay() -> None:
    graph_def = rewritten((FUSED,))
    graph_def.node[2].input[0] = "source"
    undo_of(graph_of(*BUILT), (FUSED,)).apply(graph_def)
    assert texts_of(graph_def)[2] == "dense <- source ^source"


def test_nodes_that_are_read_and_replace_nothing_stay_with_their_inputs() -> None:
    graph_def = rewritten((FUSED, MOVED))
    graph_def.node.extend([node_of("later <- clone")])
    assert undo_of(graph_of(*BUILT), (FUSED, MOVED)).apply(graph_def) == {"clone"}
    assert texts_of(graph_def) == [*BUILT, "clone <- source", "later <- clone"]


def test_colocation_with_removed_nodes_is_dropped() -> None:
    graph_def = rewritten((FUSED,))
    later = node_of("later")
    later.attr["_class"].list.s.extend([b"loc:@fused", b"loc:@dense"])
    graph_def.node.extend([later])
    undo_of(graph_of(*BUILT), (FUSED,)).apply(graph_def)
    assert list(graph_def.node[-1].attr["_class"].list.s) == [b"loc:@dense"]


def test_attributes_are_set_and_set_back() -> None:
    before = graph_of(*BUILT)
    before.node[0].attr["shape"].i = 8
    edits = [AttributeEdit("source", "shape", tf.AttrValue(i=number)) for number in (4, 2)]
    rewrites = [Rewrite(attributes=(edit,)) for edit in edits]
    graph_def = apply_to_graph_def(before, *rewrites)
    assert graph_def.node[0].attr["shape"].i == 2 and before.node[0].attr["shape"].i == 8
    undo_of(before, rewrites).apply(graph_def)
    assert graph_def == before
