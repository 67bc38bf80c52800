"""Gradients of variables that all ranks share, as one message a dtype."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from graph_opt.compat import tf
from graph_opt.sharding.divided_gradients import divided_by
from graph_opt.sharding.own_rows import without_own_rows
from graph_opt.sharding.transport import AVERAGE, Transport

_MESSAGE = "graph_opt_gradients"


@tf.autograph.experimental.do_not_convert
def reduced_gradients(
    gradients: Sequence[Any], variables: Sequence[Any], transport: Transport, operation: str
) -> List[Any]:
    """The gradients of all ranks together; all must have gradients of the same shared variables.

    Those of sharded tables are sums over the ranks already, and are only divided for averages.

    Args:
      gradients: Of each variable: a tensor, IndexedSlices or None.
      variables: The variables.
      transport: How to reach the other ranks.
      operation: `average` or `sum`.

    Returns:
      Dense gradients of shared variables; the others as they are.
    """
    if transport.size == 1:
        return list(gradients)
    is_shared = {id(one) for one in without_own_rows(variables)}
    reduced = list(gradients)
    groups: Dict[Any, List[int]] = {}
    for place, (gradient, variable) in enumerate(zip(gradients, variables)):
        if gradient is None:
            continue
        if id(variable) in is_shared:
            reduced[place] = tf.convert_to_tensor(gradient)
            groups.setdefault(reduced[place].dtype, []).append(place)
        elif operation == AVERAGE:
            reduced[place] = divided_by(gradient, transport.size)
    for _, places in sorted(groups.items(), key=lambda group: str(group[0].name)):
        results = _together([reduced[place] for place in places], transport, operation)
        for place, result in zip(places, results):
            reduced[place] = result
    return reduced


def _together(tensors: List[Any], transport: Transport, operation: str) -> List[Any]:
    sizes = [tf.size(tensor) for tensor in tensors]
    sent = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)
    name = transport.message_name(_MESSAGE)
    received = tf.split(transport.all_reduce(sent, operation, name), tf.stack(sizes))
    results = []
    for tensor, values in zip(tensors, received):
        result = tf.reshape(values, tf.shape(tensor))
        result.set_shape(tensor.shape)
        results.append(result)
    return results
