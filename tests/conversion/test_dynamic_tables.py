"""`graph-opt convert` with dynamic tables, between files that sessions write and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from graph_opt import sok
from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.dynamic.options import Bank, CounterAdmission, DynamicTableOptions
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through
from graph_opt.table_files import row_blocks
from tests.conversion.test_convert import fails, values_in
from tests.dynamic.saved_tables import KEYS, WIDTH, Model, saved_by
from tests.json_documents import validated

Contents = Dict[int, List[Any]]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks in each table."""
    monkeypatch.setattr(row_blocks, "_BLOCK_BYTES", 3 * 8)


def restored(path: str, parts: int = 1, **named: Any) -> Contents:
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(parts, **named)
        tf.train.Saver().restore(session, path)
        return model.contents(session)


def convert(source: str, target: Path, *options: str) -> str:
    assert main(["convert", source, str(target), *options]) == 0
    return str(target)


def rows_and_slots(contents: Contents) -> Contents:
    return {key: row[:2] for key, row in contents.items()}


def test_tables_go_into_any_number_of_parts_as_a_saver_writes_them(tmp_path: Path) -> None:
    whole, contents = saved_by(tmp_path / "one")
    divided, of_parts = saved_by(tmp_path / "three", parts=3)
    in_three = convert(whole, tmp_path / "to3", "--to", "checkpoint", "--layout", "dynamic:3")
    in_one = convert(divided, tmp_path / "to1", "--to", "checkpoint", "--layout", "dynamic")
    assert restored(in_three, 3) == contents and restored(in_one) == of_parts
    assert restored(in_three, 2) == contents, "offsets are those of remainders"
    for path, alike in ((in_three, divided), (in_one, whole)):
        found, expected = values_in(path), values_in(alike)
        assert sorted(found) == sorted(expected)
        for name in expected:
            assert found[name].dtype == expected[name].dtype, name
            assert found[name].shape == expected[name].shape, name
        for name in (one for one in expected if "offset" in one):
            np.testing.assert_array_equal(found[name], expected[name], name)


def test_counted_keys_and_default_rows_come_along(tmp_path: Path) -> None:
    options = DynamicTableOptions(Bank(2), admission=CounterAdmission(3))
    named: Dict[str, Any] = {"options": options, "bank": lambda: tf.random.uniform([2, WIDTH])}
    whole, contents = saved_by(tmp_path / "one", **named)
    assert 0 < len(contents) < len(KEYS)
    path = convert(whole, tmp_path / "two", "--to", "checkpoint", "--layout", "dynamic:2")
    assert restored(path, 2, **named) == contents
    before, after = values_in(whole), values_in(path)
    np.testing.assert_array_equal(after["emb/part_1-default_values"], before["emb-default_values"])
    waiting = {
        key: freq
        for part in (0, 1)
        for key, freq in zip(
            after["emb/part_{}-keys_filtered".format(part)],
            after["emb/part_{}-freqs_filtered".format(part)],
        )
    }
    freqs = before["emb-freqs_filtered"]
    assert waiting == dict(zip(before["emb-keys_filtered"], freqs)) and waiting


def test_dumps_of_ranks_and_checkpoints_have_the_same_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, contents = saved_by(tmp_path / "one", parts=3)
    dump = convert(path, tmp_path / "dump", "--to", "sok", "--table", "emb=users")
    assert "no place in this format: versions of users, freqs of users" in capsys.readouterr().out

    def program(transport: Transport) -> Contents:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            table = sok.DynamicVariable(WIDTH, name="users", initializer="zeros")
            wrapper = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.5))
            loss = tf.reduce_sum(sok.lookup_sparse(table, tf.sparse.from_dense([[1]])))
            wrapper.apply_gradients([(tf.gradients(loss, table)[0], table)])
            slot = wrapper.get_slot(table, "accumulator")
            rows = [sok.export(one) for one in (table, slot)]
            session.run(tf.global_variables_initializer())
            sok.load(dump, [table], wrapper, session)
            if transport.rank == 0 and transport.size == 1:
                sok.dump(str(tmp_path / "again"), [table], wrapper, session)
            (keys, values), (_, slots) = session.run(rows)
            both = zip(keys.tolist(), values.tolist(), slots.tolist())
            return {key: [row, slot_row] for key, row, slot_row in both}

    found: Contents = {}
    for of_rank in run_ranks(2, program, 60):
        found.update(of_rank)
    assert found == rows_and_slots(contents)
    assert run_ranks(1, program, 60) == [found]
    options = ["--to", "checkpoint", "--layout", "dynamic:2", "--others", path]
    back = convert(str(tmp_path / "again"), tmp_path / "back", *options, "--table", "users=emb")
    assert rows_and_slots(restored(back)) == found
    assert not [name for name in values_in(back) if name.startswith("emb/part_2")]


def test_tables_of_numbered_keys_become_variables_and_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.arange(2400 * WIDTH, dtype=np.float32).reshape(-1, WIDTH)
    (tmp_path / "npy").mkdir()
    np.save(str(tmp_path / "npy" / "emb.npy"), rows)
    dynamic = str(tmp_path / "dynamic")
    options = ["--to", "checkpoint", "--layout", "dynamic:3", "--json"]
    monkeypatch.setattr(row_blocks, "_BLOCK_BYTES", 4096)
    convert(str(tmp_path / "npy"), tmp_path / "dynamic", *options)
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(2, slots=False)
        tf.train.Saver([model.table]).restore(session, dynamic)
        keys = [2399, 0, 1007]
        np.testing.assert_array_equal(session.run(model.read, {model.keys: keys}), rows[keys])
    static = convert(dynamic, tmp_path / "static", "--to", "checkpoint", "--layout", "mod:2")
    values = values_in(static)
    assert list(values) == ["emb"]
    np.testing.assert_array_equal(values["emb"], np.concatenate([rows[::2], rows[1::2]]))
    convert(dynamic, tmp_path / "rows", "--to", "npy")
    np.testing.assert_array_equal(np.load(str(tmp_path / "rows" / "emb.npy")), rows)
    convert(dynamic, tmp_path / "dump", "--to", "sok")
    capsys.readouterr()
    path, _ = saved_by(tmp_path / "any")
    where = str(tmp_path / "no")
    for form in ("npy", "checkpoint"):
        fails([path, where, "--to", form], capsys, "'emb' has 8 rows, and key -2000", "--to sok")
    fails([path, where, "--to", "sok", "--table", "no"], capsys, "no tensor 'no'")
    dry = ["convert", path, where, "--to", "checkpoint", "--layout", "dynamic:9", "--dry-run"]
    assert main([*dry, "--json"]) == 0 and not list(tmp_path.glob("no*"))
    columns = validated(capsys.readouterr().out)["columns"]
    assert [one["crc32"] for one in columns] == [None] * len(columns)
    assert any("emb/part_*/Adagrad" in one["to"] for one in columns)


def test_rows_become_those_of_keys_that_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = DynamicTableOptions(Bank(2))
    named: Dict[str, Any] = {"options": options, "bank": lambda: tf.random.uniform([2, WIDTH])}
    path, contents = saved_by(tmp_path / "one", parts=2, **named)
    banks = [values_in(path)["emb/part_{}-default_values".format(part)] for part in (0, 1)]

    def expected(keys: List[int]) -> Any:
        new = [[banks[key % 1000 % 2][key % 2].tolist(), [np.float32(0.1)] * WIDTH] for key in keys]
        both = [contents.get(key, row)[:2] for key, row in zip(keys, new)]
        return np.array(both, np.float32).transpose(1, 0, 2)

    rows = convert(
        path, tmp_path / "rows", "--to", "checkpoint", "--rows", "1005", "--layout", "mod:3"
    )
    text = capsys.readouterr().out
    assert "of the 1005 keys of 'emb', 1001 have no row and get what new ones start with" in text
    assert "4 rows of 'emb' are of other keys, and left out" in text
    order = [key for part in range(3) for key in range(part, 1005, 3)]
    for name, values in zip(("emb", "emb/Adagrad"), expected(order)):
        np.testing.assert_array_equal(values_in(rows)[name], values)
    keys = [7, 5007, -7, 2**40 + 1]
    (tmp_path / "keys.txt").write_text("".join("{}\n".format(key) for key in keys))
    np.save(str(tmp_path / "keys.npy"), np.array(keys))
    asked = "emb=" + str(tmp_path / "keys.txt")
    convert(path, tmp_path / "npy", "--to", "npy", "--keys", asked)
    found = np.load(str(tmp_path / "npy" / "emb.npy"))
    np.testing.assert_array_equal(found, expected(keys)[0])
    layout = ["--to", "checkpoint", "--layout", "dynamic:2", "--others", path]
    npy = str(tmp_path / "keys.npy")
    back = convert(str(tmp_path / "npy"), tmp_path / "back", *layout, "--keys", npy)
    assert {key: row[0] for key, row in restored(back, 2, slots=False, **named).items()} == dict(
        zip(keys, found.tolist())
    )
    where = [str(tmp_path / "no"), "--to", "npy"]
    (tmp_path / "bad.txt").write_text("1\n2\n2.5\n")
    fails([path, *where, "--keys", str(tmp_path / "bad.txt")], capsys, "line 3", "'2.5'")
    fails([path, *where, "--rows", "many"], capsys, "--rows 'many'")
    fails([path, *where, "--rows", "3", "--keys", npy], capsys, "all tables already")
    fails([path, *where, "--rows", "no=3"], capsys, "no table 'no'", "emb")
    fails([path, where[0], "--to", "sok", "--rows", "3"], capsys, "keeps its keys")
    fails([str(tmp_path / "npy"), where[0], "--to", "sok", "--rows", "3"], capsys, "has 4 rows")


def test_tables_of_several_checkpoints_and_both_kinds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two ranks that have saved a part each, and a static table of the first."""
    whole, contents = saved_by(tmp_path / "one", parts=2)
    sources, dense = [], np.arange(6, dtype=np.float32).reshape(3, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(2)
        tf.train.Saver().restore(session, whole)
        items = tf.get_variable("items", initializer=dense)
        session.run(items.initializer)
        for part, slot in zip(model.parts, model.slots):
            saver = tf.train.Saver([part, slot, model.step, items])
            sources.append(saver.save(session, str(tmp_path / "rank{}".format(part.part))))
    dynamic = [*sources, str(tmp_path / "both"), "--to", "checkpoint", "--layout", "dynamic"]
    others = ["--others", sources[0]]
    assert main(["convert", *dynamic, *others]) == 0
    assert restored(str(tmp_path / "both")) == contents
    fails([sources[1], str(tmp_path / "no"), "--to", "sok"], capsys, "has parts [1]")
    tables = ["--table", "emb", "--table", "items"]
    both = str(tmp_path / "both")
    dump = convert(both, tmp_path / "dump", "--to", "sok", *tables)
    again = convert(dump, tmp_path / "again", "--to", "checkpoint", "--layout", "dynamic:2")
    values = values_in(again)
    found = np.concatenate([values["items/part_{}-values".format(part)] for part in (0, 1)])
    np.testing.assert_array_equal(found, dense[[0, 2, 1]])
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(3)
        tf.train.Saver([*model.parts, *model.slots]).restore(session, again)
        assert rows_and_slots(model.contents(session)) == rows_and_slots(contents)


def test_damage_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = saved_by(tmp_path / "one")
    key = np.int64(2**40 + 1).tobytes()
    data = next(one for one in (tmp_path / "one").glob("*.data-*") if key in one.read_bytes())
    content = bytearray(data.read_bytes())
    content[content.index(key)] ^= 1
    data.write_bytes(content)
    fails([path, str(tmp_path / "no"), "--to", "sok"], capsys, "is damaged", "emb")
