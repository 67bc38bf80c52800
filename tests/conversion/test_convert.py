"""`graph-opt convert`, as users call it, between files that TensorFlow and ranks have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest
from tensorflow.python.eager import context

from graph_opt import sok
from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through
from graph_opt.table_files import checkpoint_rows, row_blocks, sok_files
from tests.json_documents import validated
from tests.quick_cases import slow_but

USERS, ITEMS = (53, 4), (17, 3)
Values = Dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks in each table, and several checksums."""
    monkeypatch.setattr(row_blocks, "_BLOCK_BYTES", 7 * 16)
    monkeypatch.setattr(sok_files, "_CHECKED_BYTES", 5 * 16)
    monkeypatch.setattr(checkpoint_rows, "_CHECKED_BYTES", 100)


def train(
    steps: int = 3, partitions: int = 1, restore: str = "", strategy: str = "mod"
) -> Tuple[tf.train.Saver, tf.Session]:
    """A model of stock TensorFlow: a table with Adam, one with Adagrad, and a dense layer."""
    partitioner = tf.fixed_size_partitioner(partitions) if partitions > 1 else None
    users = tf.get_variable("model/users", USERS, partitioner=partitioner)
    items = tf.get_variable("items", ITEMS)
    dense = tf.get_variable("dense/kernel", [7, 1])
    step = tf.train.get_or_create_global_step()
    ids = tf.constant([3, 1, 52, 3])
    rows = tf.nn.embedding_lookup(users, ids, partition_strategy=strategy)
    joined = tf.concat([rows, tf.nn.embedding_lookup(items, ids % 17)], axis=1)
    loss = tf.reduce_sum(tf.square(tf.matmul(joined, dense) - 1))
    of_users = [users] if partitions == 1 else list(users)
    adam = tf.train.AdamOptimizer(0.1).minimize(loss, step, var_list=of_users + [dense])
    adagrad = tf.train.AdagradOptimizer(0.1).minimize(loss, var_list=[items])
    saver, session = tf.train.Saver(), tf.Session()
    if restore:
        saver.restore(session, restore)
    else:
        session.run(tf.global_variables_initializer())
    for _ in range(steps):
        session.run([adam, adagrad])
    return saver, session


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    saver, session = train()
    with session:
        return str(saver.save(session, str(tmp_path / "stock" / "model.ckpt"), 3))


def values_in(prefix: str) -> Values:
    reader = tf.train.NewCheckpointReader(prefix)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def assert_same(left: Values, right: Values) -> None:
    assert sorted(left) == sorted(right)
    for name, value in left.items():
        np.testing.assert_array_equal(value, right[name], err_msg=name)


def fails(arguments: List[str], capsys: pytest.CaptureFixture[str], *words: str) -> None:
    assert main(["convert", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert all(word in line for word in words), line


TABLES = ["--table", "model/users", "--table", "items"]


def test_a_checkpoint_goes_round_all_formats(
    checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = values_in(checkpoint)
    dump, parts, back = (str(tmp_path / name) for name in ("dump", "parts/m", "back/m"))
    assert main(["convert", checkpoint, dump, "--to", "sok", *TABLES]) == 0
    printed = capsys.readouterr().out
    assert "model_users_0-Adam-v" in printed and "left out: " in printed
    assert "dense/kernel" in printed and "TensorFlow's checksums" in printed
    assert "beta1_power" not in printed  # the dump has it
    layout = ["--layout", "mod-parts:4", "--others", checkpoint]
    assert main(["convert", dump, parts, "--to", "checkpoint", *layout]) == 0
    values = values_in(parts)
    users = before["model/users/Adam_1"]
    np.testing.assert_array_equal(values["model/users/part_1/Adam_1"], users[1::4])
    source = ["--source-layout", "mod-parts"]
    star = ["--table", "model/users/part_*", "--table", "items/part_*"]
    assert main(["convert", parts, back, "--to", "checkpoint", *source, *star]) == 0
    assert_same(before, values_in(back))
    assert tf.train.latest_checkpoint(str(tmp_path / "back")) == back
    folders = ["stock", "dump", "parts", "back"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(folders)
    with tf.Graph().as_default():
        train(steps=0, restore=back)[1].close()


def test_npy_files_have_whole_tables_and_say_what_they_lack(
    checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, back = tmp_path / "npy", str(tmp_path / "again.ckpt")
    arguments = ["convert", checkpoint, str(files), "--to", "npy", "--json"]
    assert main([*arguments, "--table", "model/users=users", "--table", "items"]) == 0
    report = validated(capsys.readouterr().out)
    assert "Adam m of users" in report["no_place_in_this_format"]
    before = values_in(checkpoint)
    np.testing.assert_array_equal(np.load(files / "users.npy"), before["model/users"])
    order = [one["file"] for one in json.loads((files / "graph_opt.json").read_text())["tables"]]
    assert order == ["users.npy", "items.npy"]
    # The others, the stale slots of these weights among them, come from the checkpoint.
    assert main(
        ["convert", str(files), back, "--to", "checkpoint", "--others", checkpoint]
        + ["--table", "users=model/users", "--table", "items"]
    ) == 0  # fmt: skip
    assert_same(before, values_in(back))


def test_rows_of_ranks_are_found_by_their_keys(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=USERS).astype(np.float32)

    def dump(transport: Transport) -> None:
        with context.eager_mode(), communicating_through(transport):
            users = sok.Variable(weights, name="model/users")
            items = sok.Variable(weights[:5], name="items", mode="localized:1")
            optimizer = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1))
            optimizer._create_slots([users])
            keys = range(USERS[0])
            slot = optimizer.get_slot(users, "accumulator")
            sok.assign(slot, keys, weights + 9, check_ownership=False)
            sok.dump(tmp_path / "dump", users, optimizer)
            sok.dump(tmp_path / "dump", items)

    run_ranks(3, dump)
    folder, prefix = str(tmp_path / "dump"), str(tmp_path / "model")
    assert main(["convert", folder, prefix, "--to", "checkpoint"]) == 0
    expected = {"model/users": weights, "model/users/Adagrad": weights + 9, "items": weights[:5]}
    assert_same(expected, values_in(prefix))
    # A dump in the order of keys is one that any number of ranks loads, SparseOperationKit's, too.
    ordered = str(tmp_path / "ordered")
    arguments = ["--to", "sok", "--table", "model/users", "--table", "items"]
    assert main(["convert", prefix, ordered, *arguments]) == 0

    def load(transport: Transport) -> Any:
        with context.eager_mode(), communicating_through(transport):
            users = sok.Variable(np.zeros_like(weights), name="model/users")
            optimizer = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1))
            optimizer._create_slots([users])
            sok.load(ordered, users, optimizer)
            slot = optimizer.get_slot(users, "accumulator")
            return users.numpy(), slot.numpy()

    for rank, (rows, slots) in enumerate(run_ranks(2, load)):
        np.testing.assert_array_equal(rows, weights[rank::2])
        np.testing.assert_array_equal(slots, weights[rank::2] + 9)


@pytest.mark.parametrize("strategy", slow_but(["mod", "div"], "div"))
def test_partitions_become_the_rows_that_lookups_see(strategy: str, tmp_path: Path) -> None:
    saver, session = train(partitions=5, strategy=strategy)
    graph = tf.get_default_graph()
    parts = [one for one in tf.global_variables() if one.op.name.startswith("model/users/part_")]
    tables = [one for one in parts if one.op.name[-1].isdigit() and "Adam" not in one.op.name]
    with session:
        seen = session.run(tf.nn.embedding_lookup(tables, list(range(USERS[0])), strategy))
        prefix = saver.save(session, str(tmp_path / "model"))
    whole, again = str(tmp_path / "whole"), str(tmp_path / "again")
    layout = "mod:5" if strategy == "mod" else "whole"
    arguments = ["--to", "checkpoint", "--table", "model/users"]
    assert main(["convert", prefix, whole, "--source-layout", layout, *arguments]) == 0
    np.testing.assert_array_equal(values_in(whole)["model/users"], seen)
    assert main(["convert", whole, again, "--layout", layout, *arguments]) == 0
    assert_same(values_in(prefix), values_in(again))
    assert graph is tf.get_default_graph()


def test_parts_of_ranks_that_each_saved_their_own(tmp_path: Path) -> None:
    table = np.arange(44, dtype=np.float32).reshape(11, 4)
    prefixes = []
    for rank in range(3):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.get_variable("t", initializer=table[rank::3])
            session.run(tf.global_variables_initializer())
            (tmp_path / "rank{}".format(rank)).mkdir()
            saver = tf.train.Saver(sharded=True)
            prefixes.append(saver.save(session, str(tmp_path / "rank{}".format(rank) / "m")))
    out = str(tmp_path / "whole" / "m")
    arguments = ["--to", "checkpoint", "--table", "t", "--source-layout", "mod-parts"]
    assert main(["convert", *prefixes, out, *arguments]) == 0
    np.testing.assert_array_equal(values_in(out)["t"], table)


def test_tables_of_any_keys_keep_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = np.array([900, -4, 17, 3, 10**12])
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("t", initializer=rows)
        tf.get_variable("t/keys", initializer=tf.constant(keys, tf.int64))
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "m"))
    dump, back = str(tmp_path / "dump"), str(tmp_path / "back")
    assert main(["convert", prefix, dump, "--to", "sok", "--table", "t"]) == 0
    assert main(["convert", dump, back, "--to", "checkpoint"]) == 0
    assert_same({"t": rows, "t/keys": keys}, values_in(back))
    capsys.readouterr()
    fails([dump, str(tmp_path / "npy"), "--to", "npy"], capsys, "'t'", "no keys")
    assert not list(tmp_path.glob("npy*"))


def test_a_dry_run_checks_all_and_writes_nothing(
    checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "dump"
    for target, to in (
        (dump, "sok"),
        (tmp_path / "npy", "npy"),
        (tmp_path / "c" / "m", "checkpoint"),
    ):
        arguments = ["convert", checkpoint, str(target), "--to", to, "--dry-run", *TABLES]
        assert main(arguments) == 0
        assert "nothing was written" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["stock"]
    assert main(["convert", checkpoint, str(dump), "--to", "sok", *TABLES]) == 0
    capsys.readouterr()
    damage(dump / "items_0-weight")
    arguments = [str(dump), str(tmp_path / "npy"), "--to", "npy"]
    fails([*arguments, "--dry-run"], capsys, "items_0-weight", "damaged")
    damage(Path(checkpoint + ".data-00000-of-00001"))
    fails([checkpoint, str(tmp_path / "x"), "--to", "sok", *TABLES], capsys, "damaged")


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    for place in range(300, len(data), 97):
        data[place] ^= 4
    path.write_bytes(bytes(data))


def test_errors_say_what_to_do(
    checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = str(tmp_path / "new")
    fails([checkpoint, new, "--to", "sok"], capsys, "--table", "model/users [53, 4]")
    fails([checkpoint, new, "--to", "sok", "--table", "user"], capsys, "no tensor 'user'")
    fails([str(tmp_path), new, "--to", "npy"], capsys, "no checkpoint", str(tmp_path))
    fails([checkpoint, str(tmp_path / "stock"), "--to", "npy", *TABLES], capsys, "exists")
    wrong = ["--to", "checkpoint", "--table", "items"]
    fails([checkpoint, new, *wrong, "--layout", "mod"], capsys, "mod:N")
    fails([checkpoint, new, *wrong, "--layout", "zigzag"], capsys, "zigzag", "div-parts")
    fails([checkpoint, new, *wrong, "--source-layout", "mod-parts:3"], capsys, "3", "parts")
    fails([checkpoint, new, "--to", "npy", *TABLES, "--layout", "mod:2"], capsys, "--layout")
    both = ["--table", "items=a/b", "--table", "model/users=a_b"]
    fails([checkpoint, new, "--to", "npy", *both], capsys, "a_b.npy", "NEW_NAME")
    assert [path.name for path in tmp_path.iterdir()] == ["stock"]


def save(prefix: Path, **tensors: Any) -> str:
    """A checkpoint of tensors, whose names have __ for /."""
    names = [name.replace("__", "/") for name in sorted(tensors)]
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.raw_ops.SaveV2(
            prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names),
            tensors=[tf.constant(tensors[name]) for name in sorted(tensors)],
        ))  # fmt: skip
    return str(prefix)


ROWS, FEWER = np.ones([6, 2], np.float32), np.ones([5, 2], np.float32)
LACKING: Dict[str, Tuple[Dict[str, Any], str, str]] = {
    "a slot of two": (dict(t=ROWS, t__Adam=ROWS), "t", "'t/Adam'"),
    "the first of two": (dict(t=ROWS, t__Ftrl_1=ROWS), "t", "'t/Ftrl_1'"),
    "rows of a slot": (dict(t=ROWS, t__Adagrad=FEWER), "t", "'t/Adagrad'"),
    "a slot of Keras'": (dict(t=ROWS, Adam__t__m=ROWS), "t", "not v"),
    "a part between": (dict(t_0=ROWS, t_2=ROWS), "t_*", "'t_1'"),
    "a slot of the first part": (dict(t_0=ROWS, t_1=ROWS, t_1__Adagrad=ROWS), "t_*", "t_1/Adagrad"),
    "a slot of the other part": (dict(t_0=ROWS, t_1=ROWS, t_0__Adagrad=ROWS), "t_*", "not all"),
    "a key": (dict(t=ROWS, t__keys=np.arange(5)), "t", "'t/keys'"),
    "numbers": (dict(t=[[b"a"], [b"b"]]), "t", "string"),
}


@pytest.mark.parametrize("what", list(LACKING))
def test_what_the_rest_shows_to_be_missing_is_an_error(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors, table, word = LACKING[what]
    prefix = save(tmp_path / "m", **tensors)
    arguments = ["--to", "sok", "--table", table]
    if "*" in table:
        arguments += ["--source-layout", "div-parts"]
    fails([prefix, str(tmp_path / "dump"), *arguments], capsys, word)
    if "slot" in what:
        assert main(["convert", prefix, str(tmp_path / "dump"), *arguments, "--weights-only"]) == 0
        assert not list(tmp_path.glob("dump/*-*-*"))
        assert "left out: " in capsys.readouterr().out


def test_a_dump_without_one_of_two_slots_is_an_error(
    checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump, back = tmp_path / "dump", str(tmp_path / "back")
    assert main(["convert", checkpoint, str(dump), "--to", "sok", *TABLES]) == 0
    (dump / "model_users_0-Adam-v").unlink()
    (dump / "model_users_0-graph_opt.json").unlink()
    capsys.readouterr()
    fails([str(dump), back, "--to", "checkpoint"], capsys, "m of Adam", "not v")
    assert main(["convert", str(dump), back, "--to", "checkpoint", "--weights-only"]) == 0
    assert not [name for name in values_in(back) if "Ada" in name]


def test_slots_of_a_dynamic_tables_part_are_not_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, other_keys = np.arange(6) * 2, np.arange(6) * 2 + 1
    tensors: Dict[str, Any] = {
        "t/part_0-keys": keys, "t/part_0-values": ROWS,
        "t/part_1-keys": other_keys, "t/part_1-values": ROWS,
    }  # fmt: skip
    slot: Dict[str, Any] = {"t/part_1/Adagrad-keys": other_keys, "t/part_1/Adagrad-values": ROWS}
    versions: Dict[str, Any] = {"t/part_1-versions": other_keys}
    half = {"t/part_{}/Adam-{}".format(part, what): tensors["t/part_{}-{}".format(part, what)]
            for part in range(2) for what in ("keys", "values")}  # fmt: skip
    cases = ((slot, "'t/part_1/Adagrad'"), (versions, "versions"), (half, "'t/part_0/Adam'"))
    for number, (more, word) in enumerate(cases):
        prefix = save(tmp_path / str(number), **dict(tensors, **more))
        fails([prefix, str(tmp_path / "dump"), "--to", "sok"], capsys, word)


def test_files_that_claim_what_they_lack_are_errors(
    checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = str(tmp_path / "new")
    array = tmp_path / "t.npy"
    np.save(array, ROWS)
    whole = array.read_bytes()
    for header in (b"('descr'", b"[[[[[[[["):
        array.write_bytes(whole.replace(b"{'descr'", header, 1))
        fails([str(array), new, "--to", "sok"], capsys, "t.npy is no .npy file of numbers")
    dump = tmp_path / "dump"
    assert main(["convert", checkpoint, str(dump), "--to", "sok", *TABLES]) == 0
    path = dump / "items_0-graph_opt.json"
    facts = json.loads(path.read_text("utf-8"))
    capsys.readouterr()
    for name, value, word in (
        ("checked_rows", 0, "damaged"),
        ("crc32", [], "damaged"),
        ("rows", 18, "17 keys"),
    ):
        path.write_text(json.dumps(dict(facts, **{name: value})), "utf-8")
        fails([str(dump), new, "--to", "checkpoint"], capsys, "items_0-graph_opt.json", word)
