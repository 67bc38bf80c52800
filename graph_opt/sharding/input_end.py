"""Input that ends on one rank before it ends on the others: policies.

- `drop`: training ends on all ranks in the step for which one has no batch.
- `empty`: a rank whose input has ended takes part with batches of no rows, until it has on all.

Ranks learn of it from the message with ids that each step sends in any case.
"""

from __future__ import annotations

import weakref
from typing import Any, List, MutableMapping, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.datasets import concatenated, ragged_parts
from graph_opt.compat.outer_graphs import outermost_graph
from graph_opt.ops.exchange import AllToAll
from graph_opt.ops.group_embedding import DENSE, RAGGED
from graph_opt.ops.library import load_library
from graph_opt.ops.message_names import IDS_SUFFIX
from graph_opt.ops.stock_lookup import LookupIds
from graph_opt.sharding.transport import Transport

DROP = "drop"
EMPTY = "empty"
POLICIES = (DROP, EMPTY)

_ENDED = "its input has ended"
_policies: MutableMapping[Any, str] = weakref.WeakKeyDictionary()


def end_together(dataset: Any, policy: str, transport: Transport) -> Any:
    """A dataset whose end is agreed upon by all ranks; see the module.

    Args:
      dataset: This rank's batches. Batches without rows are left out.
      policy: `drop` or `empty`.
      transport: How to reach the others.

    Returns:
      A dataset of the same structure.

    Raises:
      ValueError: There is no such policy, or a component of the elements is no batch.
    """
    if policy not in POLICIES:
        raise ValueError("the policy is {!r}; choose one of {}".format(policy, ", ".join(POLICIES)))
    empty = tf.nest.map_structure(_empty, dataset.element_spec)
    kept = dataset.filter(lambda *element: tf.greater(_num_rows(element), 0))
    graph = outermost_graph()
    if transport.size == 1 or (policy == DROP and graph is not None):
        return kept  # The step that finds no batch tells the others.
    _policies[transport if graph is None else graph] = policy
    return concatenated(kept, tf.data.Dataset.from_tensors(empty).repeat())


def ended_flag(ids: Sequence[LookupIds], transport: Transport) -> Optional[tf.Tensor]:
    """Whether these ids are those of a rank whose input has ended; None if it always has some."""
    if _policy(transport) is None:
        return None
    bags = tf.add_n([_num_bags(one) for one in ids])
    return tf.equal(bags, 0)


def dropping_rest(transport: Transport, ended: Optional[tf.Tensor]) -> AllToAll:
    """How an exchange sends its messages if it is to fail on all ranks once `ended`."""
    if ended is None or _policy(transport) != DROP:
        return transport.all_to_all

    def all_to_all(tensor: tf.Tensor, splits: tf.Tensor, name: str) -> Tuple[tf.Tensor, tf.Tensor]:
        if name.endswith(IDS_SUFFIX):
            tensor, splits = tf.cond(ended, failure, lambda: (tensor, splits))
        return transport.all_to_all(tensor, splits, name)

    def failure() -> Tuple[tf.Tensor, tf.Tensor]:
        sent = load_library().exchange_failure(
            code=tf.errors.OUT_OF_RANGE, text=_ENDED, num_ranks=transport.size
        )
        return sent[0], sent[1]

    return all_to_all


def waits_for_all(transport: Transport) -> bool:
    """Whether a rank whose input has ended takes part until it has on all."""
    return _policy(transport) == EMPTY


def _policy(transport: Transport) -> Optional[str]:
    graph = outermost_graph()
    found = None if graph is None else _policies.get(graph)
    return found or _policies.get(transport)


def _num_bags(ids: LookupIds) -> tf.Tensor:
    if ids.layout == RAGGED:
        return tf.size(ids.positions, out_type=tf.int64) - 1
    if ids.layout == DENSE:
        return tf.shape(ids.ids, out_type=tf.int64)[0]
    return ids.shape[0]


def _num_rows(element: Sequence[Any]) -> tf.Tensor:
    components: List[Any] = tf.nest.flatten(element)
    first = components[0]
    if isinstance(first, tf.SparseTensor):
        return first.dense_shape[0]
    if isinstance(first, tf.RaggedTensor):
        return first.nrows(out_type=tf.int64)
    return tf.shape(first, out_type=tf.int64)[0]


def _empty(spec: Any) -> Any:
    """A batch without rows."""
    ragged = ragged_parts(spec) if isinstance(spec, tf.RaggedTensorSpec) else None
    shape = ragged.shape if ragged else spec.shape
    if shape.rank == 0:
        raise ValueError(
            "a component of the dataset's elements is a scalar ({}), but a rank whose input has "
            "ended needs batches without rows: batch the dataset first".format(spec)
        )
    sizes = [0] + [size or 0 for size in (shape.as_list()[1:] if shape.rank else [])]
    if isinstance(spec, tf.SparseTensorSpec):
        indices = tf.zeros([0, len(sizes)], tf.int64)
        return tf.SparseTensor(indices, tf.zeros([0], spec.dtype), sizes)
    if ragged:
        flat = tf.zeros([0] + sizes[ragged.ragged_rank + 1 :], ragged.dtype)
        splits = [tf.zeros([1], ragged.row_splits_dtype)] * ragged.ragged_rank
        return tf.RaggedTensor.from_nested_row_splits(flat, splits)
    return tf.zeros(sizes, spec.dtype)
