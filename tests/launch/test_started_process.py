"""How a process ended, in words."""

from __future__ import annotations

import os
import queue
import sys

import pytest

from graph_opt.launch.started_process import StartedProcess, Task

_ADVICE = "WARNING:tensorflow:x is deprecated\\nInstructions for updating:\\nCall y\\n"


@pytest.mark.parametrize(
    "script, cause",
    [
        ("sys.exit('no such row')", "ended with exit code 1: no such row"),
        ("sys.exit(3)", "ended with exit code 3"),
        ("sys.stderr.write('done 5 steps\\n'); sys.exit(3)", "ended with exit code 3"),
        ("sys.stderr.write('an Error: 5\\n'); sys.exit(3)", "ended with exit code 3: an Error: 5"),
        ("sys.stderr.write('{}'); sys.exit(1)".format(_ADVICE), "ended with exit code 1"),
        ("sys.stderr.write('graph_opt: session 1\\n'); sys.exit(1)", "ended with exit code 1"),
        ("raise KeyError('users')", "ended with exit code 1: KeyError: 'users'"),
        ("import os; os.kill(os.getpid(), 15)", "was ended by SIGTERM"),
    ],
)
def test_only_what_tells_of_the_end_is_its_cause(script: str, cause: str) -> None:
    ended: queue.SimpleQueue[StartedProcess] = queue.SimpleQueue()
    command = [sys.executable, "-I", "-S", "-c", "import sys; " + script]
    sinks = [lambda line: None] * 2
    StartedProcess(Task("one", command, dict(os.environ)), sinks, ended.put)
    assert ended.get(timeout=100).cause == cause
