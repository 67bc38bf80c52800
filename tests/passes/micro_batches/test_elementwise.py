"""Ops that compute each element, or each row, from the same place of their inputs."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from tests.passes.micro_batches.classified import Tensors, told, weights

MIXED = "late: {} of a sum over the batch"


def test_rows_stay_where_they_are() -> None:
    def make(x: Any) -> Tensors:
        return {
            "tanh": tf.tanh(x),
            "plus a number": x + 1.0,
            "plus a vector": x + weights(6),
            "plus a row": x + weights(1, 6),
            "plus rows": x + tf.tanh(x),
            "plus a column": x + x[:, :1],
            "minus its mean": x - tf.reduce_mean(x, 1, keepdims=True),
            "where": tf.where(x > 0, x, -x),
            "where the row": tf.raw_ops.Select(condition=x[:, 0] > 0, x=x, y=-x),
            "softmax": tf.nn.softmax(x),
            "cumulative": tf.cumsum(x, 1),
            "in the top": tf.nn.in_top_k(x, tf.argmax(x, 1), 2),
            "top": tf.nn.top_k(x, 2)[0],
            "one hot": tf.one_hot(tf.argmax(x, 1), 3),
        }

    found = told(make)
    assert set(found.values()) == {"rows 0"}, found


def test_a_new_first_axis_moves_rows() -> None:
    assert told(lambda x: {"one hot": tf.one_hot(tf.argmax(x, 1), 3, axis=0)}) == {
        "one hot": "rows 1"
    }


def test_what_reads_other_rows_is_late() -> None:
    def make(x: Any) -> Tensors:
        flipped = tf.transpose(x)
        return {
            "softmax": tf.nn.softmax(flipped),
            "cumulative": tf.cumsum(x, 0),
            "top": tf.nn.top_k(flipped, 2)[0],
            "minus the mean row": x - tf.reduce_mean(x, 0),
            "times the sum": x * tf.reduce_sum(x),
            "times as many rows": x * weights(6, 6),
            "reversed": tf.reverse(x, [0]),
        }

    assert told(make) == {
        "softmax": "late: Softmax over the rows of the batch",
        "cumulative": "late: Cumsum over the rows of the batch",
        "top": "late: TopKV2 over the rows of the batch",
        "minus the mean row": MIXED.format("Sub"),
        "times the sum": "late: a value that takes all rows of the batch",
        "times as many rows": "late: inputs with rows along different axes",
        "reversed": "late: ReverseV2",
    }


def test_what_is_linear_in_sums_is_a_sum() -> None:
    def make(x: Any) -> Tensors:
        one, other = tf.reduce_sum(x), tf.reduce_sum(x * x)
        return {
            "negative": -one,
            "sum": one + other,
            "difference": one - other,
            "twice": one * 2.0,
            "half": one / 2.0,
            "plus a number": one + 1.0,
            "minus a number": one - 1.0,
            "product": one * other,
            "quotient": 2.0 / one,
            "root": tf.sqrt(one),
        }

    assert told(make) == {
        **{name: "total" for name in ("negative", "sum", "difference", "twice", "half")},
        "plus a number": MIXED.format("AddV2"),
        "minus a number": MIXED.format("Sub"),
        "product": MIXED.format("Mul"),
        "quotient": MIXED.format("RealDiv"),
        "root": MIXED.format("Sqrt"),
    }


def test_a_cast_that_cuts_off_is_not_linear() -> None:
    def make(x: Any) -> Tensors:
        total, count = tf.reduce_sum(x), tf.reduce_sum(tf.cast(x > 0, tf.int32))
        return {
            "to double": tf.cast(total, tf.float64),
            "count to float": tf.cast(count, tf.float32),
            "count to long": tf.cast(count, tf.int64),
            "to int": tf.cast(total, tf.int32),
            "to bool": tf.cast(total, tf.bool),
            "count to bool": tf.cast(count, tf.bool),
        }

    assert told(make) == {
        **{name: "total" for name in ("to double", "count to float", "count to long")},
        **{name: MIXED.format("Cast") for name in ("to int", "to bool", "count to bool")},
    }


def test_losses_of_rows() -> None:
    def make(x: Any) -> Tensors:
        nn = tf.nn
        return {
            "labels as vectors": nn.softmax_cross_entropy_with_logits(labels=x, logits=x),
            "labels as numbers": nn.sparse_softmax_cross_entropy_with_logits(
                labels=tf.argmax(x, 1), logits=x
            ),
        }

    assert set(told(make).values()) == {"rows 0"}
