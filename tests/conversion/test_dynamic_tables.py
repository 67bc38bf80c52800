"""`graph-opt convert` with dynamic tables, between files that sessions write and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from graph_opt import sok
from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.conversion import tables as saved_tables
from graph_opt.dynamic.options import Bank, CounterAdmission, DynamicTableOptions
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through
from tests.conversion.test_convert import fails, values_in
from tests.dynamic.saved_tables import KEYS, WIDTH, Model, saved_by

Contents = Dict[int, List[Any]]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks in each table."""
    monkeypatch.setattr(saved_tables, "BLOCK_BYTES", 3 * 8)


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
    monkeypatch.setattr(saved_tables, "BLOCK_BYTES", 4096)
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
    table = ["--to", "sok", "--table", "emb", "--table", "global_step"]
    fails([path, where, *table], capsys, "'emb' is a dynamic table, and 'global_step' is not")
    dry = ["convert", path, where, "--to", "checkpoint", "--layout", "dynamic:9", "--dry-run"]
    assert main(dry) == 0 and not list(tmp_path.glob("no*"))
    assert "emb/part_*/Adagrad" in capsys.readouterr().out


def test_damage_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = saved_by(tmp_path / "one")
    key = np.int64(2**40 + 1).tobytes()
    data = next(one for one in (tmp_path / "one").glob("*.data-*") if key in one.read_bytes())
    content = bytearray(data.read_bytes())
    content[content.index(key)] ^= 1
    data.write_bytes(content)
    fails([path, str(tmp_path / "no"), "--to", "sok"], capsys, "is damaged", "emb")
