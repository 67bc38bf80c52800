"""Sums over rows, and over anything else."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from tests.passes.micro_batches.classified import Tensors, told


def test_sums_over_rows_add_up_and_means_do_so_in_proportion() -> None:
    def make(x: Any) -> Tensors:
        return {
            "sum": tf.reduce_sum(x),
            "sum of rows": tf.reduce_sum(x, 0),
            "mean": tf.reduce_mean(x),
            "mean of rows": tf.reduce_mean(x, 0),
            "half of squares": tf.nn.l2_loss(x),
            "gradient of a bias": tf.raw_ops.BiasAddGrad(out_backprop=x),
            "sum of a sum": tf.reduce_sum(tf.reduce_sum(x, 0)),
        }

    found = told(make)
    assert [name for name, text in found.items() if text == "mean"] == ["mean", "mean of rows"]
    assert set(found.values()) == {"mean", "total"}


def test_along_other_axes_rows_stay() -> None:
    def make(x: Any) -> Tensors:
        flipped = tf.transpose(x)
        return {
            "sum": tf.reduce_sum(x, 1),
            "kept": tf.reduce_sum(x, 1, keepdims=True),
            "largest": tf.reduce_max(x, -1),
            "all": tf.reduce_all(x > 0, 1),
            "place": tf.argmax(x, 1),
            "of columns": tf.reduce_sum(flipped, 0),
            "of columns, kept": tf.reduce_sum(flipped, 0, keepdims=True),
            "place in columns": tf.argmax(flipped, 0),
            "gradient of a bias": tf.raw_ops.BiasAddGrad(out_backprop=flipped),
        }

    found = told(make)
    assert found.pop("of columns, kept") == "rows 1"
    assert set(found.values()) == {"rows 0"}, found


def test_what_does_not_add_up_is_late() -> None:
    def make(x: Any) -> Tensors:
        return {
            "Max": tf.reduce_max(x),
            "Min": tf.reduce_min(x, 0),
            "Prod": tf.reduce_prod(x, 0),
            "Any": tf.reduce_any(x > 0),
            "ArgMax": tf.argmax(x, 0),
            "Mean": tf.reduce_mean(tf.cast(x, tf.int32)),  # It rounds.
        }

    assert told(make) == {
        op: "late: {} over the rows of the batch".format(op)
        for op in ("Max", "Min", "Prod", "Any", "ArgMax", "Mean")
    }


def test_the_largest_of_sums_is_late() -> None:
    assert told(lambda x: {"largest": tf.reduce_max(tf.reduce_sum(x, 0))}) == {
        "largest": "late: an input without rows"
    }
