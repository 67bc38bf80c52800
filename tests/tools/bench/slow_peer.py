"""A competitor of `group_lookup` that finds itself on a slow path."""

from __future__ import annotations

import contextlib
from typing import Iterator

from tools.bench.group_lookup_cases import FORWARD, TRAIN, Size
from tools.bench.group_lookup_server import Prepared

REASON = "it runs its reference path"


@contextlib.contextmanager
def prepared(size: Size) -> Iterator[Prepared]:
    """Nothing to measure."""
    absent = {"slow " + one: REASON for one in (FORWARD, TRAIN)}
    yield Prepared(lambda ids: None, {}, absent, "none")
