"""Rows in Criteo's format from a seeded generator, for runs without the real files.

The rows keep what makes Criteo's data hard on embedding lookups: 26 categorical columns whose
cardinalities span 3 to 10 million, drawn with a Zipf skew (few ids are everywhere, most are rare;
the id of rank n comes about 1 / n ** 1.1 times as often as that of rank 1),
13 counters with a long tail, and empty fields. The label depends on hidden per-id effects, on the
counters and on two id pairs, so that a model that learns reaches an AUC well above 0.5.

Everything follows from the seed: the same seed gives the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, Tuple

import numpy as np

from tools.bench.workloads.cached_file import cached_file
from tools.bench.workloads.dlrm.schema import CATEGORICAL_COUNT, INTEGER_COUNT

# Distinct values of C1..C26 in the Kaggle 2014 Criteo training file.
CARDINALITIES: Tuple[int, ...] = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
    27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip

# Share of empty fields in I1..I13 and C1..C26 (rounded from the real file).
INTEGER_EMPTY: Tuple[float, ...] = (
    0.45, 0.0, 0.21, 0.22, 0.03, 0.22, 0.04, 0.0, 0.04, 0.45, 0.04, 0.77, 0.22,
)  # fmt: skip
CATEGORICAL_EMPTY: Tuple[float, ...] = (
    0.0, 0.0, 0.03, 0.03, 0.0, 0.12, 0.0, 0.0, 0.0, 0.0, 0.0, 0.03, 0.0,
    0.0, 0.0, 0.03, 0.0, 0.0, 0.44, 0.44, 0.03, 0.76, 0.0, 0.03, 0.44, 0.44,
)  # fmt: skip

ZIPF_EXPONENT = 1.1
EFFECT_PAIRS: Tuple[Tuple[int, int], ...] = ((4, 8), (13, 16))
CLICK_BIAS = -1.35
ROWS_PER_CHUNK = 32768
FORMAT_VERSION = 1  # part of the cached file's name: raise it whenever the rows change

_TRAIN_STREAM = 0
_HELD_OUT_STREAM = 1
_INTEGER_DIGITS = 5
_HEX_DIGITS = 8


def generated_files(
    directory: Path,
    train_rows: int,
    held_out_rows: int,
    seed: int,
    zipf: float = ZIPF_EXPONENT,
) -> Tuple[Path, Path]:
    """Writes the training and the held-out file if they are not there yet.

    Args:
      directory: where the two files are kept, made if missing.
      train_rows: rows of the training file.
      held_out_rows: rows of the held-out file; its rows are drawn independently from the same
        hidden effects.
      seed: any integer >= 0.
      zipf: how uneven ids are, 0 for uniform ones.

    Returns:
      The two paths (training, held-out), both tab-separated as Criteo ships its files.

    Example:
      >>> train, held_out = generated_files(Path("build/data"), 100000, 10000, seed=1)
    """
    train = _cached_file(directory, train_rows, seed, _TRAIN_STREAM, "train", zipf)
    held_out = _cached_file(directory, held_out_rows, seed, _HELD_OUT_STREAM, "held_out", zipf)
    return train, held_out


def generated_text(rows: int, seed: int, stream: int = _TRAIN_STREAM) -> bytes:
    """Returns `rows` lines of Criteo's tab-separated format, each ended by a newline."""
    return b"".join(_chunk_texts(rows, seed, stream, ZIPF_EXPONENT))


def _cached_file(
    directory: Path, rows: int, seed: int, stream: int, label: str, zipf: float
) -> Path:
    skew = "" if zipf == ZIPF_EXPONENT else f"_zipf{zipf:g}"
    path = directory / f"criteo_{label}_v{FORMAT_VERSION}{skew}_seed{seed}_rows{rows}.tsv"
    return cached_file(path, lambda: _chunk_texts(rows, seed, stream, zipf))


def _chunk_texts(rows: int, seed: int, stream: int, zipf: float) -> Iterator[bytes]:
    for chunk, start in enumerate(range(0, rows, ROWS_PER_CHUNK)):
        yield _chunk_text(min(ROWS_PER_CHUNK, rows - start), seed, stream, chunk, zipf)


def _chunk_text(rows: int, seed: int, stream: int, chunk: int, zipf: float) -> bytes:
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, stream, chunk])))
    ranks = _zipf_ranks(random, rows, zipf)
    counters = _counters(random, rows)
    integer_empty = random.random(counters.shape, dtype=np.float32) < INTEGER_EMPTY
    categorical_empty = random.random(ranks.shape, dtype=np.float32) < CATEGORICAL_EMPTY
    logits = _logits(ranks, counters, integer_empty, categorical_empty, seed)
    labels = random.random(rows, dtype=np.float32) < 1.0 / (1.0 + np.exp(-logits))
    return _format(labels, counters, integer_empty, _ids(ranks), categorical_empty)


def _zipf_ranks(random: np.random.Generator, rows: int, zipf: float) -> np.ndarray:
    """Popularity ranks [rows, 26], 0 = most frequent, by inverting the bounded Zipf law's CDF."""
    uniform = random.random((rows, CATEGORICAL_COUNT), dtype=np.float32)
    power = 1.0 - zipf
    tail = np.asarray(CARDINALITIES, np.float32) ** power - 1.0
    ranks = np.exp(np.log1p(uniform * tail) / power) - 1.0
    return np.minimum(ranks.astype(np.int64), np.asarray(CARDINALITIES, np.int64) - 1)


def _counters(random: np.random.Generator, rows: int) -> np.ndarray:
    """Counters [rows, 13]: log-normal, so that a few are a thousand times the median."""
    scale = np.linspace(0.6, 1.9, INTEGER_COUNT, dtype=np.float32)
    normal = random.standard_normal((rows, INTEGER_COUNT), dtype=np.float32)
    values = np.exp(1.2 + scale * normal)
    return np.minimum(values, 10**_INTEGER_DIGITS - 1).astype(np.int64)


def _logits(
    ranks: np.ndarray,
    counters: np.ndarray,
    integer_empty: np.ndarray,
    categorical_empty: np.ndarray,
    seed: int,
) -> np.ndarray:
    effects = _id_effects(ranks, seed)
    effects[categorical_empty] = 0.0
    amounts = np.log1p(counters.astype(np.float32)) - 1.4
    amounts[integer_empty] = 0.0
    integer_weights = np.random.RandomState(seed).uniform(-0.3, 0.3, INTEGER_COUNT)
    # Rare ids matter less, so that a few hundred steps already show what a model learns.
    id_weights = 2.4 / np.log(np.asarray(CARDINALITIES) + 10.0)
    pairs = sum(effects[:, first] * effects[:, second] for first, second in EFFECT_PAIRS)
    return CLICK_BIAS + effects @ id_weights + amounts @ integer_weights + 1.5 * pairs


def _id_effects(ranks: np.ndarray, seed: int) -> np.ndarray:
    """Hidden effect of every id in [-1, 1), a hash of (seed, column, id)."""
    columns = np.arange(CATEGORICAL_COUNT, dtype=np.uint64) + np.uint64(1)
    salt = _mixed(columns * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed))
    top_bits = _mixed(ranks.astype(np.uint64) + salt) >> np.uint64(40)
    return (top_bits.astype(np.float32) / 2.0**23) - 1.0


def _ids(ranks: np.ndarray) -> np.ndarray:
    """32-bit ids as Criteo prints them, hashed so that neighbours in rank are unrelated."""
    columns = np.arange(CATEGORICAL_COUNT, dtype=np.uint64) << np.uint64(40)
    return (_mixed(ranks.astype(np.uint64) + columns) >> np.uint64(32)).astype(np.uint32)


def _mixed(values: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64: a bijection of 64-bit integers without visible pattern."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _format(
    labels: np.ndarray,
    counters: np.ndarray,
    integer_empty: np.ndarray,
    ids: np.ndarray,
    categorical_empty: np.ndarray,
) -> bytes:
    """Text of the rows: every field is laid out in full width, then unused bytes are dropped."""
    rows = labels.shape[0]
    label_bytes = (labels.astype(np.uint8) + ord("0")).reshape(rows, 1, 1)
    integer_bytes, integer_used = _decimal_digits(counters)
    integer_used &= ~integer_empty[:, :, None]
    id_bytes = _hex_digits(ids)
    id_used = np.broadcast_to(~categorical_empty[:, :, None], id_bytes.shape)
    blocks = [label_bytes, integer_bytes, id_bytes]
    masks = [np.ones(label_bytes.shape, bool), integer_used, id_used]
    text = np.concatenate([_with_tabs(block) for block in blocks], axis=1)
    text[:, -1] = ord("\n")
    used = np.concatenate([_with_tabs(mask, True) for mask in masks], axis=1)
    return text[used].tobytes()


def _with_tabs(block: np.ndarray, separator: int = ord("\t")) -> np.ndarray:
    """[rows, fields, width] -> [rows, fields * (width + 1)], a separator after every field."""
    rows, fields, width = block.shape
    padded = np.full((rows, fields, width + 1), separator, block.dtype)
    padded[:, :, :width] = block
    return padded.reshape(rows, fields * (width + 1))


def _decimal_digits(values: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Digits [.., 5] of non-negative integers and which of them are no leading zeros."""
    powers = 10 ** np.arange(_INTEGER_DIGITS - 1, -1, -1, dtype=np.int64)
    digits = (values[:, :, None] // powers % 10).astype(np.uint8) + ord("0")
    used = (values[:, :, None] >= powers) | (powers == 1)
    return digits, used


def _hex_digits(values: np.ndarray) -> np.ndarray:
    alphabet = np.frombuffer(b"0123456789abcdef", np.uint8)
    shifts = np.arange(4 * (_HEX_DIGITS - 1), -1, -4, dtype=np.uint32)
    return alphabet[(values[:, :, None] >> shifts) & np.uint32(15)]
