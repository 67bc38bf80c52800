"""Products of rows and weights, and of rows and rows."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from tests.passes.micro_batches.classified import Tensors, layer, told, uses, weights


def test_of_rows_and_weights() -> None:
    def make(x: Any) -> Tensors:
        images = tf.reshape(x, [-1, 2, 3, 1])
        return {
            "product": tf.matmul(x, weights(6, 4)),
            "flipped weights": tf.matmul(x, weights(4, 6), transpose_b=True),
            "of each row": tf.matmul(x[:, :, None], x[:, None, :]),
            "of each row and weights": tf.matmul(x[:, None, :], weights(6, 4)),
            "bias": tf.nn.bias_add(x, weights(6)),
            "filtered": tf.nn.conv2d(images, weights(1, 1, 1, 2), strides=1, padding="SAME"),
            "largest nearby": tf.nn.max_pool2d(images, 2, 1, "SAME"),
            "einsum": tf.raw_ops.Einsum(inputs=[x, weights(6, 4)], equation="ij,jk->ik"),
        }

    assert set(told(make).values()) == {"rows 0"}


def test_rows_may_come_out_along_another_axis() -> None:
    def make(x: Any) -> Tensors:
        return {
            "product": tf.matmul(weights(4, 6), x, transpose_b=True),
            "einsum": tf.raw_ops.Einsum(inputs=[weights(4, 6), x], equation="kj,ij->ki"),
        }

    assert set(told(make).values()) == {"rows 1"}


def test_of_rows_and_rows_they_add_up() -> None:
    def make(x: Any) -> Tensors:
        return {
            "product": tf.matmul(x, x, transpose_a=True),
            "einsum": tf.raw_ops.Einsum(inputs=[x, x], equation="ij,ik->jk"),
        }

    assert set(told(make).values()) == {"total"}


def test_products_of_each_row_with_all_are_late() -> None:
    def make(x: Any) -> Tensors:
        return {
            "similarities": tf.matmul(x, x, transpose_b=True),
            "flipped rows": tf.matmul(x, weights(6, 4), transpose_a=True),
            "einsum": tf.raw_ops.Einsum(inputs=[x, x], equation="ij,kj->ik"),
            "any axes": tf.raw_ops.Einsum(inputs=[x, weights(6, 4)], equation="...j,jk->...k"),
            "bias of each row": tf.nn.bias_add(tf.reshape(tf.transpose(x), [6, -1]), tf.zeros([9])),
        }

    assert told(make) == {
        "similarities": "late: a value that takes all rows of the batch",
        "flipped rows": "late: a product over the rows of the batch",
        "einsum": "late: rows along different axes of ij,kj->ik",
        "any axes": "late: the equation ...j,jk->...k",
        "bias of each row": "late: a bias for each row",
    }


def test_all_copies_read_the_same_weights() -> None:
    product = tf.matmul(layer(), weights(6, 4))
    assert uses(product) == {0: "copy", 1: "whole"}


def test_a_gradient_of_weights_is_a_sum_and_that_of_a_filter_too() -> None:
    def make(x: Any) -> Tensors:
        kernel = weights(1, 1, 1, 2)
        images = tf.reshape(x, [-1, 2, 3, 1])
        loss = tf.reduce_sum(tf.square(tf.nn.conv2d(images, kernel, strides=1, padding="SAME")))
        of_kernel, of_layer = tf.gradients(loss, [kernel, x])
        return {"kernel": of_kernel, "layer": of_layer}

    assert told(make) == {"kernel": "total", "layer": "rows 0"}
