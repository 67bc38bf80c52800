"""Models whose lookups depend on each other only once several have become one op."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Sequence, Tuple

from graph_opt.compat import tf
from tests.passes import fused_models as models

WIDTH = 4


class Piece(NamedTuple):
    """A table with its lookup.

    Attributes:
      late: Whether its ids wait for the update of the linear tables that are not late.
      linear: Whether its gradient does not depend on its rows.
      clipped: Whether its gradient is clipped, so that the optimizer's own update stays.
    """

    late: bool = False
    linear: bool = False
    clipped: bool = True


def pooled(name: str, ids: Any) -> Tuple[Any, Any]:
    table = models.table("table_of_" + name, WIDTH)
    indices = [[row, place] for row in range(models.BATCH) for place in range(3)]
    bags = tf.SparseTensor(indices, tf.reshape(ids, [-1]), [models.BATCH, 3])
    return tf.nn.embedding_lookup_sparse(table, bags, None, combiner="sum", name=name), table


def gradient(piece: Piece, result: Any, table: Any, loss: Any) -> Any:
    if piece.linear:
        slices = tf.gradients([result], [table], grad_ys=[tf.ones([models.BATCH, WIDTH])])[0]
    else:
        slices = tf.gradients(loss, [table])[0]
    if not piece.clipped:
        return slices
    clipped = tf.clip_by_value(slices.values, -0.05, 0.05)
    return tf.IndexedSlices(clipped, slices.indices, slices.dense_shape)


def build(ids: Any, pieces: Sequence[Piece]) -> Any:
    """The loss of a step that trains all tables; late ids wait for updates of early linear tables.

    Args:
      ids: [batch, 3].
      pieces: The tables to train.
    """
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    total = tf.constant(0.0)
    updates: Dict[Tuple[bool, bool], Any] = {}
    for late, linear in ((False, True), (False, False), (True, False), (True, True)):
        chosen = [i for i, one in enumerate(pieces) if (one.late, one.linear) == (late, linear)]
        if not chosen:
            continue
        before = [updates[False, True]] if late and (False, True) in updates else []
        with tf.control_dependencies(before):
            fresh = tf.identity(ids)
        found = [(pieces[i], *pooled("t{}".format(i), fresh)) for i in chosen]
        loss = tf.add_n([tf.reduce_mean(tf.tanh(result)) for _, result, _ in found])
        pairs = [(gradient(p, result, table, loss), table) for p, result, table in found]
        updates[late, linear] = optimizer.apply_gradients(pairs)
        total += loss if not linear else 0.0
    with tf.control_dependencies(list(updates.values())):
        return tf.identity(total, name="result")


CLOSING = (Piece(), Piece(linear=True), Piece(), Piece(late=True), Piece(late=True))
