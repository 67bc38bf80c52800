"""Expressions of constant integers, as TensorFlow writes ranks and sizes."""

from __future__ import annotations

from typing import Any, Optional

from graph_opt.compat import tf
from graph_opt.graph.view import TensorRef
from graph_opt.rules.match.structure import Structure
from tests.rules.lookup_values import shaped_view


def integer(tensor: Any) -> Optional[int]:
    return Structure(shaped_view()).integer(TensorRef(tensor.op.name, tensor.value_index))


def test_expressions_of_constant_integers_have_a_value() -> None:
    seven = tf.constant(7)
    assert integer(seven) == 7
    assert integer(tf.expand_dims(tf.cast(seven // 2, tf.int64) + 1, 0)) == 4
    assert integer(tf.stack([seven % 4])) == 3
    assert integer(tf.reshape(seven - 1, [-1])) == 6
    assert integer(tf.raw_ops.Rank(input=tf.placeholder(tf.float32, [None, 3]))) == 2


def test_other_expressions_have_none() -> None:
    seven = tf.constant(7)
    assert integer(tf.placeholder(tf.int32, [])) is None
    assert integer(tf.constant([1, 2])) is None
    assert integer(tf.constant(1.5)) is None
    assert integer(tf.stack([seven, seven])) is None
    assert integer(seven // 0) is None
    assert integer(tf.raw_ops.Rank(input=tf.placeholder(tf.float32))) is None
    for _ in range(20):
        seven += 1
    assert integer(seven) is None
