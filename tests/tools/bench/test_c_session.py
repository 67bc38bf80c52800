"""Requests through TensorFlow's C API."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tools.bench.serving.c_session import CSession

TEXTS = np.array([b"a", b"", b"longer than what fits into the string itself"], object)
NUMBERS = np.array([[1, 2], [3, 4], [5, 6]])


@pytest.fixture
def folder(tmp_path: Path) -> str:
    with tf.Graph().as_default(), tf.Session() as session:
        texts = tf.placeholder(tf.string, [None], "texts")
        numbers = tf.placeholder(tf.int64, [None, 2], "numbers")
        lengths = tf.cast(tf.strings.length(texts)[:, None], tf.float32)
        variable = tf.get_variable("one", initializer=1.0)
        sums = tf.add(lengths + variable, tf.cast(numbers, tf.float32), name="sums")
        session.run(tf.global_variables_initializer())
        inputs, outputs = {"texts": texts, "numbers": numbers}, {"sums": sums}
        tf.saved_model.simple_save(session, str(tmp_path / "model"), inputs, outputs)
    return str(tmp_path / "model")


def test_requests_of_several_threads_are_answered(folder: str) -> None:
    expected = NUMBERS + np.array([[2], [1], [1 + len(TEXTS[2])]])
    with CSession(folder, ["serve"]) as session, ThreadPoolExecutor(2) as pool:
        for rows in (3, 0):
            send = session.call("sums:0", {"texts:0": TEXTS[:rows], "numbers:0": NUMBERS[:rows]})
            for found in pool.map(lambda _, send=send: send(), range(20)):
                np.testing.assert_array_equal(found, expected[:rows])


def test_errors_are_told(folder: str) -> None:
    with pytest.raises(RuntimeError, match="tags"):
        CSession(folder, ["none"])
    with CSession(folder, ["serve"]) as session:
        with pytest.raises(ValueError, match="no operation 'other'"):
            session.call("sums:0", {"other:0": NUMBERS})
        send = session.call("sums:0", {"texts:0": TEXTS[:2], "numbers:0": NUMBERS})
        with pytest.raises(RuntimeError, match="Incompatible shapes"):
            send()
