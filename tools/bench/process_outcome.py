"""Part of a benchmark in a process of its own, which no other part's threads or servers disturb."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Sequence

from tools.bench.records import Outcome


def outcome_of_process(module: str, flags: Sequence[str], limit_seconds: float) -> Outcome:
    """Runs a module that writes its outcome to the file that its flag `--output` names.

    Args:
        module: run as `python -m MODULE`.
        flags: its other flags.
        limit_seconds: after this long it is killed.

    Raises:
        subprocess.SubprocessError: it failed, or ran for too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "outcome.json"
        command = [sys.executable, "-m", module, *flags, "--output", str(output)]
        subprocess.run(command, timeout=limit_seconds, check=True)
        return Outcome.from_dict(json.loads(output.read_text(encoding="utf-8")))
