"""Tables in the files of SparseOperationKit 1, written and read by any number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from tensorflow.python.eager import context

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sok import saver as saver_module
from graph_opt.sok.communication import communicating_through
from tests.quick_cases import slow_but

WIDTH, ROWS = 3, 12
KEYS_FILE, VALUES_FILE = "EmbeddingVariable_keys.file", "EmbeddingVariable_values.file"


def values() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype(np.float32)


def layer_of(transport: Transport, **arguments: Any) -> Any:
    chosen = dict(dict(use_hashtable=False), **arguments)
    return sok.All2AllDenseEmbedding(ROWS // transport.size, WIDTH, 1, 1, **chosen)


def dump(transport: Transport, folder: Path, **arguments: Any) -> None:
    with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
        layer, saver = layer_of(transport, **arguments), sok.Saver()
        session.run(tf.global_variables_initializer())
        load = saver.load_embedding_values(layer.embedding_variable, [values()[:5], values()[5:]])
        written = saver.dump_to_file(layer.embedding_variable, str(folder))
        session.graph.finalize()
        assert session.run(load) == b"OK"
        for _ in range(2):
            assert session.run(written) == b"OK"
            assert (folder / VALUES_FILE).stat().st_size == values().nbytes


def restored(transport: Transport, folder: Path, **arguments: Any) -> np.ndarray:
    with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
        layer = layer_of(transport, embedding_initializer="zeros", **arguments)
        restore = sok.Saver().restore_from_file(layer.embedding_variable, str(folder))
        rows = layer(tf.reshape(tf.range(ROWS), [-1, 1, 1]))
        session.run(tf.global_variables_initializer())
        assert session.run(restore) == b"OK"
        found: np.ndarray = session.run(rows)
        return found.reshape(ROWS, WIDTH)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saver_module, "BLOCK_BYTES", 2 * 4 * WIDTH)


@pytest.mark.parametrize("key_dtype", ["int64", "uint32"])
@pytest.mark.parametrize("before, after", slow_but([(1, 3), (3, 2), (2, 1)], (3, 2)))
def test_files_fit_any_number_of_ranks(
    tmp_path: Path, small_blocks: None, before: int, after: int, key_dtype: str
) -> None:
    folder = tmp_path / "model" / "tables"
    run_ranks(before, lambda transport: dump(transport, folder, key_dtype=key_dtype))
    assert sorted(path.name for path in folder.iterdir()) == [KEYS_FILE, VALUES_FILE]
    keys = np.fromfile(folder / KEYS_FILE, key_dtype)
    rows = np.fromfile(folder / VALUES_FILE, np.float32).reshape(-1, WIDTH)
    np.testing.assert_array_equal(rows, values()[keys.astype(int)])
    assert sorted(keys) == list(range(ROWS))
    for found in run_ranks(after, lambda transport: restored(transport, folder)):
        np.testing.assert_array_equal(found, values())


def test_eagerly(tmp_path: Path, small_blocks: None) -> None:
    def check(transport: Transport) -> None:
        with communicating_through(transport), context.eager_mode():
            layer, saver = layer_of(transport), sok.Saver()
            table = layer.embedding_variable
            saver.load_embedding_values(table, values())
            name = table.m_var_name
            saver.dump_to_file(table, tmp_path)
            assert (tmp_path / (name + "_keys.file")).stat().st_size == 8 * ROWS
            table.assign(tf.zeros_like(table))
            saver.restore_from_file(table, tmp_path)
            keys = np.arange(transport.rank, ROWS, transport.size)
            np.testing.assert_array_equal(table.numpy(), values()[keys])

    run_ranks(2, check)


def shorter(folder: Path) -> None:
    (folder / VALUES_FILE).write_bytes(b"1234")


def foreign_key(folder: Path) -> None:
    np.arange(5, 5 + ROWS).tofile(folder / KEYS_FILE)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda folder: (folder / KEYS_FILE).unlink(), "there is no file .*" + KEYS_FILE),
        (shorter, "not the keys and rows of a table of width 3"),
        (foreign_key, KEYS_FILE + " has key 12, but the table has 12 rows"),
    ],
    ids=["missing", "shorter", "foreign key"],
)
def test_wrong_files_are_named(tmp_path: Path, change: Callable[[Path], Any], message: str) -> None:
    dump(OneRank(), tmp_path)
    change(tmp_path)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        restored(OneRank(), tmp_path)


def test_wrong_values_are_named_at_once() -> None:
    with communicating_through(OneRank()):
        table, saver = layer_of(OneRank()).embedding_variable, sok.Saver()
        with pytest.raises(ValueError, match="13 rows for table 'EmbeddingVariable', which has 12"):
            saver.load_embedding_values(table, np.zeros([13, WIDTH]))
        with pytest.raises(ValueError, match="of width 3"):
            saver.load_embedding_values(table, np.zeros([2, 4]))
        with pytest.raises(TypeError, match="the embedding_variable of a layer"):
            saver.dump_to_file(tf.Variable(0.0), "x")
