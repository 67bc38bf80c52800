"""`tf.train.Saver` of dynamic tables: DeepRec's tensors, any number of parts, damage."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.dynamic.options import Bank, CounterAdmission, DynamicTableOptions, StepsToLive
from graph_opt.ops.dynamic_table import apply_to_keys
from graph_opt.sharding.initializers import Constant
from tests.dynamic.saved_tables import KEYS, WIDTH, Model, saved_by
from tests.forked_programs import Forked
from tests.processes import kill

MANY = 200_000


def restored(path: str, parts: int = 1, **named: Any) -> Dict[int, List[Any]]:
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(parts, **named)
        tf.train.Saver().restore(session, path)
        assert session.run(model.step) == 3
        return model.contents(session)


def test_a_checkpoint_has_the_tensors_of_deeprec(tmp_path: Path) -> None:
    path, contents = saved_by(tmp_path)
    reader = tf.train.load_checkpoint(path)
    names = set(reader.get_variable_to_shape_map())
    nine = "-keys -values -versions -freqs -keys_filtered -versions_filtered -freqs_filtered"
    nine += " -partition_offset -partition_filter_offset"
    expected = {name + one for name in ("emb", "emb/Adagrad") for one in nine.split()}
    assert names == expected | {"global_step"}
    keys = reader.get_tensor("emb-keys")
    offsets = reader.get_tensor("emb-partition_offset")
    assert sorted(keys.tolist()) == sorted(KEYS) and offsets[-1] == len(KEYS)
    for bucket in range(1000):
        assert all(keys[offsets[bucket] : offsets[bucket + 1]] % 1000 == bucket)
    values = reader.get_tensor("emb-values")
    slot = reader.get_tensor("emb/Adagrad-values")
    versions, freqs = reader.get_tensor("emb-versions"), reader.get_tensor("emb-freqs")
    rows = zip(values.tolist(), slot.tolist(), versions.tolist(), freqs.tolist())
    assert dict(zip(keys.tolist(), map(list, rows))) == contents
    assert not list(tmp_path.glob("*_tables*")), "nothing is left beside the checkpoint"


def test_tables_are_restored_in_any_number_of_parts(tmp_path: Path) -> None:
    whole, contents = saved_by(tmp_path / "one")
    assert len(contents) == len(KEYS) and len({str(one) for one in contents.values()}) > 2
    assert restored(whole) == contents
    assert restored(whole, parts=3) == contents
    divided, of_parts = saved_by(tmp_path / "three", parts=3)
    assert {key: row[:2] for key, row in of_parts.items()} == {
        key: row[:2] for key, row in contents.items()
    }
    for parts in (1, 2, 3, 5):
        assert restored(divided, parts) == of_parts


def test_a_checkpoint_of_deeprec_is_restored(tmp_path: Path) -> None:
    """Two parts, slots in an order of their own, no frequencies, keys of another part."""
    tensors: Dict[str, Any] = {"global_step": np.int64(3)}
    expected = {}
    for part, keys in enumerate(([2, 1000, 4], [7, 1001])):
        name = "emb/part_{}".format(part)
        ordered = sorted(keys, key=lambda key: key % 1000)
        values = np.array(ordered, np.float32)[:, None] * np.ones([1, WIDTH], np.float32)
        offsets = np.searchsorted([key % 1000 for key in ordered], range(1001)).astype(np.int32)
        for suffix, order in (("", 1), ("/Adagrad", -1)):
            tensors[name + suffix + "-keys"] = np.array(ordered, np.int64)[::order]
            tensors[name + suffix + "-values"] = (values + len(suffix))[::order]
            tensors[name + suffix + "-versions"] = np.zeros([0], np.int64)
            tensors[name + suffix + "-freqs"] = np.zeros([0], np.int64)
        tensors[name + "-partition_offset"] = offsets
        for key in keys:
            expected[key] = [[key] * WIDTH, [key + 8] * WIDTH, -1, 2]
    path = str(tmp_path / "deeprec.ckpt")
    with tf.Graph().as_default(), tf.Session() as session:
        names = list(tensors)
        saved = [tensors[name] for name in names]
        session.run(
            tf.raw_ops.SaveV2(
                prefix=path, tensor_names=names, shape_and_slices=[""] * len(names), tensors=saved
            )
        )
    options = DynamicTableOptions(Constant(0.0), admission=CounterAdmission(2))
    for parts in (1, 2, 3):
        assert restored(path, parts, options=options) == expected


@pytest.mark.parametrize("slices", [[1, 1], [3, 1], [1, 2]])
def test_a_static_table_becomes_a_dynamic_one(slices: List[int], tmp_path: Path) -> None:
    """Row k of a variable is that of key k, and its slots those of the key."""
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.get_variable("emb", [7, WIDTH], partitioner=lambda *_, **__: slices)
        rows = tf.convert_to_tensor(table)[1:6:4]
        train = tf.train.AdagradOptimizer(0.5).minimize(tf.reduce_sum(rows))
        step = tf.train.get_or_create_global_step()
        session.run(tf.global_variables_initializer())
        session.run([train, step.assign(3)])
        path = tf.train.Saver().save(session, str(tmp_path / "static"))
        values, slots = (tf.train.load_variable(path, name) for name in ("emb", "emb/Adagrad"))
    for parts in (1, 3):
        found = restored(path, parts)
        assert found == {
            key: [values[key].tolist(), slots[key].tolist(), -1, 1] for key in range(7)
        }


def test_what_a_checkpoint_lacks(tmp_path: Path) -> None:
    path, contents = saved_by(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model()
        other = model.parts[0].add_slot("Momentum", 0.25)
        tf.train.Saver().restore(session, path)
        assert session.run(other.export().values).tolist() == [[0.25] * WIDTH] * len(KEYS)
        assert model.contents(session) == contents
        with pytest.raises(tf.errors.NotFoundError, match="Key emb/Momentum-keys not found"):
            tf.train.Saver([other]).restore(session, path)
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model()
        with pytest.raises(tf.errors.NotFoundError, match="Key users-keys not found"):
            tf.train.Saver({"users": model.parts[0]}).restore(session, path)
        session.run(model.initialize)
        tf.train.Saver({"emb": model.parts[0]}).restore(session, path)
        assert {key: row[0] for key, row in model.contents(session).items()} == {
            key: row[0] for key, row in contents.items()
        }


def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    path, _ = saved_by(tmp_path)
    index, data = Path(path + ".index"), sorted(tmp_path.glob("*.data-*"))
    (table,) = [one for one in data if len(one.read_bytes()) > 1000]
    whole = table.read_bytes()
    offsets = tf.train.load_variable(path, "emb-partition_offset").astype(np.int32)
    moved = np.where(np.arange(len(offsets)) == 3, offsets + 1, offsets)
    assert not np.any(np.diff(moved) < 0), "a key seems to be of another remainder"
    with tf.Graph().as_default(), tf.Session() as session:
        Model(2)
        table.write_bytes(whole.replace(offsets.tobytes(), moved.tobytes()))
        with pytest.raises(tf.errors.DataLossError, match=r"'emb.*-partition_offset.*checksum"):
            tf.train.Saver().restore(session, path)
    with tf.Graph().as_default(), tf.Session() as session:
        Model()
        saver = tf.train.Saver()
        table.write_bytes(whole[:70] + bytes([whole[70] ^ 1]) + whole[71:])
        with pytest.raises(tf.errors.DataLossError, match=r"'emb-.*checksum"):
            saver.restore(session, path)
        table.write_bytes(whole[: len(whole) // 4])
        with pytest.raises(tf.errors.DataLossError, match="not whole"):
            saver.restore(session, path)
        table.write_bytes(whole)
        saver.restore(session, path)
        index.unlink()
        with pytest.raises((tf.errors.NotFoundError, ValueError)):
            saver.restore(session, path)


def test_policies_at_checkpoints(tmp_path: Path) -> None:
    """Keys that were not updated for long are not saved; counted keys and banks are."""
    options = DynamicTableOptions(Constant(0.5), eviction=StepsToLive(1))
    _, contents = saved_by(tmp_path / "evicted", options=options)
    assert sorted(contents) == sorted(KEYS[:5])
    with tf.Graph().as_default(), tf.Session() as session:
        counted = DynamicTableOptions(Bank(4), admission=CounterAdmission(3))
        model = Model(options=counted, bank=lambda: tf.random.normal([4, WIDTH]))
        session.run(model.initialize)
        saver = tf.train.Saver()
        for keys in ([1, 2, 1], [2, 3]):
            model.train_on(session, keys)
        path = saver.save(session, str(tmp_path / "counted"))
        reader = tf.train.load_checkpoint(path)
        filtered = zip(
            reader.get_tensor("emb-keys_filtered"), reader.get_tensor("emb-freqs_filtered")
        )
        assert dict(filtered) == {1: 2, 2: 2, 3: 1}
        bank = reader.get_tensor("emb-default_values")
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(options=counted, bank=lambda: tf.random.normal([4, WIDTH]))
        tf.train.Saver().restore(session, path)
        rows = session.run(model.rows, {model.keys: [1, 3]})
        assert np.array_equal(rows, [bank[1], [0.0] * WIDTH]), "the third time for key 1"


def test_a_checkpoint_is_of_one_moment(tmp_path: Path) -> None:
    """While a thread trains, all rows that are saved are of the same step."""
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(slots=False)
        table = model.parts[0]
        ones = tf.ones([tf.size(model.keys), WIDTH])
        step = apply_to_keys("GradientDescent", table.handle, [], [1.0], model.keys, ones)
        saver = tf.train.Saver([table])
        session.run(model.initialize)
        keys = np.arange(20_000)
        session.run(model.rows, {model.keys: keys})
        stop = threading.Event()

        def train() -> None:
            while not stop.is_set():
                session.run(step, {model.keys: keys})

        trainer = threading.Thread(target=train)
        trainer.start()
        try:
            paths = [saver.save(session, str(tmp_path / str(one))) for one in range(3)]
        finally:
            stop.set()
            trainer.join()
        for path in paths:
            assert len(np.unique(tf.train.load_variable(path, "emb-values"))) == 1


def test_a_killed_process_leaves_the_last_checkpoint_whole(tmp_path: Path) -> None:
    """It is killed while it writes: what the folder says is the latest is restored."""
    program = Forked(save_forever, [str(tmp_path)], tmp_path)
    while not (tmp_path / "second").exists():
        assert program.process.is_alive()
    kill(program.process)
    path = tf.train.latest_checkpoint(str(tmp_path))
    model = Model(slots=False)
    saver = tf.train.Saver([model.parts[0]])
    with tf.Session() as session:
        saver.restore(session, path)
        rows = session.run(model.exported)[0].values
        assert len(rows) == MANY and len(np.unique(rows)) == 1


def save_forever(folder: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(slots=False)
        saver = tf.train.Saver([model.parts[0]], max_to_keep=2)
        session.run(model.initialize)
        session.run(model.rows, {model.keys: np.arange(MANY)})
        for number in range(10_000):
            saver.save(session, folder + "/model.ckpt", number, write_meta_graph=False)
            if number == 1:
                Path(folder, "second").touch()
