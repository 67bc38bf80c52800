"""Generated files, which are kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Iterable


def cached_file(path: Path, parts: Callable[[], Iterable[bytes]]) -> Path:
    """Writes a file if it is not there yet, and its folder.

    Args:
      path: of the file, which is also returned.
      parts: makes its content, part by part.
    """
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed only when complete: a run that is interrupted here leaves no short file behind.
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            file.writelines(parts())
        unfinished.replace(path)
    finally:
        if unfinished.exists():
            unfinished.unlink()
    return path
