"""Generated clicks, as lines of text, whose labels can be learned from their features.

Each id has an effect of its own, and so have the numbers; a click is as likely as their sum says.
"""

from __future__ import annotations

from pathlib import Path
from typing import List, NamedTuple, Sequence

import numpy as np

IDS = 2000  # of a column; most rows have one of the first few
_ZIPF = 1.2
_NUMBERS = 500  # a number is below that
_TAGS = 100
_MOST_TAGS = 5
_OFTEN = 1.0  # standard deviation of the sum of effects


class Rows(NamedTuple):
    """Rows of a data set before they are written.

    Attributes:
      label: [R] 0 or 1.
      ids: [R, C] below IDS.
      numbers: [R, N] integers.
    """

    label: np.ndarray
    ids: np.ndarray
    numbers: np.ndarray


def rows_of(count: int, columns: int, numbers: int, seed: int) -> Rows:
    """Draws rows; those of all seeds have the same effects.

    Args:
      count: Of rows, R.
      columns: Of ids, C.
      numbers: Columns of numbers, N.
      seed: Of the rows.
    """
    effects = np.random.RandomState(7)
    of_ids = effects.normal(size=[columns, IDS]) * _OFTEN / np.sqrt(columns)
    of_numbers = effects.normal(size=[numbers]) * _OFTEN / np.sqrt(max(numbers, 1))
    random = np.random.RandomState(seed)
    chances = np.arange(1, IDS + 1) ** -_ZIPF
    ids = random.choice(IDS, [count, columns], p=chances / chances.sum())
    drawn = random.randint(0, _NUMBERS, [count, numbers])
    logits = of_ids[np.arange(columns), ids].sum(axis=1)
    logits += (drawn / _NUMBERS - 0.5) @ of_numbers * np.sqrt(12)
    clicks = random.random_sample(count) < 1 / (1 + np.exp(-2 * logits))
    return Rows(clicks.astype(np.int64), ids, drawn)


def write_criteo(path: Path, count: int, columns: int, numbers: int, seed: int) -> None:
    """Writes lines `clicked,I1,...,C1,...`: numbers, then ids as hexadecimal texts."""
    rows = rows_of(count, columns, numbers, seed)
    texts = [rows.label, *rows.numbers.T]
    places = [column * 7919 + place for place, column in enumerate(rows.ids.T)]
    _write(
        path, [*map(_decimal, texts), *(["{:08x}".format(one) for one in ids] for ids in places)]
    )


def write_taobao(path: Path, count: int, seed: int) -> None:
    """Writes lines of two labels, six ids, two lists of tags, and a price."""
    rows = rows_of(count, 8, 1, seed)
    random = np.random.RandomState(seed + 1)
    bought = rows.label * random.randint(0, 2, count)
    ids = [["v{}".format(one) for one in column] for column in rows.ids.T[:6]]
    price = ["{:.2f}".format(0.6 * one) for one in rows.numbers[:, 0]]
    tags = [_lists_of_tags(column, random) for column in rows.ids.T[6:]]
    _write(path, [_decimal(rows.label), _decimal(bought), *ids, *tags, price])


def write_nested(path: Path, count: int, columns: int, numbers: int, seed: int) -> None:
    """Writes lines `clicked;ids;numbers`, both lists of which are separated by commas."""
    rows = rows_of(count, columns, numbers, seed)
    ids = [",".join(map(str, row)) for row in rows.ids.tolist()]
    drawn = [",".join("{}.25".format(one) for one in row) for row in rows.numbers.tolist()]
    _write(path, [_decimal(rows.label), ids, drawn], ";")


def _lists_of_tags(first: np.ndarray, random: np.random.RandomState) -> List[str]:
    """Lists that begin with a tag which tells of the label."""
    more = random.randint(0, _TAGS, [len(first), _MOST_TAGS - 1]).tolist()
    lengths = random.randint(0, _MOST_TAGS, len(first)).tolist()
    return [
        "|".join("t{}".format(tag) for tag in [one % _TAGS, *others[:length]])
        for one, others, length in zip(first.tolist(), more, lengths)
    ]


def _decimal(column: np.ndarray) -> List[str]:
    return list(map(str, column.tolist()))


def _write(path: Path, columns: Sequence[Sequence[str]], separator: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = map(separator.join, zip(*columns))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
