"""Ids that a file of examples has for the lookups of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import pytest

from graph_opt.compat import tf
from graph_opt.cost.sampled_ids import sampled_ids

BATCH = 4


def graph_of(*features: str) -> Any:
    """A graph whose lookups take these features, each of a table of its own."""
    spec = {name: tf.VarLenFeature(tf.int64) for name in features}
    parsed = tf.parse_example(tf.placeholder(tf.string, [None]), spec)
    for name in features:
        table = tf.get_variable("table_" + name, [100, 4])
        tf.nn.embedding_lookup_sparse(table, parsed[name], None, combiner="sum")
    return tf.get_default_graph().as_graph_def(add_shapes=True)


def examples(path: Path, rows: List[List[int]], packed: bool = False) -> str:
    options = tf.io.TFRecordOptions(compression_type="GZIP") if packed else None
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for ids in rows:
            example = tf.train.Example()
            example.features.feature["C1"].int64_list.value.extend(ids)
            writer.write(example.SerializeToString())
    return str(path)


@pytest.mark.parametrize("packed", [False, True])
def test_ids_and_different_ones_are_counted_by_batch(tmp_path: Path, packed: bool) -> None:
    rows = [[1, 2], [1], [], [2]] * 2
    path = examples(tmp_path / ("part.gz" if packed else "part"), rows, packed)
    found = sampled_ids(graph_of("C1", "C2"), path, BATCH)
    assert [one.number for one in found.ids_per_row] == [1.0]
    assert [one.number for one in found.distinct_share] == [0.5]
    assert found.ids_per_row[0].fits("table_C1")
    assert not found.ids_per_row[0].fits("table_C10")
    assert found.notes[0] == "ids are those of 8 examples of {}".format(path)
    assert "table_C2" in found.notes[1]


def test_a_sample_without_features_of_lookups_is_an_error(tmp_path: Path) -> None:
    path = examples(tmp_path / "part", [[1]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="say --ids-per-row"):
        sampled_ids(graph_of("C2"), path, BATCH)


def test_files_that_are_no_samples_are_errors(tmp_path: Path) -> None:
    graph_def = graph_of("C1")
    with pytest.raises(tf.errors.NotFoundError):
        sampled_ids(graph_def, str(tmp_path / "none"), BATCH)
    text = tmp_path / "text"
    text.write_text("no records, but longer than the header of one\n")
    with pytest.raises(tf.errors.DataLossError):
        sampled_ids(graph_def, str(text), BATCH)
    with tf.io.TFRecordWriter(str(tmp_path / "raw")) as writer:
        writer.write(b"\xff\xff\xff")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"no tf\.train\.Example"):
        sampled_ids(graph_def, str(tmp_path / "raw"), BATCH)
