"""Writes nodes that take the first row of a tensor."""

from __future__ import annotations

import numpy as np

from graph_opt.graph.op_call import Tensor
from graph_opt.passes.node_writer import NodeWriter, Operand


def first_row(writer: NodeWriter, suffix: str, tensor: Operand, device: str) -> Tensor:
    """The first row of a tensor, [1, ...]."""
    begin, end, strides = (
        writer.constant("{}/{}".format(suffix, key), np.array([value], np.int32), device)
        for key, value in (("begin", 0), ("end", 1), ("strides", 1))
    )
    call = writer.call(
        suffix,
        "StridedSlice",
        device,
        input=tensor,
        begin=begin,
        end=end,
        strides=strides,
    )
    return call.result


def row_matrix(writer: NodeWriter, suffix: str, rows: Tensor, is_vector: bool) -> Tensor:
    """The only row of a tensor, [1, columns] or [1, places, columns], as a matrix.

    A sum of one row is the row; that of an empty request, which has none, is 0.
    """
    axis = writer.constant(suffix + "/axis", np.int32(0))
    call = writer.call(suffix, "Sum", input=rows, reduction_indices=axis, keep_dims=is_vector)
    return call.result
