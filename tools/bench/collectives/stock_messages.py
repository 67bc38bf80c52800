"""A step as distributed-embeddings makes it, of TensorFlow's ops and Horovod's.

Table i is on rank i % N, and the tables of a rank are one variable. A rank sends the ids of its
batch as they are, with repetitions, and their number in each bag; the owner looks up each input for
the batches of all ranks, and sends the pooled rows back. Their gradients take the same way back.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import tensorflow.compat.v1 as tf

from tools.bench.collectives.input_layers import InputLayer, initializer_of


class LayerOfStockOps(InputLayer):
    """All tables of a rank are one variable, in which each input is looked up by itself.

    Columns are combined by `sum` or `mean`, and have the same width.
    """

    def look_up(self, columns: Sequence[Any], ids: Sequence[tf.SparseTensor]) -> Sequence[Any]:
        """See `InputLayer`."""
        import horovod.tensorflow as hvd

        ranks = hvd.size()
        owned = [list(range(rank, len(columns), ranks)) for rank in range(ranks)]
        mine = [columns[place] for place in owned[hvd.rank()]]
        batch = tf.cast(ids[0].dense_shape[0], tf.int32)
        received = _sent_ids(ids, owned, batch, len(mine))
        pooled = self._pooled(mine, received, ranks * batch)
        return _sent_back(pooled, owned, columns[0].dimension, batch)

    def _pooled(
        self, columns: Sequence[Any], ids: Sequence[Any], batch: tf.Tensor
    ) -> List[tf.Tensor]:
        sizes = [column.categorical_column.num_buckets for column in columns]
        width = columns[0].dimension
        merged = tf.get_variable(
            "merged_table",
            [sum(sizes), width],
            initializer=initializer_of(width),
            use_resource=True,
        )
        self.variables.append(merged)
        pooled = []
        for place, (column, (values, lengths)) in enumerate(zip(columns, ids)):
            bags = tf.repeat(tf.range(batch), lengths)
            # What TensorFlow has for bags copies the whole table in each lookup, once an optimizer
            # has updated it; its own optimizer makes the same of unique ids.
            rows = tf.gather(merged, values + sum(sizes[:place]))
            of_bags = tf.math.unsorted_segment_sum(rows, bags, batch)
            if column.combiner == "mean":
                counts = tf.cast(tf.maximum(lengths, 1), rows.dtype)
                of_bags = of_bags / counts[:, tf.newaxis]
            pooled.append(of_bags)
        return pooled


def _sent_ids(
    ids: Sequence[tf.SparseTensor], owned: Sequence[Sequence[int]], batch: tf.Tensor, mine: int
) -> List[Any]:
    """Values and lengths of bags of each input of this rank, of the batches of all ranks."""
    import horovod.tensorflow as hvd

    counts = [
        tf.math.unsorted_segment_sum(
            tf.ones_like(each.values, tf.int32), each.indices[:, 0], tf.cast(batch, tf.int64)
        )
        for each in ids
    ]
    order = [place for places in owned for place in places]
    splits = [
        tf.add_n([tf.size(ids[place].values) for place in places] or [tf.constant(0)])
        for places in owned
    ]
    values, _ = hvd.alltoall(
        tf.concat([ids[place].values for place in order], axis=0),
        tf.stack(splits),
        name="inp_dp_to_mp",
    )
    lengths, _ = hvd.alltoall(
        tf.concat([counts[place] for place in order], axis=0),
        batch * tf.constant([len(places) for places in owned]),
        name="inp_dp_to_mp_lengths",
    )
    ranks = len(owned)
    lengths = tf.reshape(lengths, tf.stack([ranks, mine, batch]))
    sizes = tf.reshape(tf.reduce_sum(lengths, axis=2), [-1])
    pieces = tf.split(values, sizes, num=ranks * mine)
    return [
        (
            tf.concat([pieces[rank * mine + place] for rank in range(ranks)], axis=0),
            tf.reshape(lengths[:, place], [-1]),
        )
        for place in range(mine)
    ]


def _sent_back(
    pooled: Sequence[tf.Tensor], owned: Sequence[Sequence[int]], width: int, batch: tf.Tensor
) -> List[tf.Tensor]:
    """The pooled rows of this rank's batch, input by input."""
    import horovod.tensorflow as hvd

    size = batch * (width * len(pooled))
    received, _ = hvd.alltoall(
        tf.reshape(tf.concat(pooled, axis=1), [-1]),
        tf.fill([len(owned)], size),
        name="out_mp_to_dp",
    )
    parts = tf.split(received, [batch * (width * len(places)) for places in owned], num=len(owned))
    found: Dict[int, tf.Tensor] = {}
    for part, places in zip(parts, owned):
        rows = tf.reshape(part, [-1, len(places) * width])
        found.update(zip(places, tf.split(rows, len(places), axis=1)))
    return [found[place] for place in sorted(found)]
