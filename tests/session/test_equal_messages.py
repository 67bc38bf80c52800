from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.horovod_processes import NEEDS_HOROVOD

REPOSITORY = Path(__file__).parents[2]


@NEEDS_HOROVOD
@pytest.mark.slow
@pytest.mark.parametrize("opened, messages", [("stock", 1), ("graph_opt", 3)])
def test_each_is_sent(opened: str, messages: int) -> None:
    """TensorFlow keeps one, and not the same on all ranks: then each waits for the other's."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.session.equal_messages", opened],
        cwd=str(REPOSITORY),
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
    )
    assert "messages {}\n".format(messages) in ran.stdout
