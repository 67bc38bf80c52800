"""Rows with many multi-hot columns: a binary file, a seeded generator for it, and its batches.

A row is one label and `columns` lists of 1 to `most_ids` ids, written as int32: the label, then
`columns * most_ids` ids where -1 pads the lists. Fixed width makes reading nearly free, so that
what is timed is the model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Iterator, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from tools.bench.workloads.cached_file import cached_file
from tools.bench.workloads.input_pipeline import ALL, Part, decoded_ahead

Batch = Tuple[Dict[str, tf.SparseTensor], tf.Tensor]

PADDING = -1
ID_BYTES = 4
CARDINALITY = 1 << 24
ZIPF_EXPONENT = 1.1
READ_BUFFER_BYTES = 4 << 20
FORMAT_VERSION = 1  # part of the file's name: raise it whenever the rows change

_ROWS_PER_CHUNK = 4096
_HASH_MULTIPLIER = 0x9E3779B1  # prime near 2**32 / golden ratio (Knuth's multiplicative hash)
_HASH_BITS = 32


class DataOptions(NamedTuple):
    """Shape of the rows: columns, ids a column holds at most, buckets the ids are hashed to.

    The id of rank n comes about 1 / n ** `zipf` times as often as that of rank 1: with 0 ids are
    uniform.
    """

    columns: int = 200
    most_ids: int = 5
    buckets: int = 20000
    zipf: float = ZIPF_EXPONENT


def column_names(options: DataOptions) -> Tuple[str, ...]:
    """Names of the multi-hot columns, in the order in which a row holds them."""
    return tuple(f"column_{number:03d}" for number in range(options.columns))


def generated_file(
    directory: Path, rows: int, seed: int, options: DataOptions, stream: int = 0
) -> Path:
    """Writes a file of generated rows if it is not there yet; same arguments, same bytes.

    Args:
      directory: where the file is kept, made if missing.
      rows: rows of the file.
      seed: of the ids and of the hidden effects that make the label learnable.
      options: shape of a row (`buckets` plays no part: ids are written unhashed).
      stream: files of different streams hold independent rows with the same hidden effects.
    """
    shape = f"{options.columns}x{options.most_ids}"
    if options.zipf != ZIPF_EXPONENT:
        shape += f"_zipf{options.zipf:g}"
    name = f"wide_v{FORMAT_VERSION}_{shape}_seed{seed}_stream{stream}_rows{rows}.int32"
    return cached_file(directory / name, lambda: _chunks(rows, seed, options, stream))


def _chunks(rows: int, seed: int, options: DataOptions, stream: int) -> Iterator[bytes]:
    for chunk, start in enumerate(range(0, rows, _ROWS_PER_CHUNK)):
        random = np.random.RandomState([seed, stream, chunk])
        yield _rows(random, min(_ROWS_PER_CHUNK, rows - start), seed, options).tobytes()


def batches(
    path: Path, batch_size: int, epochs: int, options: DataOptions, part: Part = ALL
) -> tf.data.Dataset:
    """Batches of a generated file's rows, in order.

    Args:
      path: as returned by `generated_file`.
      batch_size: rows of a batch; the last one may have fewer.
      epochs: how many times the file is read; -1: forever.
      options: shape of the rows and buckets.
      part: which of the batches.

    Returns:
      A dataset of (rows, label): `sparse_features` makes the model's features of `rows`; label
      is [B, 1] float32.
    """
    record_bytes = ID_BYTES * (1 + options.columns * options.most_ids)
    if path.stat().st_size % record_bytes:
        raise ValueError(f"{path} does not hold whole rows of {record_bytes} bytes ({options})")
    records = tf.data.FixedLengthRecordDataset(
        str(path), record_bytes, buffer_size=READ_BUFFER_BYTES
    )
    blocks = records.repeat(epochs).batch(batch_size)
    return decoded_ahead(blocks, lambda block: _decode(block, options), part)


def sparse_features(
    rows: Dict[str, Tuple[tf.Tensor, tf.Tensor]], label: tf.Tensor, options: DataOptions
) -> Dict[str, tf.SparseTensor]:
    """SparseTensors [B, most_ids] of bucketed ids, one for each column.

    tf.data would pack a SparseTensor into a variant and unpack it again behind the iterator, for
    each of the columns: their parts travel as plain tensors instead.
    """
    shape = tf.stack([tf.shape(label, out_type=tf.int64)[0], options.most_ids])
    return {
        name: tf.SparseTensor(indices, values, shape) for name, (indices, values) in rows.items()
    }


def _decode(
    block: tf.Tensor, options: DataOptions
) -> Tuple[Dict[str, Tuple[tf.Tensor, tf.Tensor]], tf.Tensor]:
    numbers = tf.reshape(
        tf.decode_raw(block, tf.int32), [-1, 1 + options.columns * options.most_ids]
    )
    ids = tf.reshape(numbers[:, 1:], [-1, options.columns, options.most_ids])
    buckets = _hashed(ids, options.buckets)
    features = {}
    for name, raw, hashed in zip(
        column_names(options), tf.unstack(ids, axis=1), tf.unstack(buckets, axis=1)
    ):
        indices = tf.where(raw >= 0)
        features[name] = (indices, tf.gather_nd(hashed, indices))
    return features, tf.cast(numbers[:, :1], tf.float32)


def _hashed(ids: tf.Tensor, buckets: int) -> tf.Tensor:
    """Buckets [..] int64 of ids: one multiplication for all columns, no text in between."""
    product = tf.cast(ids, tf.int64) * _HASH_MULTIPLIER
    low_bits = tf.bitwise.bitwise_and(product, (1 << _HASH_BITS) - 1)
    return tf.bitwise.right_shift(low_bits * buckets, tf.constant(_HASH_BITS, tf.int64))


def _rows(random: np.random.RandomState, count: int, seed: int, options: DataOptions) -> np.ndarray:
    shape = (count, options.columns, options.most_ids)
    uniform = random.random_sample(shape).astype(np.float32)
    power = np.float32(1.0 - options.zipf)
    tail = np.float32(CARDINALITY) ** power - 1
    ids = np.minimum(np.exp(np.log1p(uniform * tail) / power) - 1, CARDINALITY - 1).astype(np.int32)
    lengths = random.randint(1, options.most_ids + 1, shape[:2])
    used = np.arange(options.most_ids) < lengths[:, :, None]
    # A few columns carry the signal: spread over all, it would take days of rows to learn.
    weights = 4.0 * np.exp(-np.arange(options.columns, dtype=np.float32) / 4.0)
    effects = (_effects(ids, seed) * used).sum(axis=2) / lengths
    logits = effects @ weights - 0.5
    labels = random.random_sample(count) < 1.0 / (1.0 + np.exp(-logits))
    ids[~used] = PADDING
    return np.concatenate([labels.astype(np.int32)[:, None], ids.reshape(count, -1)], axis=1)


def _effects(ids: np.ndarray, seed: int) -> np.ndarray:
    """Hidden effect of every id in [-1, 1): a hash of seed and id, shared by all columns."""
    mixed = (ids.astype(np.uint64) + np.uint64(seed + 1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(40)).astype(np.float32) / np.float32(2**23) - np.float32(1.0)
