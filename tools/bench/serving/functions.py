"""A model as TensorFlow 2 saves it: its lookups and its dense layers are in functions.

    python -m tools.bench.serving.functions FOLDER TABLES BUCKETS

It is written by a process of its own, as benchmarks turn TensorFlow 2 off. The signature `dense`
has the dense layers alone.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List

import numpy as np
import tensorflow as tf

WIDTH = 16
_SEED = 1
_LAYERS = (256, 64, 1)


class Ranking(tf.Module):
    """Embeddings of ids, and dense layers on all of them."""

    def __init__(self, tables: int, buckets: int) -> None:
        super().__init__()
        random = np.random.RandomState(_SEED)

        def variable(*shape: int) -> Any:
            return tf.Variable(random.uniform(-0.05, 0.05, shape).astype(np.float32))

        self.tables = [variable(buckets, WIDTH) for _ in range(tables)]
        sizes = (tables * WIDTH, *_LAYERS)
        self.layers = [[variable(*pair), variable(pair[1])] for pair in zip(sizes, sizes[1:])]

    @tf.function
    def score(self, **ids: Any) -> Dict[str, Any]:
        """The scores of rows, and what tables have for them."""
        found = [
            tf.nn.embedding_lookup(table, ids[name])
            for table, name in zip(self.tables, names(len(self.tables)))
        ]
        rows = tf.concat(found, 1)
        return {"rows": rows, **self.dense(rows)}

    @tf.function
    def dense(self, rows: Any) -> Dict[str, Any]:
        """The scores of what tables have."""
        hidden = rows
        for weights, bias in self.layers[:-1]:
            hidden = tf.nn.relu(tf.matmul(hidden, weights) + bias)
        weights, bias = self.layers[-1]
        return {"scores": tf.sigmoid(tf.matmul(hidden, weights) + bias)}


def names(tables: int) -> List[str]:
    """The inputs of a model with so many tables."""
    return ["feature_{}".format(number) for number in range(tables)]


def main(folder: str, tables: int, buckets: int) -> None:
    """Writes the model."""
    model = Ranking(tables, buckets)
    ids = {name: tf.TensorSpec([None], tf.int64, name) for name in names(tables)}
    rows = tf.TensorSpec([None, tables * WIDTH], tf.float32, "rows")
    signatures = {
        "serving_default": model.score.get_concrete_function(**ids),
        "dense": model.dense.get_concrete_function(rows),
    }
    tf.saved_model.save(model, folder, signatures=signatures)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
