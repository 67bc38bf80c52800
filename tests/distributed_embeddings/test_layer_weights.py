"""Whole tables in and out of the parts that ranks have, for every way to divide them."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any, Callable, List, Optional

import numpy as np
import pytest
from tensorflow.python.eager import context

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import ResourceVariable
from graph_opt.distributed_embeddings.layer_weights import LayerWeights
from graph_opt.distributed_embeddings.placed_tables import PlacedColumns, PlacedTable
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.placement import DivRows, ModRows, ReplicatedRows, RowsOnRank, RowsRule
from graph_opt.sharding.transport import OneRank, Transport
from tests.quick_cases import slow_but

SHAPES = ((11, 4), (7, 5), (9, 4), (5, 3), (8, 2))


class Tables(LayerWeights):
    """Rows, columns, one rank, every rank, and rows by remainder; two tables share a variable."""

    def __init__(self, transport: Transport, is_built: bool = True) -> None:
        self.transport = transport
        self._is_built = is_built
        size = transport.size
        self.merged = self._variable([DivRows(11, size), RowsOnRank(9, size, size - 1)], 4)
        first = DivRows(11, size).num_local_rows(transport.rank)
        self._parts = [
            [PlacedColumns(DivRows(11, size), 0, 4, self.merged, 0)],
            [
                self._part(RowsOnRank(7, size, 0), 0, 2),
                self._part(RowsOnRank(7, size, size - 1), 2, 3),
            ],
            [PlacedColumns(RowsOnRank(9, size, size - 1), 0, 4, self.merged, first)],
            [self._part(ReplicatedRows(5, size), 0, 3)],
            [self._part(ModRows(8, size), 0, 2)],
        ]

    def placed_tables(self) -> List[PlacedTable]:
        if not self._is_built:
            raise ValueError("build the layer first")
        return [
            PlacedTable("table_{}".format(place), shape, tf.float32, parts)
            for place, (shape, parts) in enumerate(zip(SHAPES, self._parts))
        ]

    def _variable(self, rules: List[RowsRule], width: int) -> Any:
        rows = sum(rule.num_local_rows(self.transport.rank) for rule in rules)
        return ResourceVariable(tf.zeros([rows, width])) if rows else None

    def _part(self, rule: RowsRule, first_column: int, width: int) -> PlacedColumns:
        return PlacedColumns(rule, first_column, width, self._variable([rule], width), 0)


def tables(seed: int = 0) -> List[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.normal(size=shape).astype(np.float32) for shape in SHAPES]


def in_session(work: Callable[[Tables, Any], Any], transport: Transport) -> Any:
    with tf.Graph().as_default():
        layer = Tables(transport)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            return work(layer, session)


def eagerly(work: Callable[[Tables, Any], Any], transport: Transport) -> Any:
    with context.eager_mode():
        return work(Tables(transport), None)


def assert_tables(found: List[np.ndarray], expected: List[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("run", [in_session, eagerly])
@pytest.mark.parametrize(
    "num_ranks, chunk",
    slow_but(product([1, 2, 3], [1, 9, 1 << 27]), (1, 9), (2, 1 << 27), (3, 9)),
)
def test_tables_come_back_as_they_were_set(num_ranks: int, chunk: int, run: Any) -> None:
    def work(layer: Tables, session: Any) -> Any:
        layer.set_weights(tables(), chunk=chunk, use_lock=chunk == 9, session=session)
        return [layer.get_weights(all_ranks, session, chunk=chunk) for all_ranks in (False, True)]

    results = run_ranks(num_ranks, lambda transport: run(work, transport))
    for rank, (of_rank_0, of_all) in enumerate(results):
        assert_tables(of_all, tables())
        assert_tables(of_rank_0, tables() if rank == 0 else [])


@pytest.mark.parametrize("run", [in_session, eagerly])
def test_files_are_written_and_read_on_another_number_of_ranks(run: Any, tmp_path: Path) -> None:
    paths = [tmp_path / "{}.npy".format(place) for place in range(len(SHAPES))]

    def write(layer: Tables, session: Any) -> int:
        layer.set_weights(tables(), session=session)
        return len(layer.get_weights(session=session, paths=paths, chunk=6))

    def read(layer: Tables, session: Any) -> Any:
        layer.set_weights([str(path) for path in paths], chunk=6, session=session)
        return layer.get_weights(session=session)

    assert run_ranks(3, lambda transport: run(write, transport)) == [len(SHAPES), 0, 0]
    assert_tables([np.load(path) for path in paths], tables())
    assert sorted(tmp_path.iterdir()) == paths  # no unfinished ones
    assert_tables(run_ranks(2, lambda transport: run(read, transport))[0], tables())


@pytest.mark.parametrize("chunk", [5, 1 << 27])
def test_an_op_of_the_graph_writes_what_files_hold_when_it_runs(chunk: int, tmp_path: Path) -> None:
    paths = [tmp_path / "{}.npy".format(place) for place in range(len(SHAPES))]

    def work(transport: Transport) -> Any:
        with tf.Graph().as_default() as graph:
            layer = Tables(transport)
            load = layer.assign_ops(paths, chunk)
            assert isinstance(load, tf.Operation)
            initialize = tf.global_variables_initializer()
            graph.finalize()
            with tf.Session() as session:
                session.run(initialize)
                session.run(load)
                return layer.get_weights(True, session)

    for path, table in zip(paths, tables()):
        np.save(path, table)
    for found in run_ranks(2, work):
        assert_tables(found, tables())


def wrong(place: int, weight: Any) -> List[Any]:
    weights: List[Any] = tables()
    return weights[:place] + [weight] + weights[place + 1 :]


@pytest.mark.parametrize(
    "weights, message",
    [
        (tables()[:4], "got weights of 4 tables; the layer has 5"),
        (wrong(1, np.zeros([7, 6])), r"shape \[7, 6\]; table 'table_1' needs \[7, 5\]"),
        (wrong(2, np.zeros([9, 4], complex)), "dtype complex128; table 'table_2' needs float32"),
        ("tables.npy", "must be a list of arrays or paths"),
    ],
)
def test_weights_that_do_not_fit_change_nothing(weights: Any, message: str) -> None:
    with context.eager_mode():
        layer = Tables(OneRank())
        layer.set_weights(tables(1))
        with pytest.raises(ValueError, match=message):
            layer.set_weights(weights)
        assert_tables(layer.get_weights(), tables(1))


def test_files_that_cannot_be_read_and_layers_that_are_not_built(tmp_path: Path) -> None:
    (tmp_path / "text.npy").write_text("no array")
    with context.eager_mode():
        layer = Tables(OneRank())
        with pytest.raises(FileNotFoundError, match=r"absent\.npy"):
            layer.set_weights(wrong(0, tmp_path / "absent.npy"))
        with pytest.raises(ValueError, match=r"text\.npy is no \.npy file"):
            layer.set_weights(wrong(0, tmp_path / "text.npy"))
        (tmp_path / "header.npy").write_bytes(b"\x93NUMPY\x01\x00\x05\x00{'a'(")
        with pytest.raises(ValueError, match=r"header\.npy is no \.npy file"):
            layer.set_weights(wrong(0, tmp_path / "header.npy"))
        with pytest.raises(ValueError, match="one file for each of the 5 tables"):
            layer.get_weights(paths=[tmp_path / "one.npy"])
        with pytest.raises(ValueError, match="chunk is 0"):
            layer.get_weights(chunk=0)
        with pytest.raises(RuntimeError, match="eagerly, call set_weights"):
            layer.assign_ops(tables())
        with pytest.raises(ValueError, match="build the layer first"):
            Tables(OneRank(), is_built=False).get_weights()


def test_a_rank_that_lacks_a_file_fails_all_and_changes_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "0_0.npy", tables()[0])

    def work(transport: Transport) -> Optional[str]:
        with context.eager_mode():
            layer = Tables(transport)
            layer.set_weights(tables(1))
            error = None
            try:
                layer.set_weights(wrong(0, tmp_path / "0_{}.npy".format(transport.rank)))
            except (OSError, RuntimeError) as raised:
                error = str(raised)
            assert_tables(layer.get_weights(all_ranks=True), tables(1))
            return error

    first, second = run_ranks(2, work)
    assert first is not None and "rank 1 failed: FileNotFoundError" in first
    assert second is not None and "0_1.npy" in second


def test_a_file_that_cannot_be_finished_leaves_the_earlier_one(tmp_path: Path) -> None:
    paths = [tmp_path / "{}.npy".format(place) for place in range(len(SHAPES))]
    with context.eager_mode():
        layer = Tables(OneRank())
        layer.set_weights(tables(1))
        layer.get_weights(paths=paths)
        with pytest.raises(OSError):
            layer.get_weights(paths=[*paths[:-1], tmp_path / "absent" / "4.npy"])
    assert_tables([np.load(path) for path in paths], tables(1))
    assert sorted(tmp_path.iterdir()) == paths


@pytest.mark.slow
def test_four_gibibytes_pass_through_little_memory(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.distributed_embeddings.large_table", str(tmp_path)]
    ran = subprocess.run(program, stdout=subprocess.PIPE, text=True, timeout=500, check=True)
    figures = json.loads(ran.stdout.splitlines()[-1])
    assert figures["table_bytes"] == 4 << 30 and figures["is_equal"]
    assert figures["set_extra_bytes"] < 512 << 20
    assert figures["get_extra_bytes"] < 512 << 20
