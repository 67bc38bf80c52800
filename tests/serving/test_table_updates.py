"""Updates of an export's tables, while requests run and for servers that start later."""

from __future__ import annotations

import functools
import shutil
import struct
import threading
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import google_crc32c
import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.serving.table_lists import ASSET
from tests.serving.mapped_models import (
    Exported,
    Loaded,
    Server,
    assert_predicts,
    export,
    fill,
    mapped_memory,
    set_rows,
    two_tables,
)
from tests.serving.models_to_serve import of_resources

LARGE = functools.partial(two_tables, rows=1 << 16, width=16)
PAGE = 4096


def update(exported: Exported, *checkpoints: str, output: Optional[str] = None) -> Any:
    return graph_opt.update_served(str(exported.folder), checkpoints, output)


def test_a_whole_checkpoint_replaces_all_tables(tmp_path: Path) -> None:
    exported = export(two_tables, tmp_path, fill(2.0), fill(3.0))
    with Loaded(exported) as loaded:
        assert loaded.update("") == 1
        for number, checkpoint in enumerate(exported.checkpoints, 1):
            written = update(exported, checkpoint)
            assert written.folder == str(exported.folder / "updates" / str(number))
            assert sorted(written.replaced) == ["first", "kernel", "second"]
            assert loaded.update(written.folder) == 1 + number
            assert_predicts(loaded, exported, number)
        assert loaded.update("") == 3
        assert loaded.update(exported.folder) == 4  # What was exported.
        assert_predicts(loaded, exported, 0)


def test_whoever_waits_is_told_how_far_an_update_is(tmp_path: Path) -> None:
    exported = export(two_tables, tmp_path, fill(2.0))
    told: List[Tuple[int, int]] = []
    graph_opt.update_served(
        str(exported.folder), exported.checkpoints, watch=lambda *done: told.append(done)
    )
    assert len(told) == 3 and told == sorted(told)
    assert told[-1][0] == told[-1][1] > told[0][0] > 0


def test_servers_that_start_later_start_from_the_last_update(tmp_path: Path) -> None:
    exported = export(two_tables, tmp_path, fill(2.0), fill(3.0))
    update(exported, exported.checkpoints[0])
    elsewhere = str(tmp_path / "elsewhere")
    assert not update(exported, exported.checkpoints[1], output=elsewhere).is_start
    moved = tmp_path / "moved"
    shutil.copytree(str(exported.folder), str(moved))
    shutil.rmtree(str(exported.folder))
    with Loaded(exported, moved) as loaded:
        assert_predicts(loaded, exported, 1)
        assert loaded.update(elsewhere) == 2
        assert_predicts(loaded, exported, 2)
    shutil.rmtree(str(moved / "updates" / "1"))
    with pytest.raises(tf.errors.NotFoundError, match="newest says to start from it; remove"):
        Loaded(exported, moved)
    (moved / "updates" / "newest").unlink()
    with Loaded(exported, moved) as loaded:
        assert_predicts(loaded, exported, 0)


def test_partitions_are_updated_from_whole_tensors(tmp_path: Path) -> None:
    exported = export(of_resources, tmp_path, fill(2.0))
    written = update(exported, exported.checkpoints[0])
    assert len(written.replaced) == 8
    with Loaded(exported) as loaded:
        assert_predicts(loaded, exported, 1)


def test_few_rows_are_patched_in_pages_of_the_process(tmp_path: Path) -> None:
    rows = [0, 1, 3000, (1 << 16) - 1]
    exported = export(LARGE, tmp_path, set_rows("first", rows, 7.0))
    written = update(exported, exported.checkpoints[0])
    assert (written.patched, written.replaced) == ({"first": 4}, [])
    assert sorted(written.unchanged) == ["kernel", "second"] and written.num_bytes < 3 * PAGE
    with Loaded(exported) as loaded:
        assert_predicts(loaded, exported, 1)
        memory = mapped_memory(str(exported.folder))
        assert memory.private == 3 * PAGE and memory.files == 3


def test_the_last_checkpoint_that_has_a_table_counts(tmp_path: Path) -> None:
    """Increments, as `IncrementalSaver` writes them, have some tables."""
    exported = export(two_tables, tmp_path, fill(2.0), fill(3.0))
    increment = _increment(tmp_path, {"first": np.full([64, 4], 5.0, np.float32)})
    written = update(exported, exported.checkpoints[0], increment)
    assert sorted(written.replaced) == ["first", "kernel", "second"]
    with Loaded(exported) as loaded:
        found = loaded.predict(exported.request)
        assert (found["first"] == 5.0).all() and (found["second"] == 2.0).all()
        alone = update(exported, increment)
        assert sorted(alone.missing) == ["kernel", "second"]
        assert "not in a checkpoint, and so as exported: second, kernel" in str(alone)
        loaded.update(alone.folder)
        found = loaded.predict(exported.request)
        assert (found["first"] == 5.0).all()
        np.testing.assert_array_equal(found["kernel"], exported.predictions[0]["kernel"])


def test_increments_of_ours_are_read(tmp_path: Path) -> None:
    exported = export(two_tables, tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        made = two_tables()
        saver = tf.train.Saver()
        incremental = graph_opt.train.IncrementalSaver(saver)
        session.run(tf.global_variables_initializer())
        saver.save(session, str(tmp_path / "trained" / "model.ckpt"), 1)
        fill(4.0)(session)
        increment = incremental.save_in(session, str(tmp_path / "trained"), 2)
        feeds = {made.inputs["ids"]: exported.request["ids"]}
        expected = session.run(made.outputs, feeds)
    update(exported, increment)
    with Loaded(exported) as loaded:
        found = loaded.predict(exported.request)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_rows_of_deeprecs_increments_are_patched(tmp_path: Path) -> None:
    exported = export(LARGE, tmp_path)
    numbers = np.array([9, 3, 60000])
    rows = np.arange(3 * 16, dtype=np.float32).reshape(3, 16)
    increment = _increment(
        tmp_path, {"first-sparse_incr_keys": numbers, "first-sparse_incr_values": rows}
    )
    assert update(exported, increment).patched == {"first": 3}
    with Loaded(exported) as loaded:
        found = loaded.predict({"ids": np.array([3, 60000, 9, 4])})["first"]
        before = export_rows(exported)
    np.testing.assert_array_equal(found, [*rows[[1, 2, 0]], before[4]])


def test_rows_of_deeprecs_increments_of_a_partition_are_its_own(tmp_path: Path) -> None:
    part = "tables/f0/part_1"
    exported = export(of_resources, tmp_path, set_rows(part, range(8), 7.0))
    rows = np.full([8, 4], 7.0, np.float32)
    increment = _increment(
        tmp_path, {part + "-sparse_incr_keys": np.arange(8), part + "-sparse_incr_values": rows}
    )
    assert update(exported, increment).replaced == [part]
    assert (exported.predictions[0]["scores"] != exported.predictions[1]["scores"]).any()
    with Loaded(exported) as loaded:
        assert_predicts(loaded, exported, 1)


def export_rows(exported: Exported) -> np.ndarray:
    reader = tf.train.load_checkpoint(str(exported.folder / "variables" / "variables"))
    return np.asarray(reader.get_tensor("first"))


@pytest.mark.parametrize("is_patched", [False, True])
def test_each_of_many_requests_sees_one_version(is_patched: bool, tmp_path: Path) -> None:
    """Tables consist of the number of their version, and requests look up in several groups."""
    make = functools.partial(two_tables, rows=4096, width=16, initial=1.0)
    changes = [functools.partial(_number, is_patched, float(number)) for number in range(2, 6)]
    exported = export(make, tmp_path, *changes)
    updates = [update(exported, checkpoint) for checkpoint in exported.checkpoints]
    assert all(("first" in one.patched) is is_patched for one in updates)
    with Loaded(exported) as loaded:
        seen = _seen_during(loaded, [updates[turn % len(updates)].folder for turn in range(40)])
        assert loaded.update("") == 41
    assert len({min(each["first"]) for each in seen}) > 1
    for each in seen:
        (number,) = each["first"]
        assert each["kernel"] == {16 * number} and each["second"] == {number}


def _number(is_patched: bool, number: float, session: Any) -> None:
    """Has what requests look up consist of a number: all rows of tables, or the first ones."""
    if not is_patched:
        fill(number)(session)
    for variable, rows in (("first", 200), ("second", 200), ("kernel", 16)):
        set_rows(variable, range(rows), number)(session)


def _seen_during(loaded: Loaded, updates: List[str]) -> List[Dict[str, set]]:
    """The different numbers in each output, of requests that run meanwhile."""
    seen: List[Dict[str, set]] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            found = loaded.predict({"ids": np.arange(64)})
            seen.append({name: set(np.unique(values)) for name, values in found.items()})

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for folder in updates:
        loaded.update(folder)
    stop.set()
    for thread in threads:
        thread.join()
    return seen


def test_an_old_version_is_unmapped_when_its_last_request_ends(tmp_path: Path) -> None:
    exported = export(two_tables, tmp_path, fill(2.0))
    written = update(exported, exported.checkpoints[0], output=str(tmp_path / "update"))
    part = str(exported.folder)
    started, released = threading.Event(), threading.Event()

    def hold(values: np.ndarray) -> np.ndarray:
        started.set()
        released.wait()
        return values

    with Loaded(exported) as loaded:
        graph = loaded.session.graph
        with graph.as_default():
            held = tf.py_func(hold, [graph.get_tensor_by_name("ids:0")], tf.int64)
            with tf.control_dependencies([held]):
                table = tf.identity(graph.get_tensor_by_name("graph_opt_tables/values:0"))
        found: List[np.ndarray] = []
        ids = {"ids:0": exported.request["ids"]}
        request = threading.Thread(target=lambda: found.append(loaded.session.run(table, ids)))
        request.start()
        started.wait()
        loaded.update(written.folder)
        assert mapped_memory(part).files == 1  # The table that the request is about to read.
        assert_predicts(loaded, exported, 1)
        released.set()
        request.join()
        np.testing.assert_array_equal(found[0], export_rows(exported))
        del found[:]
        assert mapped_memory(part).files == 0


def test_tables_without_changes_keep_their_memory(tmp_path: Path) -> None:
    exported = export(LARGE, tmp_path, set_rows("first", range(1 << 16), 7.0))
    written = update(exported, exported.checkpoints[0], output=str(tmp_path / "update"))
    assert written.replaced == ["first"]

    def address(name: str) -> List[str]:
        with open("/proc/self/maps") as maps:
            return [line.split("-")[0] for line in maps if name + ".table" in line]

    with Loaded(exported) as loaded:
        before = address("second")
        loaded.update(written.folder)
        assert address("second") == before and len(before) == 1
        assert_predicts(loaded, exported, 1)


def test_servers_get_updates(tmp_path: Path) -> None:
    exported = export(two_tables, tmp_path, fill(2.0))
    written = update(exported, exported.checkpoints[0], output=str(tmp_path / "update"))
    with Server(exported) as server:
        with pytest.raises(
            AssertionError, match=r"(?s)NotFoundError.*nowhere/graph_opt_tables\.txt"
        ):
            server.call("update_tables", {"path": str(tmp_path / "nowhere")})
        for number, path in enumerate(["", written.folder]):
            assert server.call("update_tables", {"path": path})["version"] == 1 + number
            found = server.call("serving_default", exported.request)
            for name, values in exported.predictions[number].items():
                np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize(
    "damage, error, message",
    [
        ("export", tf.errors.InvalidArgumentError, "is of export 1234, and this is export"),
        ("name", tf.errors.InvalidArgumentError, "the served graph has no table 'f1rst'"),
        ("shape", tf.errors.InvalidArgumentError, r"has shape \[9,16\] and type float"),
        ("row", tf.errors.InvalidArgumentError, "has 65536 rows, and so no row 99999"),
        ("rows", tf.errors.DataLossError, "rows of table 'first' are not those of its checksum"),
        ("cut", tf.errors.DataLossError, "table 'first' needs"),
        ("gone", tf.errors.NotFoundError, "cannot be opened"),
    ],
)
def test_a_wrong_update_leaves_what_is_served(
    damage: str, error: Any, message: str, tmp_path: Path
) -> None:
    exported = export(LARGE, tmp_path, set_rows("first", [3, 5], 7.0))
    written = update(exported, exported.checkpoints[0], output=str(tmp_path / "update"))
    whole = tmp_path / "whole"
    shutil.copytree(written.folder, str(whole))
    _damage(Path(written.folder), damage)
    with Loaded(exported) as loaded:
        with pytest.raises(error, match=message):
            loaded.update(written.folder)
        assert loaded.update("") == 1
        assert_predicts(loaded, exported, 0)
        assert loaded.update(whole) == 2
        assert_predicts(loaded, exported, 1)


def test_wrong_checkpoints_are_told(tmp_path: Path) -> None:
    exported = export(two_tables, tmp_path, lambda session: None)

    def refused(error: Any, message: str, **tensors: np.ndarray) -> None:
        increment = _increment(
            tmp_path, {name.replace("0", "-"): tensors[name] for name in tensors}
        )
        with pytest.raises(error, match=message):
            update(exported, increment)

    wrong = tf.errors.InvalidArgumentError
    refused(wrong, r"'first' has shape \[9, 4\], and the exported", first=np.zeros([9, 4]))
    refused(wrong, r"'first' has shape \[64, 5\]", first=np.zeros([64, 5]))
    rows = {"first0sparse_incr_keys": np.array([64]), "first0sparse_incr_values": np.zeros([1, 4])}
    refused(wrong, "has row 64 of 'first', of which there are 64", **rows)
    rows["first0sparse_incr_keys"] = np.array([1, 2])
    refused(wrong, r"'first-sparse_incr_values' has shape \[1, 4\]", **rows)
    refused(tf.errors.DataLossError, "and no 'first-sparse_incr_values'",
            first0sparse_incr_keys=np.array([1]))  # fmt: skip
    refused(tf.errors.FailedPreconditionError, "nothing differs.*3 are in none of them",
            other=np.zeros([1]))  # fmt: skip
    with pytest.raises(tf.errors.FailedPreconditionError, match="nothing differs"):
        update(exported, exported.checkpoints[0])
    with pytest.raises(tf.errors.NotFoundError, match="none: there is no checkpoint"):
        update(exported, str(tmp_path / "none"))
    assert not list((exported.folder / "updates").glob("*"))


def test_exports_without_mapped_tables_have_no_updates(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="has no mapped tables"):
        graph_opt.update_served(str(tmp_path), ["model"])


def _increment(folder: Path, tensors: Dict[str, np.ndarray]) -> str:
    """A checkpoint with these tensors."""
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {
            name: tf.Variable(value, name="v{}".format(place), use_resource=True)
            for place, (name, value) in enumerate(tensors.items())
        }
        session.run(tf.global_variables_initializer())
        path = str(folder / "increments" / "incremental_model.ckpt")
        return str(tf.train.Saver(variables).save(session, path, write_meta_graph=False))


def _damage(folder: Path, damage: str) -> None:
    (path,) = folder.glob("*.table")
    data = path.read_bytes()
    if damage == "export":
        lists = folder / ASSET
        lists.write_text("graph_opt tables 1 1234\n" + lists.read_text().split("\n", 1)[1])
    elif damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "rows":
        path.write_bytes(data[:-1] + b"\x01")
    else:
        page, rows = bytearray(data[:4092]), bytearray(data[4096:])
        if damage == "name":
            page[136:141] = b"f1rst"
        elif damage == "shape":
            page[24:32] = struct.pack("<q", 9)
        else:
            rows[8:16] = struct.pack("<q", 99999)
            page[128:132] = struct.pack("<I", google_crc32c.value(bytes(rows)))
        sealed = bytes(page) + struct.pack("<I", google_crc32c.value(bytes(page)))
        path.write_bytes(sealed + bytes(rows))
