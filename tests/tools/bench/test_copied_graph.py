"""Generated graphs are valid, of the size asked for, and full of lookups that can move."""

from __future__ import annotations

import pytest

import graph_opt
from graph_opt.compat import tf
from tools.bench.copied_graph import Block, copied_graph, copies_for, lookup_block
from tools.bench.training.sessions import ASYNC, session_config


@pytest.fixture(scope="module")
def block() -> Block:
    return lookup_block()


@pytest.mark.parametrize("nodes", [1000, 3000])
def test_a_generated_graph_has_the_nodes_asked_for(block: Block, nodes: int) -> None:
    graph_def = copied_graph(block, nodes)
    names = [node.name for node in graph_def.node]
    assert len(set(names)) == len(names) == nodes


def test_tensorflow_accepts_a_generated_graph(block: Block) -> None:
    graph_def = copied_graph(block, 3000)
    tf.import_graph_def(graph_def, name="")
    assert len(tf.get_default_graph().get_operations()) == len(graph_def.node)


def test_every_lookup_of_every_block_moves(block: Block) -> None:
    optimized = graph_opt.optimize_graph_def(copied_graph(block, 3000), session_config(ASYNC))
    assert copies_for(block, 3000) > 1
    assert len(optimized.report.lookups) == copies_for(block, 3000) * block.lookups
    assert len(optimized.report.moved) == len(optimized.report.lookups)


def test_blocks_read_outputs_of_their_own(block: Block) -> None:
    graph_def = copied_graph(block, 3000)
    batches = {
        text
        for node in graph_def.node
        for text in node.input
        if text.partition(":")[0] == "IteratorGetNext"
    }
    assert len(batches) > block.outputs
