"""The gradients of an exchange: of rows and weights, and of the shards on this rank."""

from __future__ import annotations

from typing import Any, List

from graph_opt.compat import tf
from graph_opt.compat.eager import is_eager
from graph_opt.compat.exchange_sums import note_graph
from graph_opt.ops.dynamic_table import once_run
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds
from graph_opt.ops.group_gradients import (
    indexed_slices,
    rows_of_shards,
    stands_for_none,
    weight_inputs,
)
from graph_opt.ops.library import load_library
from graph_opt.ops.served_variables import places_of_variables

# Inputs of ExchangeCombine before the ids.
_ROWS, _SPLITS, _INVERSE, _COUNTS, _FIRST_IDS = range(5)


def differentiate_gather(op: Any, *gradients: Any) -> List[Any]:
    """The gradient function of `ExchangeGather`, in the form that `tf.RegisterGradient` expects.

    Args:
      op: The op.
      gradients: The gradients of its outputs; that of the splits is not used.

    Returns:
      IndexedSlices for each shard, None for requests and splits. A variable that is given for
      several shards, of which this rank has at most one, has the gradient of that one.
    """
    *tables, requests, splits = op.inputs
    if gradients[0] is None:
        return [None] * len(op.inputs)
    by_key = op.get_attr("by_key") or [False] * len(tables)
    counts, table_rows = rows_of_shards(tables, by_key)
    # Keys that are new have rows once they were looked up, on which gradients need not depend.
    requests, waits = once_run(op.outputs[0], requests) if any(by_key) else (requests, [])
    with tf.control_dependencies(waits):
        indices, values = load_library().exchange_gather_grad(
            requests=requests,
            splits=splits,
            gradients=tf.convert_to_tensor(gradients[0]),
            table_rows=table_rows,
            num_shards=len(tables),
            table_names=op.get_attr("table_names"),
            table_widths=op.get_attr("table_widths"),
            served=op.get_attr("served"),
            by_key=op.get_attr("by_key"),
        )
    if not is_eager(values[0]):
        note_graph(values[0].op)
    slices = [indexed_slices(*one) for one in zip(indices, values, counts)]
    # By identity: eagerly, and in TensorFlow 1's functions, tensors are no keys.
    trained = places_of_variables([id(table) for table in tables], op.get_attr("served"))
    return [*(one if place in trained else None for place, one in enumerate(slices)), None, None]


def differentiate_combine(op: Any, *gradients: Any) -> List[Any]:
    """The gradient function of `ExchangeCombine`, in the form that `tf.RegisterGradient` expects.

    Args:
      op: The op.
      gradients: The gradients of the pooled rows; None and placeholder zeros count as none.

    Returns:
      The gradients of the rows and of the weights, None for the other inputs.
    """
    attributes = GroupAttributes.of(op)
    inputs = list(op.inputs)
    results: List[Any] = [None] * len(inputs)
    has_gradient = [
        not stands_for_none(gradient, output) for gradient, output in zip(gradients, op.outputs)
    ]
    if not any(has_gradient):
        return results
    ids = GroupIds.of(inputs[_FIRST_IDS:], len(attributes.lookup_tables))
    arguments = dict(
        inverse=inputs[_INVERSE],
        counts=inputs[_COUNTS],
        gradients=[
            tf.convert_to_tensor(gradient) if has else tf.zeros_like(output)
            for output, gradient, has in zip(op.outputs, gradients, has_gradient)
        ],
        table_widths=op.get_attr("table_widths"),
        num_shards=op.get_attr("num_shards"),
        shard_servers=op.get_attr("shard_servers"),
        num_servers=op.get_attr("num_servers"),
        **ids.inputs(),
        **attributes._asdict(),
    )
    # With columns, one gradient is of all lookups.
    marked = [] if attributes.columns or all(has_gradient) else has_gradient
    results[_ROWS] = load_library().exchange_combine_grad(has_gradient=marked, **arguments)
    places = weight_inputs(attributes, len(inputs))
    if places and not _skips(op, places):
        of_weights = load_library().exchange_combine_weights_grad(
            rows=inputs[_ROWS], splits=inputs[_SPLITS], **arguments
        )
        for place, gradient in zip(places, of_weights):
            results[place] = gradient
    return results


def _skips(op: Any, inputs: List[int]) -> bool:
    """Whether an eager tape needs the gradient of none of these inputs. A graph drops them."""
    skipped = getattr(op, "skip_input_indices", None) or ()
    return all(place in skipped for place in inputs)
