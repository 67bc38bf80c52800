"""Table files: what is written is read again, and damage is found."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Tuple

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.table_files.mapped_files import (
    MappedTable,
    TableHead,
    write_mapped_rows,
    write_mapped_table,
)
from tests.example_share import example_share

DTYPES = (tf.float32, tf.float16, tf.bfloat16, tf.int8, tf.int64)


def values_of(dtype: Any, shape: Tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype.as_numpy_dtype)


@example_share(0.3)
@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(1, 6), max_size=3),
    name=st.text(max_size=20),
    data=st.data(),
)
def test_rows_are_read_as_they_were_written(
    dtype: Any, shape: Any, name: str, data: st.DataObject, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    head = TableHead(name, dtype, tuple(shape))
    values = values_of(dtype, head.shape).reshape(head.num_rows, *head.row_shape)
    cut = data.draw(st.integers(0, head.num_rows))
    write_mapped_table(str(folder / "all"), head, [values[:cut], values[cut:]])
    numbers = np.array(sorted(data.draw(st.sets(st.integers(0, head.num_rows - 1)))), np.int64)
    write_mapped_rows(str(folder / "some"), head, numbers, [values[numbers]])
    every, some = MappedTable(str(folder / "all")), MappedTable(str(folder / "some"))
    assert every.head == some.head == head and every.has_all_rows and not some.has_all_rows
    np.testing.assert_array_equal(every.rows(cut, head.num_rows - cut), values[cut:])
    np.testing.assert_array_equal(some.numbers, numbers)
    np.testing.assert_array_equal(some.rows(0, len(numbers)), values[numbers])
    for one in (every, some):
        one.check()


def test_rows_begin_on_a_page_and_have_the_size_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "table"
    head = TableHead("a/b", tf.float32, (3, 4))
    write_mapped_table(str(path), head, [values_of(tf.float32, (3, 4))])
    data = path.read_bytes()
    assert len(data) == 4096 + 48 and data[:8] == b"GOTABLE\n"
    np.testing.assert_array_equal(np.frombuffer(data[4096:], "<f4"), np.arange(12))


def test_too_few_rows_are_no_table(tmp_path: Path) -> None:
    head = TableHead("a", tf.float32, (3, 4))
    with pytest.raises(ValueError, match="'a' has 32 bytes of rows, not 48"):
        write_mapped_table(str(tmp_path / "t"), head, [np.zeros([2, 4], np.float32)])
    with pytest.raises(ValueError, match="names of 3956 bytes"):
        named = head._replace(name="x" * 4000)
        write_mapped_table(str(tmp_path / "u"), named, [np.zeros([3, 4], np.float32)])


@pytest.mark.parametrize(
    "at, number, message",
    [
        (8, 2, "has version 2"),
        (16, 99, "numbers of no type"),
        (16, 7, "which are no numbers"),
        (20, 9, "has 9 dimensions"),
        (24, 4, "cannot be so large"),
        (88, 0, "cannot be so large"),
        (104, 4, "cannot be so large"),
    ],
)
def test_wrong_numbers_are_told(at: int, number: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    head = TableHead("a", tf.float32, (3, 4))
    write_mapped_table(str(path), head, [np.zeros([3, 4], np.float32)])
    data = path.read_bytes()
    page = data[:at] + struct.pack("<I", number) + data[at + 4 : 4092]
    path.write_bytes(page + struct.pack("<I", google_crc32c.value(page)) + data[4096:])
    with pytest.raises(ValueError, match=message):
        MappedTable(str(path))


def test_damaged_rows_are_found(tmp_path: Path) -> None:
    path = tmp_path / "table"
    head = TableHead("a", tf.float32, (3, 4))
    write_mapped_table(str(path), head, [np.zeros([3, 4], np.float32)])
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"\1")
    with pytest.raises(ValueError, match="the rows of 'a' are not those of its checksum"):
        MappedTable(str(path)).check()
    path.write_bytes(data[:-1])
    with pytest.raises(ValueError, match="does not end where the rows of 'a' do"):
        MappedTable(str(path))
    path.write_bytes(data[:100])
    with pytest.raises(ValueError, match="has 100 bytes, and so no table"):
        MappedTable(str(path))
