"""What pulls the batches of a step: one after the other in it, or ahead of it as one record."""

from __future__ import annotations

from typing import Any, List

import pytest

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import TensorRef
from graph_opt.passes.summed_batches.pulls import Pulled, pull
from tests.passes.drawings import Change, lines, view_of
from tests.passes.one_pass import options_of
from tests.passes.pass_models import smart
from tests.passes.summed_batches.batch_models import config

GRAPH = """
    iterator = OneShotIterator()
    source = IteratorGetNext(iterator) output_types=[float32, int64] output_shapes=[(2, 3), (2,)]
    layer = Tanh(source) T=float32
    behind = NoOp(^source)
"""


def pulled(text: str, number: int, made: Any) -> Pulled:
    return pull(view_of(text), ["source"], number, options_of(made), "S")


def drawn(text: str, found: Pulled) -> List[str]:
    rewrite = found.edits.rewrite(found.nodes)
    return Change.by(view_of(text), rewrite).drawn({"S_io/": "io/", "S/": ""})


def test_a_step_pulls_its_batches_in_order() -> None:
    found = pulled(GRAPH, 3, config(3))
    assert drawn(GRAPH, found) == lines(
        """
        + 1/source = IteratorGetNext(iterator, ^source)
        + 2/source = IteratorGetNext(iterator, ^S/1/source)
    """.replace("^S/", "^")
    )
    assert [batch[TensorRef("source", 1)] for batch in found.batches] == [
        "S/1/source:1",
        "S/2/source:1",
    ]
    assert found.substitutes == {}


@pytest.mark.parametrize("made", [config(2, ahead=True), smart()])
def test_what_runs_ahead_pulls_all_batches_of_a_step_as_one_record(made: Any) -> None:
    found = pulled(GRAPH, 2, made)
    stage = [line for line in drawn(GRAPH, found) if "Placeholder" not in line]
    assert stage[:10] == lines("""
        - source = IteratorGetNext(iterator)
        + source = IteratorGetNext(io/fetch_guard/handle_0, ^io/fetch_guard)
        - layer = Tanh(source)
        + layer = Tanh(io/TensorBufferTake)
        - behind = NoOp(^source)
        + behind = NoOp(^io/TensorBufferTake)
        + io/0/source = IteratorGetNext(iterator)
        + io/1/source = IteratorGetNext(iterator, ^io/0/source)
        + io/TensorBufferPut = TensorBufferPut(io/0/source, io/0/source:1, io/1/source, \
          io/1/source:1)
        + io/TensorBufferTake = TensorBufferTake()
    """)
    take = "S_io/TensorBufferTake"
    assert found.substitutes == {"source:0": take + ":0", "source:1": take + ":1"}
    assert found.batches == [
        {TensorRef("source", 0): take + ":2", TensorRef("source", 1): take + ":3"}
    ]


def test_a_stage_of_the_script_is_collected_in_another() -> None:
    staged = GRAPH.replace("iterator = OneShotIterator()\n", "").replace(
        "IteratorGetNext(iterator) output_types=[float32, int64] output_shapes",
        'TensorBufferTake() dtypes=[float32, int64] shared_name="user" shapes',
    )
    made = config(2, ahead=True)
    made.graph_options.optimizer_options.async_embedding_options.infer_io_stage = False
    found = pulled(staged, 2, made)
    assert len(found.batches) == 1 and found.substitutes
    assert not pulled(GRAPH, 2, made).substitutes


@pytest.mark.parametrize(
    "text, saw",
    [
        (
            """
            handle = Placeholder() dtype=string
            iterator = IteratorFromStringHandleV2(handle) output_types=[float32]
            first = OneShotIterator() output_types=[float32] output_shapes=[(2, 3)]
            other = IteratorV2() output_types=[float32] output_shapes=[(2, 3)]
            source = IteratorGetNext(iterator) output_types=[float32] output_shapes=[(2, 3)]
            """,
            "one that each step chooses",
        ),
        (
            """
            flag = Placeholder() dtype=bool
            iterator = OneShotIterator()
            switch = Switch(iterator, flag) T=resource
            source = IteratorGetNext(switch) output_types=[float32] output_shapes=[(2, 3)]
            """,
            "one that each step chooses",
        ),
        (
            """
            iterator = OneShotIterator()
            source = IteratorGetNext(iterator) output_types=[resource] output_shapes=[()]
            """,
            "a handle in its batches",
        ),
    ],
)
def test_inputs_that_cannot_be_read_ahead(text: str, saw: str) -> None:
    with pytest.raises(Refusal) as refused:
        pulled(text, 2, config(2, ahead=True))
    found = refused.value
    assert (found.code, found.node, found.saw) == ("no_source_to_pull", "source", saw)
    assert len(pulled(text, 2, config(2)).nodes) == 1
