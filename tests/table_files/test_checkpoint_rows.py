"""Rows read from where a checkpoint has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.table_files.checkpoint_rows import CheckpointRows
from tests.quick_cases import slow_but

PARTITIONERS = {
    "whole": None,
    "rows": tf.fixed_size_partitioner(7),
    "many": tf.fixed_size_partitioner(70),
    "columns": tf.fixed_size_partitioner(3, axis=1),
}


@pytest.mark.parametrize("sharded", slow_but([False, True], True))
def test_rows_are_those_that_tensorflow_has_saved(sharded: bool, tmp_path: Path) -> None:
    values = {
        name: tf.get_variable("a/" + name, [8200, 5], partitioner=partitioner)
        for name, partitioner in PARTITIONERS.items()
    }
    half = tf.get_variable("half", [9, 2], tf.bfloat16, tf.random_uniform_initializer())
    tf.get_variable("text", initializer=tf.constant(["a", "b"]))
    tf.get_variable("number", initializer=tf.constant(7.5))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver(sharded=sharded).save(session, str(tmp_path / "model"))
        expected = session.run({name: tf.convert_to_tensor(one) for name, one in values.items()})
        halves = session.run(half)
    rows = CheckpointRows(prefix)
    for name, value in expected.items():
        rows.check("a/" + name)
        for first, count in ((0, 8200), (0, 1), (1170, 1200), (8199, 1), (5, 0)):
            found = rows.rows("a/" + name, first, count)
            np.testing.assert_array_equal(found, value[first : first + count])
    np.testing.assert_array_equal(rows.rows("half", 2, 5), halves[2:7])
    assert rows.number("number") == 7.5
    assert rows.tensors["text"].shape == (2,)


def test_damage_is_found(tmp_path: Path) -> None:
    tf.get_variable("table", [100, 5])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
    data = Path(prefix + ".data-00000-of-00001")
    content = bytearray(data.read_bytes())
    content[1234] ^= 1
    data.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="'table' is not what"):
        CheckpointRows(prefix).check("table")
    data.write_bytes(bytes(content[:1000]))
    with pytest.raises(ValueError, match="ends before"):
        CheckpointRows(prefix).rows("table", 40, 60)
    index = Path(prefix + ".index")
    for damaged in (b"", b"text", index.read_bytes()[:-60]):
        index.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"model\.index"):
            CheckpointRows(prefix)


def test_no_changed_bit_of_an_index_changes_or_hides_a_tensor(tmp_path: Path) -> None:
    tf.get_variable("table", [100, 5], partitioner=tf.fixed_size_partitioner(2))
    tf.get_variable("table/Adam", [100, 5])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
    index = Path(prefix + ".index")
    whole, expected = index.read_bytes(), CheckpointRows(prefix).tensors
    found = 0
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        index.write_bytes(bytes(changed))
        try:
            assert CheckpointRows(prefix).tensors == expected
        except ValueError as error:
            assert str(index) in str(error)
            found += 1
    assert found > 4 * len(whole)  # The rest is padding, and what says where nothing is.
