"""Incremental checkpoints: a full one, and what has changed since."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.dynamic.incremental import IncrementalSaver, newest_increment
from graph_opt.dynamic.incremental_hook import IncrementalCheckpointHook
from graph_opt.export.users_graph import is_ours
from graph_opt.ops import dynamic_content
from tests.dynamic.saved_tables import KEYS, Model
from tests.release_features import needs_estimators


def test_an_increment_has_what_has_changed_since_the_full_checkpoint(tmp_path: Path) -> None:
    folder = str(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(parts=2)
        saver = tf.train.Saver()
        incremental = IncrementalSaver(saver)
        gone = [
            dynamic_content.erase_rows(part.handle, tf.constant([KEYS[0]], tf.int64))
            for part in model.parts
        ]
        session.run(model.initialize)
        model.train_on(session, KEYS)
        with pytest.raises(tf.errors.FailedPreconditionError, match="save one with the saver"):
            incremental.save_in(session, folder, 1)
        full = saver.save(session, folder + "/model.ckpt", model.step)
        model.train_on(session, KEYS[1:3])
        first = incremental.save_in(session, folder, model.step)
        model.train_on(session, [KEYS[4], 77])
        session.run(gone)
        last = incremental.save_in(session, folder, model.step)
        contents = model.contents(session)
    assert (
        newest_increment(full)
        == last
        == folder + "/.incremental_checkpoint/incremental_model.ckpt-3"
    )
    reader = tf.train.load_checkpoint(last)
    keys = [key for part in (0, 1) for key in reader.get_tensor("emb/part_{}-keys".format(part))]
    assert sorted(keys) == sorted([*KEYS[1:3], KEYS[4], 77])
    removed = [reader.get_tensor("emb/part_{}-keys_removed".format(part)) for part in (0, 1)]
    assert [key for part in removed for key in part] == [KEYS[0]]
    for parts in (1, 3):
        with tf.Graph().as_default(), tf.Session() as session:
            model = Model(parts)
            saver = tf.train.Saver()
            incremental = IncrementalSaver(saver)
            incremental.incremental_restore(session, full, first)
            assert 77 not in model.contents(session) and KEYS[0] in model.contents(session)
            saver.restore(session, full)
            assert model.contents(session) == contents and session.run(model.step) == 3
            # Goes on from there: the next increment has what both have changed.
            model.train_on(session, [78])
            path = incremental.save_in(session, str(tmp_path / str(parts)), model.step)
            reader = tf.train.load_checkpoint(path)
            names = [name for name in reader.get_variable_to_shape_map() if name.endswith("-keys")]
            found = {int(key) for name in names for key in reader.get_tensor(name)}
            assert found == {*KEYS[1:3], KEYS[4], 77, 78}


def test_increments_of_other_checkpoints_are_left_alone(tmp_path: Path) -> None:
    folder = str(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model()
        saver = tf.train.Saver()
        incremental = IncrementalSaver(saver)
        session.run(model.initialize)
        old = saver.save(session, folder + "/model.ckpt", 1)
        increment = incremental.save_in(session, folder, 2)
        full = saver.save(session, folder + "/model.ckpt", 3)
        assert (newest_increment(old), newest_increment(full)) == (increment, None)
        with pytest.raises(ValueError, match=r"since model\.ckpt-1, not since"):
            incremental.incremental_restore(session, full, increment)
        later = saver.save(session, folder + "/other.ckpt", 1)
        assert newest_increment(later) is None


def test_monitored_sessions_write_and_restore_increments(tmp_path: Path) -> None:
    folder = str(tmp_path)

    def train(steps: int) -> int:
        with tf.Graph().as_default():
            model = Model()
            hooks = [IncrementalCheckpointHook(folder, save_secs=1e-9)]
            session = tf.train.MonitoredTrainingSession(
                checkpoint_dir=folder,
                hooks=hooks,
                save_checkpoint_secs=1e6,
                log_step_count_steps=None,
            )
            begun = session.run(model.step)
            for step in range(begun, begun + steps):
                session.run(model.train, {model.keys: [step]})
            assert len(session.run(model.exported)[0].keys) == begun + steps
            session._close_internal(RuntimeError("killed"))  # no last checkpoint
            return int(begun)

    assert [train(3), train(2), train(1)] == [0, 3, 5]
    kept = [path.name for path in tmp_path.glob(".incremental_checkpoint/*.index")]
    assert len(kept) == 5 and "incremental_model.ckpt-6.index" in kept, "max_to_keep of all runs"


@needs_estimators
def test_an_estimator_writes_and_restores_increments(tmp_path: Path) -> None:
    """Its saver has no ops yet when hooks begin."""
    folder, steps = str(tmp_path), 4

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        rows = tf.nn.embedding_lookup(graph_opt.get_embedding_variable("users", 2), features)
        loss = tf.reduce_sum(rows)
        train = tf.train.AdamOptimizer().minimize(loss, tf.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, rows, loss, train)

    def train() -> None:
        hook = IncrementalCheckpointHook(folder, save_secs=1e-6)
        config = tf.estimator.RunConfig(folder, save_checkpoints_steps=1000)
        estimator = tf.estimator.Estimator(model_fn, config=config)
        estimator.train(lambda: tf.data.Dataset.range(steps).batch(1), hooks=[hook])

    train()
    assert Path(folder, ".incremental_checkpoint").is_dir()
    last = newest_increment(folder + "/model.ckpt-0")
    assert last is not None and tf.train.load_variable(last, "users-keys").size > 0
    train()
    keys = tf.train.load_variable(tf.train.latest_checkpoint(folder), "users-keys")
    assert sorted(keys) == list(range(steps))


def test_scripts_of_deeprec_ask_for_increments(tmp_path: Path) -> None:
    """By arguments of sessions, savers, scaffolds and hooks, or by DeepRec's module."""
    saved: List[int] = []

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            saved.append(global_step_value)

    def increments(folder: Path, **arguments: Any) -> List[str]:
        model = Model()
        if "hooks" in arguments:
            arguments["hooks"] = arguments["hooks"](str(folder))
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(folder), save_checkpoint_secs=1e6, **arguments
        ) as session:
            for key in (1, 2):
                session.run(model.train, {model.keys: [key]})
        return [path.name for path in folder.glob(".incremental_checkpoint/*.index")]

    asking: List[Dict[str, Any]] = [
        {"save_incremental_checkpoint_secs": 1e-9, "saving_listeners": [Listener()]},
        {
            "hooks": lambda folder: [
                tf.train.CheckpointSaverHook(folder, save_secs=1e6, incremental_save_secs=1e-9)
            ],
        },
    ]
    with graph_opt.install():
        for number, arguments in enumerate(asking):
            with tf.Graph().as_default():
                names = increments(tmp_path / str(number), **arguments)
                assert "incremental_model.ckpt-2.index" in names
        assert saved == [0, 2]
        with tf.Graph().as_default(), tf.Session() as session:
            from tensorflow.python.training import incremental_saver

            model = Model()
            saver = tf.train.Saver(incremental_save_restore=True)
            incremental = incremental_saver._get_incremental_saver(True, saver)
            assert incremental is incremental_saver._get_incremental_saver(True, saver)
            session.run(model.initialize)
            saver.save(session, str(tmp_path / "model.ckpt"), 1)
            path = incremental.incremental_save(session, str(tmp_path / "i.ckpt"), global_step=2)
            assert tf.train.load_variable(path, "emb-keys").size == 0
            assert incremental_saver._get_incremental_saver(False, saver) is None
        with tf.Graph().as_default():
            scaffold = tf.train.Scaffold(incremental_save_restore=True)
            Model()
            scaffold.finalize()
            assert isinstance(scaffold.saver.save.__self__, IncrementalSaver)


@needs_estimators
def test_an_estimators_export_follows_the_increments(tmp_path: Path) -> None:
    """TensorFlow's ops alone serve it, and catch it up."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        table = graph_opt.get_embedding_variable("users", 2)
        rows = tf.nn.embedding_lookup(table, features["keys"])
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdamOptimizer().minimize(tf.reduce_sum(rows), step)
        loss = tf.reduce_sum(rows)
        return tf.estimator.EstimatorSpec(mode, {"rows": rows}, loss, train)

    def receiver() -> Any:
        keys = tf.placeholder(tf.int64, [None], "keys")
        return tf.estimator.export.ServingInputReceiver({"keys": keys}, {"keys": keys})

    found = []
    with tf.Graph().as_default(), tf.Session() as session:
        keys = tf.placeholder(tf.int64, [None])
        spec = model_fn({"keys": keys}, None, "train")
        saver = tf.train.Saver()
        incremental = IncrementalSaver(saver)
        session.run(tf.global_variables_initializer())
        for step, batch in enumerate(([1, 2], [2, 3], [3, 4]), 1):
            session.run(spec.train_op, {keys: batch})
            if step == 1:
                saver.save(session, str(tmp_path / "model.ckpt"), step)
            else:
                found.append(incremental.save_in(session, str(tmp_path), step))
        rows = session.run(spec.predictions["rows"], {keys: [1, 2, 3, 4]})
    with graph_opt.install():
        estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
        exported = estimator.export_saved_model(
            str(tmp_path / "export"), receiver, save_incr_model=True
        )
    with tf.Graph().as_default() as graph, tf.Session() as session:
        meta = tf.saved_model.loader.load(session, ["serve"], tf.compat.as_str(exported))
        assert not [node for node in graph.as_graph_def().node if is_ours(node.op)]
        (definition,) = tf.get_collection("incremental_saver_def")
        served = meta.signature_def["serving_default"].outputs["rows"].name
        increments = tf.train.Saver(saver_def=tf.train.SaverDef.FromString(definition))
        increments.restore(session, found[-1])
        np.testing.assert_array_equal(session.run(served, {"keys:0": [1, 2, 3, 4]}), rows)
