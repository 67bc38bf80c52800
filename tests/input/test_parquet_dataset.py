"""`ParquetDataset` over real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.input.parquet_dataset import DataFrame, ParquetDataset, read_parquet
from graph_opt.input.work_queue import WorkQueue

arrow = pytest.importorskip("pyarrow")


def write(path: Path, first: int, rows: int, **more: Any) -> str:
    from pyarrow import parquet

    numbers = range(first, first + rows)
    columns = {
        "id": np.arange(first, first + rows),
        "share": np.arange(rows, dtype=np.float32),
        "name": ["n{}".format(one) for one in numbers],
        "tags": [[one] * (one % 3) for one in numbers],
        "nested": [[["a"] * (one % 2), ["b"]] for one in numbers],
        "when": arrow.array([0] * rows, arrow.timestamp("s")),
        **more,
    }
    parquet.write_table(arrow.table(columns), str(path), row_group_size=3)
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> List[str]:
    return [write(tmp_path / "a", 0, 8), write(tmp_path / "b", 100, 5)]


def batches(dataset: Any) -> List[Any]:
    iterator = tf.data.make_initializable_iterator(dataset)
    batch = iterator.get_next()
    found = []
    with tf.Session() as session:
        session.run(iterator.initializer)
        while True:
            try:
                found.append(session.run(batch))
            except tf.errors.OutOfRangeError:
                return found


def ids(dataset: Any) -> List[List[int]]:
    return [batch["id"].tolist() for batch in batches(dataset)]


def test_batches_end_with_their_file(files: List[str]) -> None:
    assert ids(ParquetDataset(files, 5, ["id"])) == [
        [0, 1, 2, 3, 4],
        [5, 6, 7],
        [100, 101, 102, 103, 104],
    ]
    assert len(ids(ParquetDataset(files, 5, ["id"], drop_remainder=True))) == 2
    names = tf.data.Dataset.from_tensor_slices(files)
    field = DataFrame.Field("id", tf.int64, 0)
    assert ids(names.apply(read_parquet(5, [field])))[1:] == [[5, 6, 7], [100, 101, 102, 103, 104]]
    parallel = ids(ParquetDataset(files, 8, ["id"], num_parallel_reads=2))
    assert sorted(parallel) == [list(range(8)), list(range(100, 105))]


def test_readers_share_row_groups(files: List[str]) -> None:
    parts = [ParquetDataset(files[0], 9, ["id"], 2, part) for part in range(2)]
    assert [ids(part) for part in parts] == [[[0, 1, 2, 6, 7]], [[3, 4, 5]]]


def test_columns_of_each_type(files: List[str]) -> None:
    dataset = ParquetDataset(files[0], 3, ["share", "name", "tags", "nested"])
    (first, *_) = batches(dataset)
    assert first["share"].tolist() == [0, 1, 2]
    assert first["name"].tolist() == [b"n0", b"n1", b"n2"]
    assert isinstance(first["tags"], DataFrame.Value)
    assert first["tags"].values.tolist() == [1, 2, 2]
    assert [one.tolist() for one in first["tags"].nested_row_splits] == [[0, 0, 1, 3]]
    assert [one.tolist() for one in first["nested"].nested_row_splits] == [
        [0, 2, 4, 6],
        [0, 0, 1, 2, 3, 3, 4],
    ]
    (first, *_) = batches(dataset.map(DataFrame.to_sparse))
    assert first["tags"].indices.tolist() == [[1, 0], [2, 0], [2, 1]]
    assert first["nested"].dense_shape.tolist() == [3, 2, 1]


def test_lists_of_one_length_are_matrices(tmp_path: Path) -> None:
    pairs = arrow.array([[1.0, 2.0], [3.0, 4.0]], arrow.list_(arrow.float32(), 2))
    name = write(tmp_path / "pairs", 0, 2, pair=pairs)
    (batch,) = batches(ParquetDataset(name, 4, [DataFrame.Field("pair", shape=[2])]))
    assert batch["pair"].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": ["other"]}, "no column 'other'; columns are id, share"),
        ({"fields": [DataFrame.Field("id", tf.float32)]}, "column 'id' has int64 in 0 levels"),
        ({}, "column 'when' is of type timestamp"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"partition_index": 2}, "partition_index is 2 of 1"),
        ({"filenames": []}, "filenames is empty"),
        ({"filenames": __file__}, "not a Parquet file"),
    ],
)
def test_what_cannot_be_read(files: List[str], options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ParquetDataset(**{"filenames": files, **options})


def test_names_that_are_not_known_need_fields(files: List[str]) -> None:
    with pytest.raises(ValueError, match="known only when the graph runs"):
        ParquetDataset(tf.constant(files), fields=["id"])
    with pytest.raises(tf.errors.NotFoundError, match="nothing: no such file"):
        ParquetDataset("nothing")
    ParquetDataset(WorkQueue(files).input_dataset(), fields=["id"])


def test_a_null_names_file_and_column(tmp_path: Path) -> None:
    name = write(tmp_path / "nulls", 0, 2, gap=[1, None])
    with pytest.raises(tf.errors.InvalidArgumentError, match="nulls: column 'gap' has a null"):
        batches(ParquetDataset(name, 4, ["gap"]))
