"""The features that a page names as the source of ids: through parsers, datasets and buffers."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.graph.view import GraphView
from graph_opt.report_page.id_sources import IdSources

SPEC = {
    "C1": tf.VarLenFeature(tf.int64),
    "C0": tf.VarLenFeature(tf.int64),
    "dense": tf.FixedLenFeature([1], tf.int64),
}


def in_graph() -> Any:
    return tf.parse_example(tf.placeholder(tf.string, [None], name="lines"), SPEC, name="parse")


def one_in_graph() -> Any:
    return tf.parse_single_example(tf.placeholder(tf.string, []), SPEC, name="parse")


def by_a_function() -> Any:
    dataset = tf.data.TFRecordDataset("records").batch(4)
    parsed = dataset.map(lambda lines: (tf.parse_example(lines, SPEC), tf.size(lines)))
    return tf.data.make_one_shot_iterator(parsed.prefetch(2)).get_next()[0]


def by_a_dataset() -> Any:
    dataset = tf.data.TFRecordDataset("records").batch(4)
    parsed = dataset.apply(tf.data.experimental.parse_example_dataset(SPEC))
    swapped = parsed.map(lambda features: (tf.size(features["dense"]), features)).repeat()
    return tf.data.make_initializable_iterator(swapped).get_next()[1]


def behind_a_stage() -> Any:
    return graph_opt.staged(by_a_function(), num_threads=1, capacity=2)


def looked_up(features: Dict[str, Any]) -> List[Dict[str, str]]:
    """What the page says of lookups of all features, in the graph as exported and as it runs."""
    for name, ids in features.items():
        table = tf.get_variable("table_" + name, [10, 4])
        if isinstance(ids, tf.SparseTensor):
            tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sum", name=name)
        else:
            tf.nn.embedding_lookup(table, ids, name=name)
    graph = tf.get_default_graph()
    exported, running = graph.as_graph_def(add_shapes=True), running_graph_def(graph)
    return [
        {name: found.text(name + ":0") for name in features}
        for found in (IdSources(GraphView(exported)), IdSources(GraphView(running)))
    ]


@pytest.mark.parametrize(
    "features", [in_graph, one_in_graph, by_a_function, by_a_dataset, behind_a_stage]
)
def test_ids_are_named_by_their_feature(features: Callable[[], Any]) -> None:
    for texts in looked_up(features()):
        assert {name: text.partition(" of ")[0] for name, text in texts.items()} == {
            "C0": '"C0"',
            "C1": '"C1"',
            "dense": '"dense"',
        }


def test_columns_of_lines_are_counted() -> None:
    dataset = tf.data.TextLineDataset("lines").map(lambda line: tf.io.decode_csv(line, [[0], [0]]))
    first, second = tf.data.make_one_shot_iterator(dataset.batch(2)).get_next()
    texts, _ = looked_up({"a": second, "b": first})
    assert texts == {
        "a": "column 1 of IteratorGetNext:1",
        "b": "column 0 of IteratorGetNext:0",
    }


def test_parsers_without_their_keys_are_no_error() -> None:
    graph_def = tf.GraphDef()
    graph_def.node.add(name="parse", op="ParseExampleV2")
    graph_def.node.add(name="next", op="IteratorGetNext")
    map_node = graph_def.node.add(name="map", op="MapDataset", input=["map"])
    map_node.attr["f"].func.name = "none"
    graph_def.node.add(name="make", op="MakeIterator", input=["map", "iterator"])
    graph_def.node.add(name="iterator", op="IteratorV2")
    graph_def.node.add(name="next_of_map", op="IteratorGetNext", input=["iterator"])
    graph_def.node.add(name="take", op="TensorBufferTake")
    graph_def.node.add(name="id", op="Identity", input=["parse:7", "next:3", "next_of_map", "take"])
    found = IdSources(GraphView(graph_def)).text("id:0")
    assert found == "parse:7  next:3  next_of_map:0  take:0"
