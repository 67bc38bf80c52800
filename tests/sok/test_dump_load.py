"""`sok.dump` and `sok.load`: SparseOperationKit's files, for any number of ranks."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import pytest
import tensorflow
from tensorflow.python.eager import context

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding import saving
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sok.communication import communicating_through
from graph_opt.table_files import sok_files
from tests.release_features import HAS_BUILT_OPTIMIZERS, keras_optimizers

VALUES = np.arange(22, dtype=np.float32).reshape(11, 2)
KERAS = tensorflow.keras.optimizers


def header(table: str, kind: int, dtype: int, slot: str = "") -> bytes:
    """As SparseOperationKit writes it."""
    return (
        table.rjust(256).encode()
        + struct.pack(">i", kind)
        + slot.rjust(32).encode()
        + struct.pack(">i", dtype)
    )


def write_table(
    folder: Path, table: str, keys: np.ndarray, files: Dict[str, Tuple[str, np.ndarray]]
) -> None:
    """A table as SparseOperationKit would have written it; files by suffix, with their slots."""
    folder.mkdir(exist_ok=True)
    (folder / (table + "-key")).write_bytes(header(table, 0, 1) + keys.astype(np.int64).tobytes())
    for suffix, (slot, rows) in files.items():
        kind = 2 if slot else 1
        data = header(table, kind, 5, slot) + rows.astype(np.float32).tobytes()
        (folder / "{}-{}".format(table, suffix)).write_bytes(data)


def eagerly(work: Callable[[Transport], Any]) -> Callable[[Transport], Any]:
    def run(transport: Transport) -> Any:
        with context.eager_mode(), communicating_through(transport):
            return work(transport)

    return run


def one_rank(work: Callable[[], Any]) -> Any:
    return eagerly(lambda _: work())(OneRank())


def zeros(**arguments: Any) -> Any:
    return sok.Variable(np.zeros_like(VALUES), name="users", **arguments)


def test_files_are_those_of_sparse_operation_kit(tmp_path: Path) -> None:
    def write(transport: Transport) -> None:
        spread = sok.Variable(VALUES, name="user/emb")
        whole = sok.Variable(VALUES[:3], name="items", mode="localized:1")
        optimizer = sok.OptimizerWrapper(keras_optimizers().Adam(0.1))
        optimizer._create_slots([spread])
        sok.assign(optimizer.get_slot(spread, "m"), range(11), VALUES + 100, check_ownership=False)
        sok.dump(tmp_path / "new" / "folder", [spread], [optimizer])
        sok.dump(tmp_path / "new" / "folder", whole)

    run_ranks(2, eagerly(write))
    order = np.array([0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9])
    expected = {
        "user_emb_0-key": header("user_emb_0", 0, 1) + order.astype("<i8").tobytes(),
        "user_emb_0-weight": header("user_emb_0", 1, 5) + VALUES[order].tobytes(),
        "user_emb_0-Adam-m": header("user_emb_0", 2, 5, "m") + (VALUES + 100)[order].tobytes(),
        "user_emb_0-Adam-v": header("user_emb_0", 2, 5, "v") + bytes(VALUES.nbytes),
        "items_0-key": header("items_0", 0, 3) + np.arange(3, dtype="<u8").tobytes(),
        "items_0-weight": header("items_0", 1, 5) + VALUES[:3].tobytes(),
    }
    written = {path.name: path.read_bytes() for path in (tmp_path / "new" / "folder").iterdir()}
    assert {name for name in written if "graph_opt" not in name} == set(expected)
    for name, data in expected.items():
        assert len(data) > 296 and written[name] == data, name
    facts = json.loads(written["user_emb_0-graph_opt.json"])
    assert (facts["ranks"], facts["rows"], facts["width"]) == (2, 11, 2)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_tables_of_sparse_operation_kit_are_read_by_key(tmp_path: Path, ranks: int) -> None:
    """Whatever the number of ranks that wrote them."""
    order = np.random.default_rng(0).permutation(11)
    accumulator = {"Adagrad-accumulator": ("accumulator", VALUES[order] + 50)}
    write_table(tmp_path, "users_0", order, {"weight": ("", VALUES[order]), **accumulator})

    def read(transport: Transport) -> None:
        for mode in (None, "localized:{}".format(ranks - 1)):
            table = sok.Variable(np.zeros_like(VALUES), name="users", mode=mode)
            optimizer = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1))
            sok.load(tmp_path, [table], optimizer)
            keys, rows = sok.export(table)
            np.testing.assert_array_equal(rows, VALUES[keys.numpy()])
            slot = sok.export(optimizer.get_slot(table, "accumulator"))[1]
            np.testing.assert_array_equal(slot, VALUES[keys.numpy()] + 50)

    run_ranks(ranks, eagerly(read))


def trained_graph(optimizer: Any, rank: int) -> Tuple[List[Any], Any, Any]:
    tables = [
        sok.Variable(VALUES, name="users"),
        sok.Variable(VALUES[:5], name="items", mode="localized:0"),
    ]
    ids = [tf.SparseTensor([[0, 0], [0, 1]], [rank, key], [1, 2]) for key in (7, 3)]
    pooled: Any = sok.lookup_sparse(tables, ids, combiners=["sum", "sum"])
    loss = tf.add_n([tf.reduce_sum(tf.square(one)) for one in pooled])
    wrapped = sok.OptimizerWrapper(optimizer())
    step = tf.train.get_or_create_global_step()
    gradients = tf.gradients(loss, tables)
    return tables, wrapped, wrapped.apply_gradients(zip(gradients, tables), global_step=step)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tf.train.AdamOptimizer(0.1),
        pytest.param(lambda: keras_optimizers().Adam(0.1, decay=0.1), marks=pytest.mark.slow),
        pytest.param(lambda: KERAS.Adam(0.1), marks=pytest.mark.slow),
    ],
)
def test_training_goes_on_where_it_was_dumped(tmp_path: Path, optimizer: Callable[[], Any]) -> None:
    """Iterations and powers of betas included, which SparseOperationKit forgets."""

    def train(transport: Transport, steps: int, more: int, folder: str) -> Any:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            tables, wrapped, train_op = trained_graph(optimizer, transport.rank)
            session.run(tf.global_variables_initializer())
            if folder:
                sok.load(tmp_path / folder, tables, wrapped)
            for _ in range(steps):
                session.run(train_op)
            sok.dump(tmp_path / "middle", tables, wrapped, session=session)
            for _ in range(more):
                session.run(train_op)
            return session.run([sok.export(table) for table in tables])

    whole = run_ranks(2, lambda transport: train(transport, 3, 3, ""))
    again = run_ranks(2, lambda transport: train(transport, 0, 3, "middle"))
    for first, second in zip(whole, again):
        for (keys, rows), (other_keys, other_rows) in zip(first, second):
            np.testing.assert_array_equal(keys, other_keys)
            np.testing.assert_array_equal(rows, other_rows)


def test_rows_travel_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "_BLOCK_BYTES", 40)  # two rows of 16 bytes
    monkeypatch.setattr(sok_files, "_CHECKED_BYTES", 24)  # three rows of 8

    def write(transport: Transport) -> None:
        sok.dump(tmp_path, sok.Variable(VALUES, name="users"))

    run_ranks(3, eagerly(write))
    keys = np.frombuffer((tmp_path / "users_0-key").read_bytes()[296:], np.int64)
    np.testing.assert_array_equal(keys, [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8])
    facts = json.loads((tmp_path / "users_0-graph_opt.json").read_text())
    assert [len(sums) for sums in facts["crc32"].values()] == [4, 4]

    def read(transport: Transport) -> None:
        table = zeros()
        sok.load(tmp_path, table)
        keys, rows = sok.export(table)
        np.testing.assert_array_equal(rows, VALUES[keys.numpy()])

    run_ranks(2, eagerly(read))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int64"])
def test_other_dtypes_keep_their_values(tmp_path: Path, dtype: str) -> None:
    def check() -> None:
        first = sok.Variable(VALUES / 3, name="users", dtype=dtype)
        sok.dump(tmp_path, first)
        second = sok.Variable(np.zeros_like(VALUES), name="users", dtype=dtype)
        sok.load(tmp_path, second)
        both = [tf.cast(table, tf.float64).numpy() for table in (first, second)]
        np.testing.assert_array_equal(*both)

    one_rank(check)


def test_tables_without_rows_and_without_slots(tmp_path: Path) -> None:
    def check(transport: Transport) -> None:
        table = sok.Variable(np.zeros([0, 2], np.float32), name="users")
        small = sok.Variable(np.ones([1, 2], np.float32), name="one")
        optimizer = sok.OptimizerWrapper(tf.train.GradientDescentOptimizer(0.1))
        sok.dump(tmp_path, [table, small], optimizer)
        sok.load(tmp_path, [table, small], optimizer)

    run_ranks(2, eagerly(check))
    assert (tmp_path / "users_0-weight").stat().st_size == 296


def test_merge_keeps_rows_that_the_files_do_not_have(tmp_path: Path) -> None:
    write_table(tmp_path, "users_0", np.array([2, 5]), {"weight": ("", VALUES[[2, 5]])})

    def check() -> None:
        table = zeros()
        with pytest.raises(ValueError, match=r"no row for key 0 of 11.*mode='merge'"):
            sok.load(tmp_path, table)
        sok.load(tmp_path, table, mode="merge")
        np.testing.assert_array_equal(table.numpy()[[2, 5]], VALUES[[2, 5]])
        assert table.numpy().sum() == VALUES[[2, 5]].sum()

    one_rank(check)


def write_shifted(folder: Path) -> None:
    (folder / "users_0-graph_opt.json").unlink()
    write_table(folder, "users_0", np.arange(1, 12), {"weight": ("", VALUES)})


FAULTS: Dict[str, Tuple[Callable[[Path], Any], Any, str]] = {
    "missing": (lambda at: (at / "users_0-key").unlink(), FileNotFoundError, "no table 'users_0'"),
    "truncated": (
        lambda at: (at / "users_0-weight").write_bytes(b""),
        ValueError,
        "users_0-weight is too short",
    ),
    "rows missing": (
        lambda at: (at / "users_0-weight").write_bytes((at / "users_0-weight").read_bytes()[:-8]),
        ValueError,
        "users_0-weight has 80 bytes of data; need 11 rows of 8",
    ),
    "damaged": (
        lambda at: (at / "users_0-weight").write_bytes(
            (at / "users_0-weight").read_bytes()[:-1] + b"x"
        ),
        ValueError,
        "users_0-weight is damaged",
    ),
    "another dtype": (
        lambda at: (at / "users_0-weight").write_bytes(
            header("users_0", 1, 6) + VALUES.astype(np.float64).tobytes()
        ),
        ValueError,
        "dtype float64; the table needs kind 1, slot '' and dtype float32",
    ),
    "no json": (
        lambda at: (at / "users_0-graph_opt.json").write_text("{"),
        ValueError,
        "users_0-graph_opt.json is damaged",
    ),
    "wrong key": (
        write_shifted,
        ValueError,
        "have key 11, but the table has 11 rows",
    ),
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_faulty_files_are_named_and_change_nothing(tmp_path: Path, fault: str) -> None:
    damage, error, message = FAULTS[fault]

    def check(transport: Transport) -> None:
        table = sok.Variable(VALUES, name="users")
        sok.dump(tmp_path, table)
        if transport.rank == 0:
            damage(tmp_path)
        table = zeros()
        sok.communication.allgather(tf.constant([0]))
        with pytest.raises(error, match=message):
            sok.load(tmp_path, table)
        assert table.numpy().sum() == 0

    run_ranks(2, eagerly(check))


def test_slots_must_be_there(tmp_path: Path) -> None:
    def check() -> None:
        table = sok.Variable(VALUES, name="users")
        sok.dump(tmp_path, table)
        optimizer = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1))
        with pytest.raises(FileNotFoundError, match="dumped without this optimizer"):
            sok.load(tmp_path, table, optimizer)

    one_rank(check)


def test_an_error_of_rank_0_reaches_all_and_leaves_the_earlier_dump(tmp_path: Path) -> None:
    def check(transport: Transport) -> str:
        sok.dump(tmp_path, sok.Variable(VALUES, name="users"))
        (tmp_path / "file").touch()
        with pytest.raises((OSError, RuntimeError)) as caught:
            sok.dump(tmp_path / "file", zeros())
        long = sok.Variable(VALUES, name="x" * 300)
        with pytest.raises((ValueError, RuntimeError), match="longer than the 256 bytes"):
            sok.dump(tmp_path, [zeros(), long])
        sok.load(tmp_path, zeros())
        return str(caught.value)

    errors = run_ranks(2, eagerly(check))
    assert "file" in errors[0]
    assert errors[1].startswith("rank 0 failed: FileExistsError")
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


def test_ranks_that_dump_different_tables_are_told(tmp_path: Path) -> None:
    def check(transport: Transport) -> None:
        tables = [zeros(), sok.Variable(VALUES, name="items")]
        with pytest.raises(ValueError, match=r"table 0 is \['users_0'.* on rank 0 and \['items_0'"):
            sok.dump(tmp_path, tables[transport.rank])

    run_ranks(2, eagerly(check))


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    def check() -> None:
        with pytest.raises(ValueError, match="would both have the files a_b_0"):
            sok.dump(tmp_path, [sok.Variable(VALUES, name="a/b"), sok.Variable(VALUES, name="a.b")])
        with pytest.raises(TypeError, match=r"neither a sok.Variable"):
            sok.dump(tmp_path, tf.Variable(1.0))
        with pytest.raises(ValueError, match="list of 2"):
            sok.dump(tmp_path, zeros(), [None, None])
        with pytest.raises(ValueError, match="choose one of replace, merge"):
            sok.load(tmp_path, zeros(), mode="add")
        if HAS_BUILT_OPTIMIZERS:
            with pytest.raises(ValueError, match=r"call its build\(\)"):
                sok.dump(tmp_path, zeros(), KERAS.Adam())

    one_rank(check)
    with communicating_through(OneRank()), pytest.raises(RuntimeError, match="session="):
        sok.dump(tmp_path, zeros())


@pytest.mark.parametrize("make", [tf.train.AdamOptimizer, keras_optimizers().Adam, KERAS.Adam])
def test_optimizers_need_no_wrapper(tmp_path: Path, make: Callable[[float], Any]) -> None:
    def check() -> None:
        table = sok.Variable(VALUES, name="users")
        optimizer = make(0.1)
        if hasattr(optimizer, "build"):
            optimizer.build([table])
        optimizer.apply_gradients([(tf.ones_like(VALUES), table)])
        sok.dump(tmp_path, table, optimizer)
        first = (tmp_path / "users_0-Adam-m").read_bytes()[296:]
        np.testing.assert_allclose(np.frombuffer(first, np.float32), 0.1, rtol=1e-5)
        wrapped = sok.OptimizerWrapper(make(0.1))
        sok.load(tmp_path, table, wrapped)
        for optimizer_of_table in (wrapped, optimizer):
            optimizer_of_table.apply_gradients([(tf.ones_like(VALUES), table)])
        np.testing.assert_allclose(wrapped.get_slot(table, "m").numpy(), 0.19, rtol=1e-5)

    one_rank(check)


def test_a_monitored_session_dumps_with_a_hook(tmp_path: Path) -> None:
    def train(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default():
            adam = lambda: tf.train.AdamOptimizer(0.1)  # noqa: E731
            tables, wrapped, train_op = trained_graph(adam, transport.rank)
            hook = sok.DumpHook(str(tmp_path / "{step}"), tables, wrapped, every_steps=2)
            with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
                for _ in range(3):
                    session.run(train_op)
                sok.load(tmp_path / "2", tables, session=session)
                sok.dump(tmp_path / "again", tables, session=session)

    run_ranks(2, train)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3", "again"]
    weights = {at: (tmp_path / at / "users_0-weight").read_bytes() for at in ("2", "3", "again")}
    assert weights["2"] == weights["again"] == weights["3"]  # loaded before the end
    with pytest.raises(ValueError, match="every_steps is 0"):
        sok.DumpHook("tables", [], every_steps=0)
