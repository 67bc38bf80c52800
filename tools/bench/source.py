"""Which code was measured."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any, Dict

_REPOSITORY = Path(__file__).resolve().parents[2]


def source() -> Dict[str, Any]:
    """The commit, and a digest of what the working tree has that it does not.

    Empty outside a Git repository.

    Example:
        >>> source()
        {'commit': '1851ac04', 'changes': '5f2d9c1e'}
    """
    commit = _git("rev-parse", "--short=8", "HEAD").strip()
    if not commit:
        return {}
    changes = _git("diff", "HEAD", "--", ":!docs", ":!README.md")
    new = _git("ls-files", "--others", "--exclude-standard")
    found: Dict[str, Any] = {"commit": commit.decode("ascii")}
    if changes or new:
        found["changes"] = hashlib.sha256(changes + new).hexdigest()[:8]
    return found


def _git(*arguments: str) -> bytes:
    try:
        return subprocess.run(
            ["git", *arguments], cwd=_REPOSITORY, stdout=subprocess.PIPE, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return b""
