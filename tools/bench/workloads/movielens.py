"""MovieLens 100K as a workload: five columns, one of them multi-hot, and a small network.

Its rows may not be passed on: they are read where they lie, as RecBole writes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from tools.bench.workloads.workload import Workload

BATCH = 256
EPOCHS = 3
HELD_OUT_EVERY = 5
LIKED_FROM = 4.0
TABLES = {"user_id": 2000, "item_id": 4000, "occupation": 50, "age": 200, "genre": 50}
DIMENSION = 16


class Ratings:
    """MovieLens 100K joined in memory: strings for the columns, 1 for ratings of 4 and 5."""

    def __init__(self, folder: Path) -> None:
        users = _table(folder / "ml-100k.user")
        items = _table(folder / "ml-100k.item")
        ratings = _table(folder / "ml-100k.inter")
        user_row = {user: row for row, user in enumerate(users["user_id"])}
        item_row = {item: row for row, item in enumerate(items["item_id"])}
        of_user = [user_row[user] for user in ratings["user_id"]]
        of_item = [item_row[item] for item in ratings["item_id"]]
        self.columns = {
            "user_id": ratings["user_id"],
            "item_id": ratings["item_id"],
            "occupation": users["occupation"][of_user],
            "age": users["age"][of_user],
            "genre": items["class"][of_item],
        }
        self.liked = (ratings["rating"].astype(np.float32) >= LIKED_FROM).astype(np.float32)

    def part(self, is_held_out: bool) -> tf.data.Dataset:
        """Rows in their order in the file, all but each fifth or each fifth alone."""
        chosen = (np.arange(self.liked.size) % HELD_OUT_EVERY == 0) == is_held_out
        columns = {name: values[chosen] for name, values in self.columns.items()}
        return tf.data.Dataset.from_tensor_slices((columns, self.liked[chosen]))


def _table(path: Path) -> Dict[str, np.ndarray]:
    lines = path.read_text(encoding="latin-1").splitlines()
    names = [title.split(":")[0] for title in lines[0].split("\t")]
    rows = np.array([line.split("\t") for line in lines[1:]], dtype=object)
    return {name: rows[:, column].astype(str) for column, name in enumerate(names)}


def _features(columns: Dict[str, tf.Tensor], label: tf.Tensor) -> Tuple[Any, tf.Tensor]:
    return columns, label[:, tf.newaxis]


def _logits(columns: Dict[str, tf.Tensor], label: tf.Tensor) -> tf.Tensor:
    del label
    features = {name: values[:, tf.newaxis] for name, values in columns.items()}
    features["genre"] = tf.strings.split(columns["genre"])
    embedded = [
        tf.feature_column.embedding_column(
            tf.feature_column.categorical_column_with_hash_bucket(name, buckets), DIMENSION
        )
        for name, buckets in TABLES.items()
    ]
    hidden = tf.feature_column.input_layer(features, embedded)
    for units in (64, 32):
        hidden = tf.layers.dense(hidden, units, tf.nn.relu)
    return tf.layers.dense(hidden, 1)


def movielens_workload(ratings: Ratings, epochs: int = EPOCHS, seed: int = 7) -> Workload:
    """Likes of ratings that are shuffled by a seed, over and over for some epochs."""

    def training_batches() -> tf.data.Dataset:
        rows = ratings.part(is_held_out=False).shuffle(ratings.liked.size, seed=seed)
        return rows.repeat(epochs).batch(BATCH).map(_features).prefetch(2)

    return Workload(
        name="movielens",
        training_batches=training_batches,
        held_out_batches=lambda: ratings.part(is_held_out=True).batch(BATCH).map(_features),
        logits=_logits,
    )
