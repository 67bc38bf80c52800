"""Columns of Criteo's click logs: a label, 13 counters and 26 categorical values a row."""

from __future__ import annotations

from typing import Tuple

INTEGER_COUNT = 13
CATEGORICAL_COUNT = 26

LABEL = "label"
ID = "id"
INTEGERS: Tuple[str, ...] = tuple(f"I{i}" for i in range(1, INTEGER_COUNT + 1))
CATEGORICALS: Tuple[str, ...] = tuple(f"C{i}" for i in range(1, CATEGORICAL_COUNT + 1))
COLUMNS: Tuple[str, ...] = (LABEL,) + INTEGERS + CATEGORICALS
