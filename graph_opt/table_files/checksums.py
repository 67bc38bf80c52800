"""Checksums of files, and what is written of them beside the files."""

from __future__ import annotations

import json
import os
import zlib
from typing import Any, Dict, List

import numpy as np


def bytes_of(array: np.ndarray) -> memoryview:
    """An array's bytes, row by row."""
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def crc32(array: np.ndarray, before: int = 0) -> int:
    """Checksum of an array's bytes, going on from another."""
    return zlib.crc32(bytes_of(array), before)


class Checksums:
    """CRC-32 of each block of a stream.

    Args:
      block_bytes: Size of a block.

    Attributes:
      values: The checksums so far.
    """

    def __init__(self, block_bytes: int) -> None:
        self.values: List[int] = []
        self._block_bytes = block_bytes
        self._room = 0

    def add(self, data: memoryview) -> None:
        """Goes on with the stream."""
        begin = 0
        while begin < len(data):
            if not self._room:
                self.values.append(0)
                self._room = self._block_bytes
            part = data[begin : begin + self._room]
            self.values[-1] = zlib.crc32(part, self.values[-1])
            self._room -= len(part)
            begin += len(part)


def write_json(path: str, facts: Dict[str, Any]) -> None:
    """Writes a file, and brings it to the disk."""
    with open(path, "w", encoding="utf-8") as opened:
        json.dump(facts, opened, indent=1, sort_keys=True)
        opened.flush()
        os.fsync(opened.fileno())
