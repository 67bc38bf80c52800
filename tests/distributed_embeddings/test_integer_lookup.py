"""Keys get numbers in the order in which they are first seen."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from tensorflow.python.eager import context

import graph_opt
from graph_opt import distributed_embeddings as de
from graph_opt.compat import tf

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def test_keys_of_any_shape_and_value_are_numbered_until_the_vocabulary_is_full() -> None:
    with context.eager_mode():
        layer = de.IntegerLookup(4)
        assert layer(np.array([[7, -1], [LEAST, 7]])).numpy().tolist() == [[1, 2], [3, 1]]
        assert layer(tf.constant([5, 7], tf.int32), add=False).numpy().tolist() == [0, 1]
        assert layer(np.array([MOST, 6, 7])).numpy().tolist() == [4, 0, 1]
        assert layer.get_vocabulary() == [-1, 7, -1, LEAST, MOST]
        ragged = layer(tf.ragged.constant([[6, 7], []], dtype=tf.int64))
        assert ragged.to_list() == [[0, 1], []]
        assert layer(tf.sparse.from_dense([[0, 7]])).values.numpy().tolist() == [1]
        assert layer(7).numpy() == 1
        again = de.IntegerLookup.from_config(layer.get_config())
        assert (again.max_tokens, again.get_vocabulary()) == (4, [-1])
        with pytest.raises(TypeError, match="numbers integers, not float32"):
            layer([1.5])
    wrongs: List[Any] = [0, -2, 1.5, True, tf.constant(0)]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="max_tokens is"):
            de.IntegerLookup(wrong)


def test_functions_models_and_threads_share_the_vocabulary(tmp_path: Path) -> None:
    with context.eager_mode():
        layer = de.IntegerLookup(tf.constant(1000), use_gpu=True)
        traced = tf.function(layer)
        keys = np.random.default_rng(0).integers(0, 2000, (4, 5000))

        def work(mine: np.ndarray) -> None:
            with context.eager_mode():
                for part in np.split(mine, 50):
                    traced(tf.constant(part))

        threads = [threading.Thread(target=work, args=(mine,)) for mine in keys]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        vocabulary = layer.get_vocabulary()
        assert len(vocabulary) == len(set(vocabulary)) == 1001
        assert layer(np.array(vocabulary[1:])).numpy().tolist() == list(range(1, 1001))

        model = tf.keras.Sequential([layer, de.Embedding(1001, 2, combiner="sum")])
        pooled = model.predict(keys[:1, :6], verbose=0)
        assert pooled.shape == (1, 2)
        model.save_weights(str(tmp_path / "model"))
        layer.vocabulary.assign(tf.zeros_like(layer.vocabulary))
        assert layer(keys[0, :1], add=False).numpy().tolist() == [0]
        model.load_weights(str(tmp_path / "model"))
        assert layer.get_vocabulary() == vocabulary
        np.testing.assert_array_equal(model.predict(keys[:1, :6], verbose=0), pooled)


def test_a_session_saves_and_restores_the_vocabulary(tmp_path: Path) -> None:
    def run(keys: List[int], path: Any = None) -> Any:
        with tf.Graph().as_default(), tf.Session() as session:
            layer = de.IntegerLookup(tf.placeholder_with_default(3, []), name="numbers")
            found = layer(tf.constant(keys, tf.int64))
            saver = tf.train.Saver()
            session.run(tf.global_variables_initializer())
            if path is not None:
                saver.restore(session, path)
            numbers = session.run(found).tolist()
            assert layer.get_vocabulary() == layer.get_vocabulary(session)
            return numbers, saver.save(session, str(tmp_path / "model"))

    numbers, path = run([9, 8, 9])
    assert numbers == [1, 2, 1]
    assert run([5, 8, 4, 9], path)[0] == [3, 2, 0, 1]
    layer = de.IntegerLookup(2)
    with pytest.raises(RuntimeError, match="needs session="):
        layer.get_vocabulary()


def test_numbers_are_prefetched_with_the_lookup_behind_them() -> None:
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_async_embedding = True
    options.async_embedding_options.threads_num = 1
    options.async_embedding_options.capacity = 2
    keys = np.random.default_rng(0).integers(-50, 50, (6, 4))
    dataset = tf.data.Dataset.from_tensor_slices(keys)
    batch = graph_opt.staged(tf.data.make_one_shot_iterator(dataset).get_next())
    numbers = de.IntegerLookup(200)(batch)
    table = tf.get_variable("table", initializer=tf.range(201.0)[:, None])
    rows = tf.nn.embedding_lookup(table, numbers)
    loss = tf.reduce_sum(tf.square(rows))
    train = tf.train.GradientDescentOptimizer(0.0).minimize(loss)
    with graph_opt.train.MonitoredTrainingSession(config=config) as session:
        found = [session.run([rows, train])[0].ravel().tolist() for _ in range(6)]
    seen: List[int] = []
    for key in keys.ravel():
        if key not in seen:
            seen.append(key)
    assert found == [[seen.index(key) + 1.0 for key in row] for row in keys]
    report = graph_opt.report()
    assert report is not None and len(report.moved) == 1
