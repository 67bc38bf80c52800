"""Ops that move, cut, join and repeat."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from tests.passes.micro_batches.classified import Tensors, layer, told, uses, weights

CUT = "late: some of the rows of the batch"
APART = "late: a Reshape that does not keep rows together"


def test_reshapes_keep_rows_together() -> None:
    def make(x: Any) -> Tensors:
        return {
            "-1 6": tf.reshape(x, [-1, 6]),
            "-1 2 3": tf.reshape(x, [-1, 2, 3]),
            "own shape": tf.reshape(x, tf.shape(x)),
            "-1 3": tf.reshape(x, [-1, 3]),
            "-1": tf.reshape(x, [-1]),
            "2 n, 3": tf.reshape(x, [tf.shape(x)[0] * 2, 3]),
            "flipped": tf.reshape(tf.transpose(x), [6, -1]),
            "sum": tf.reshape(tf.reduce_sum(x, 0), [2, 3]),
            "-1 12": tf.reshape(x, [-1, 12]),
            "6 -1": tf.reshape(x, [6, -1]),
            "0 6": tf.reshape(x, [0, 6]),
        }

    assert told(make) == {
        **{name: "rows 0" for name in ("-1 6", "-1 2 3", "own shape")},
        **{name: "rows 0 x 2" for name in ("-1 3", "2 n, 3")},
        "-1": "rows 0 x 6",
        "flipped": "rows 1",
        "sum": "total",
        **{name: APART for name in ("-1 12", "6 -1", "0 6")},
    }


def test_a_static_number_of_rows_is_the_parts_own_in_a_reshape() -> None:
    def make(x: Any) -> Tensors:
        return {
            "8 6": tf.reshape(x, [8, 6]),
            "16 3": tf.reshape(x, [16, 3]),
            "8 rows": tf.slice(x, [0, 0], [8, 2]),
            "4 12": tf.reshape(x, [4, 12]),
            "7 rows": tf.slice(x, [0, 0], [7, 2]),
            "[:8]": x[:8],
        }

    found = told(make, rows=8)
    assert found["4 12"] == APART and found["7 rows"] == CUT
    assert (found["8 6"], found["16 3"], found["8 rows"]) == ("rows 0", "rows 0 x 2", "rows 0")
    assert found["[:8]"] == CUT  # All rows, but nobody looks so closely.


def test_axes_that_are_added_dropped_and_reordered() -> None:
    def make(x: Any) -> Tensors:
        return {
            "behind": tf.expand_dims(x, 1),
            "at the end": tf.expand_dims(x, -1),
            "dropped": tf.squeeze(x[:, None, :], [1]),
            "first dropped": tf.squeeze(x[None], [0]),
            "stacked behind": tf.stack([x, x], 1),
            "unstacked": tf.unstack(x, axis=1)[0],
            "columns unstacked": tf.unstack(tf.transpose(x), axis=0)[0],
            "before": tf.expand_dims(x, 0),
            "stacked": tf.stack([x, x], 0),
            "flipped": tf.transpose(x),
            "turned": tf.transpose(x[:, :, None], [1, 2, 0]),
            "unknown dropped": tf.squeeze(x[:, None, :]),
        }

    found = told(make)
    assert [found.pop(name) for name in ("before", "stacked", "flipped")] == ["rows 1"] * 3
    assert found.pop("turned") == "rows 2"
    assert found.pop("unknown dropped") == "late: a Squeeze of an axis that may be the rows'"
    assert set(found.values()) == {"rows 0"}, found


def test_axes_of_sums_may_be_moved() -> None:
    def make(x: Any) -> Tensors:
        total = tf.reduce_sum(x[:, :, None], 0)
        return {
            "added": tf.expand_dims(total, 0),
            "dropped": tf.squeeze(total, [1]),
            "flipped": tf.transpose(total),
            "checked": tf.ensure_shape(total, [6, 1]),
        }

    assert set(told(make).values()) == {"total"}


def test_cuts_of_other_axes() -> None:
    def make(x: Any) -> Tensors:
        return {
            "[:, 2]": x[:, 2],
            "[:, 1:3]": x[:, 1:3],
            "[..., 0]": x[..., 0],
            "[:, None, 0]": x[:, None, 0],
            "slice": tf.slice(x, [0, 1], [-1, 2]),
            "slice by shape": tf.slice(x, [0, 1], [tf.shape(x)[0], 2]),
            "split": tf.split(x, 2, 1)[0],
            "split by sizes": tf.split(x, [2, 4], 1)[0],
            "at places": tf.gather(x, [0, 2], axis=1),
            "padded": tf.pad(x, [[0, 0], [1, 1]]),
            "repeated": tf.tile(x, [1, 2]),
            "[None]": x[None],
        }

    found = told(make)
    assert found.pop("[None]") == "rows 1"
    assert set(found.values()) == {"rows 0"}, found


def test_cuts_of_rows_are_late() -> None:
    def make(x: Any) -> Tensors:
        return {
            "[0]": x[0],
            "[1:]": x[1:],
            "[:-1]": x[:-1],
            "[::2]": x[::2],
            "[::-1]": x[::-1],
            "slice": tf.slice(x, [1, 0], [-1, 2]),
            "one": tf.slice(x, [0, 0], [1, 2]),
        }

    assert set(told(make).values()) == {CUT}


def test_more_rows_than_the_batch_has_are_late() -> None:
    def make(x: Any) -> Tensors:
        return {
            "joined": tf.concat([x, x], 0),
            "padded": tf.pad(x, [[1, 0], [0, 0]]),
            "repeated": tf.tile(x, [2, 1]),
            "at places": tf.gather(x, [0, 2]),
            "checked": tf.ensure_shape(x, [8, 6]),
        }

    assert told(make) == {
        "joined": "late: a concatenation of rows",
        "padded": "late: more rows than the batch has",
        "repeated": "late: the batch repeated",
        "at places": "late: places in the rows of the batch",
        "checked": "late: a number of rows that must stay",
    }


def test_rows_joined_side_by_side() -> None:
    def make(x: Any) -> Tensors:
        batch = x.graph.get_tensor_by_name("batch:0")
        return {
            "of layers": tf.concat([x, tf.tanh(x)], 1),
            "of a layer and the batch": tf.concat([x, batch], 1),
            "of a layer and a constant": tf.concat([x, tf.zeros([9, 6])], 1),
        }

    assert told(make) == {
        "of layers": "rows 0",
        "of a layer and the batch": "rows 0",
        "of a layer and a constant": "late: inputs with rows along different axes",
    }


def test_what_is_repeated_for_each_row() -> None:
    def make(x: Any) -> Tensors:
        count = tf.shape(x)[0]
        return {
            "tiled": tf.tile(weights(1, 6), [count, 1]),
            "broadcast": tf.broadcast_to(weights(1, 6), tf.shape(x)),
            "filled": tf.fill([count, 2], tf.reduce_sum(weights(6))),
            "zeros": tf.zeros_like(x),
            "twice as many": tf.fill([count * 2], 1.0),
            "before rows": tf.broadcast_to(x, [2, count, 6]),
        }

    found = told(make)
    assert found.pop("twice as many") == "rows 0 x 2"
    assert found.pop("before rows") == "rows 1"
    assert set(found.values()) == {"rows 0"}


def test_slices_are_summed_at_places_of_rows_or_of_all() -> None:
    def make(x: Any) -> Tensors:
        segment_sum = tf.math.unsorted_segment_sum
        return {
            "of rows": segment_sum(x, tf.argmax(x, 1), 6),
            "of columns": segment_sum(tf.transpose(x), tf.constant([0, 0, 1, 1, 2, 2]), 3),
            "elsewhere": segment_sum(x, tf.constant([0, 1, 0]), 6),
            "looked up": tf.gather(weights(6, 4), tf.argmax(x, 1)),
            "of each": tf.gather(x, tf.argmax(x, 1)[:, None], batch_dims=1, axis=1),
        }

    assert told(make) == {
        "of rows": "total",
        "of columns": "rows 1",
        "elsewhere": "late: rows summed at places that are not theirs",
        "looked up": "rows 0",
        "of each": "late: batch_dims",
    }


def test_copies_join_their_own_rows_of_the_batch() -> None:
    joined = tf.concat([layer(), tf.get_default_graph().get_tensor_by_name("batch:0")], 1)
    assert uses(joined) == {0: "copy", 1: "copy", 2: "whole"}
