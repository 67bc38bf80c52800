"""Graphs with dynamic tables, served by TensorFlow alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.dynamic.incremental import IncrementalSaver
from graph_opt.dynamic.options import Bank, CounterAdmission, DynamicTableOptions
from graph_opt.export.users_graph import is_ours
from graph_opt.ops.dynamic_content import erase_rows
from graph_opt.sharding.initializers import Drawn
from tests.dynamic.saved_tables import KEYS, WIDTH, Model
from tests.export.served_model import load_without_graph_opt
from tests.quick_cases import slow_but

ASKED = [KEYS[0], 5, KEYS[2], -1, KEYS[3]]
BANK = DynamicTableOptions(Bank(4))
COUNTED = DynamicTableOptions(Bank(4), no_permission=0.25, admission=CounterAdmission(2))
DRAWN = DynamicTableOptions(Drawn("normal", 0.75, 0.1))


def bank() -> tf.Tensor:
    return tf.random.normal([4, WIDTH])


def test_what_is_exported_is_served_without_graph_opt(tmp_path: Path) -> None:
    requests, expected = [], []
    for number, (parts, options, of_bank) in enumerate(
        [(1, BANK, bank), (3, BANK, bank), (1, COUNTED, bank), (2, DRAWN, None)]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with tf.Graph().as_default(), tf.Session() as session:
            model = Model(parts, options, bank=of_bank, exports=False)
            served = tf.identity(model.read, "served")
            session.run(model.initialize)
            for keys in (KEYS, KEYS, KEYS[:2]):
                model.train_on(session, keys)
            path = tf.train.Saver(sharded=parts > 1).save(session, str(folder / "model.ckpt"))
            tf.saved_model.simple_save(
                session, str(folder / "served"), {"keys": model.keys}, {"rows": served}
            )
            rows = session.run(served, {model.keys: ASKED})
            if options is DRAWN:
                rows[[1, 3]] = 0.75
            keys_name, train = model.keys.name, model.train.name
        asked = {"feed": {keys_name: ASKED}, "fetch": "served:0"}
        requests.append({"kind": "checkpoint", "path": path, **asked})
        requests.append(
            {"kind": "saved_model", "path": str(folder / "served"), "tags": ["serve"],
             "feed": {"keys": ASKED}, "fetch": "rows"}
        )  # fmt: skip
        expected += [rows, rows]
    trains = {"feed": {keys_name: KEYS}, "fetch": train}
    requests.append({"kind": "checkpoint", "path": path, **trains})
    results = load_without_graph_opt(requests, tmp_path)
    for request, result, rows in zip(requests, results, expected):
        assert not isinstance(result, str), (request, result)
        np.testing.assert_array_equal(np.array(result, np.float32), rows, str(request))
    assert "TensorFlow alone can serve" in results[-1]


@pytest.mark.parametrize("parts", slow_but([1, 2], 2))
def test_a_served_graph_saves_what_is_restored_again(parts: int, tmp_path: Path) -> None:
    """The exported graph is run here by stock ops: saved, restored and looked up."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        model = Model(parts, BANK, bank=bank, exports=False)
        saver = tf.train.Saver()
        session.run(model.initialize)
        model.train_on(session, KEYS)
        path = saver.save(session, str(tmp_path / "trained"))
        rows = session.run(model.read, {model.keys: ASKED})
        meta = tf.train.export_meta_graph(saver_def=saver.saver_def, graph=graph)
        names = model.keys.name, model.read.name
    assert not [node.name for node in meta.graph_def.node if is_ours(node.op)]
    with tf.Graph().as_default(), tf.Session() as session:
        stock = tf.train.import_meta_graph(meta)
        session.run("init")
        again = session.run(names[1], {names[0]: ASKED})
        assert again.shape == (len(ASKED), WIDTH), "an initialized table is empty"
        stock.restore(session, path)
        np.testing.assert_array_equal(session.run(names[1], {names[0]: ASKED}), rows)
        path = stock.save(session, str(tmp_path / "served"))
        frozen = tf.graph_util.convert_variables_to_constants(
            session, session.graph_def, [names[1].split(":")[0]]
        )
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(frozen, name="")
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"'emb.*', whose keys are lost"):
            session.run(names[1], {names[0]: ASKED})
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(2, BANK, bank=bank)
        tf.train.Saver().restore(session, path)
        np.testing.assert_array_equal(session.run(model.read, {model.keys: ASKED}), rows)


def test_increments_catch_up_a_served_graph(tmp_path: Path) -> None:
    """What serves loads the full checkpoint once, then increments of it, by stock ops."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        model = Model(2, BANK, bank=bank, exports=False)
        saver = tf.train.Saver()
        incremental = IncrementalSaver(saver)
        session.run(model.initialize)
        model.train_on(session, KEYS)
        full = saver.save(session, str(tmp_path / "model"), 1)
        removed = tf.placeholder(tf.int64, [None])
        gone = [erase_rows(part.handle, removed) for part in model.parts]
        found = []
        for step, keys, lost in ((2, [KEYS[0], 5], [KEYS[3]]), (3, [5, 6, KEYS[2]], KEYS + [5, 6])):
            model.train_on(session, keys)
            session.run(gone, {removed: lost})
            path = incremental.save_in(session, str(tmp_path), step)
            found.append((path, session.run(model.read, {model.keys: [*ASKED, 6]})))
        meta = tf.train.export_meta_graph(saver_def=saver.saver_def, graph=graph)
        increments = incremental.saver_def
        names = model.keys.name, model.read.name
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(meta).restore(session, full)
        for path, rows in found:
            tf.train.Saver(saver_def=increments).restore(session, path)
            served = session.run(names[1], {names[0]: [*ASKED, 6]})
            np.testing.assert_array_equal(served, rows)


def test_a_frozen_graph_cannot_have_the_rows() -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        model = Model(exports=False)
        session.run(model.initialize)
        with pytest.raises(tf.errors.InvalidArgumentError, match="table emb has no value"):
            tf.graph_util.convert_variables_to_constants(
                session, graph.as_graph_def(), [model.read.op.name]
            )


@pytest.mark.parametrize("parts", slow_but([1, 2], 2))
def test_an_imported_graph_is_trained_on_where_graph_opt_is(parts: int, tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(parts, BANK, bank=bank, exports=False)
        train, keys, rows = model.train.name, model.keys.name, model.rows.name
        saver = tf.train.Saver()
        session.run(model.initialize)
        model.train_on(session, KEYS)
        path = saver.save(session, str(tmp_path / "model"))
        model.train_on(session, [KEYS[0], 7, 8])
        expected = session.run(rows, {keys: [*ASKED, 7, 8]})
    with tf.Graph().as_default() as graph, tf.Session() as session:
        saver = graph_opt.train.import_meta_graph(path + ".meta")
        saver.restore(session, path)
        session.run(train, {keys: [KEYS[0], 7, 8]})
        np.testing.assert_array_equal(session.run(rows, {keys: [*ASKED, 7, 8]}), expected)
        path = saver.save(session, str(tmp_path / "later"))
        assert not [node.name for node in graph.as_graph_def().node if is_ours(node.op)]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(path + ".meta").restore(session, path)
        served = session.run(rows, {keys: [*ASKED, 7, 8]})
        np.testing.assert_array_equal(served[-2:], expected[-2:])
        with pytest.raises(tf.errors.InvalidArgumentError, match="can serve, but not train"):
            session.run(train, {keys: KEYS})
