"""Inputs of which each step chooses one, by the handle that it is fed: a stage for each."""

from __future__ import annotations

from typing import Any, List

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.passes.prefetch.choices import fed_iterators
from tests.passes import models
from tests.passes.drawings import lines
from tests.passes.one_pass import ran_pass
from tests.passes.prefetch.stage_drawings import stage_drawn


def chosen(*datasets: Any) -> Any:
    """Ids of an iterator whose handle is fed; there is one for each dataset."""
    for dataset in datasets:
        tf.data.make_initializable_iterator(dataset).string_handle()
    handle = tf.placeholder(tf.string, [])
    return tf.data.Iterator.from_string_handle(handle, tf.int64, [None]).get_next()


def ids() -> Any:
    return tf.data.Dataset.range(9).batch(3)


def names() -> List[str]:
    """The iterators that a step may choose, of each choice."""
    view = GraphView(tf.get_default_graph().as_graph_def(add_shapes=True))
    found = fed_iterators(view)
    return [
        " ".join(choice.name_of(number) for number in range(choice.count))
        for choice in found.values()
    ]


def test_each_input_has_a_stage_and_main_takes_from_one() -> None:
    rows = tf.nn.embedding_lookup(models.table(), chosen(ids(), ids()))
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(rows))
    passed = ran_pass("async_embedding", models.config())
    wanted = ("+ A/Put", "+ B/Put", "+ A/Take", "+ B/Take", "+ A/choice/Merge", "+ A/choice/Ident")
    assert [line for line in stage_drawn(passed) if line.startswith(wanted)] == lines("""
        + A/Put = Put(io/Take, A/emb/Identity)
        + A/Take = Take(^A/choice/Identity_0)
        + A/choice/Identity_0 = Identity(A/choice/Switch_0:1)
        + A/choice/Identity_1 = Identity(A/choice/Switch_1:1)
        + A/choice/Merge_0 = Merge(A/Take, B/Take)
        + A/choice/Merge_1 = Merge(A/Take:1, B/Take:1)
        + B/Put = Put(io1/Take, B/emb/Identity)
        + B/Take = Take(^A/choice/Identity_1)
    """)
    assert passed.name_map.taken["IteratorGetNext:0"] == "async_embedding/choice/Merge_0:0"
    assert len(passed.report.stages) == 2


def test_only_iterators_of_the_same_types_and_shapes_are_chosen_from() -> None:
    other = tf.data.Dataset.from_tensor_slices([1.0]).batch(1)
    chosen(ids(), other)
    assert names() == ["IteratorV2"]


def test_an_iterator_of_its_own_is_no_choice() -> None:
    tf.data.make_one_shot_iterator(ids()).get_next()
    assert names() == []
