"""A pipe by which a process sees that the one that started it has ended, however that was.

The starting process alone has the end to write to, and writes nothing. The kernel closes that end
with the process, by SIGKILL, too, and the process that was started then reads the end of the pipe.
`prctl(PR_SET_PDEATHSIG)` would come when the thread ends that had started the process, and once: a
process that handles or ignores the signal would go on.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Dict, Optional

VARIABLE = "GRAPH_OPT_STARTER"  # the end to read from, in the process that was started
# Those that end others first need half of it (`process_group.STOP_SECONDS`).
KILL_SECONDS = 10.0


class StarterPipe:
    """The pipe in the process that starts another.

    Attributes:
      reader: The end that the other must inherit; to be closed here once it has.
      writer: The end that stays open here until the other has ended.
      environment: By what the other finds the pipe.
    """

    def __init__(self) -> None:
        reader, writer = os.pipe()
        self.reader = os.fdopen(reader, "rb")
        self.writer = os.fdopen(writer, "wb")
        self.environment: Dict[str, str] = {VARIABLE: "{} {}".format(reader, _identity(reader))}


def end_with_starter() -> None:
    """Ends this process, and its process group, once the process that started it has ended.

    They get SIGTERM, and SIGKILL some seconds later. Does nothing unless `StarterPipe` told the
    process of a pipe; processes that it starts are not told.

    Example:
      >>> end_with_starter()  # first of all, in what `graph-opt` starts
    """
    pipe = _inherited()
    if pipe is not None:
        threading.Thread(target=_end_after, args=(pipe,), daemon=True).start()


def _inherited() -> Optional[int]:
    number, _, identity = os.environ.pop(VARIABLE, "").partition(" ")
    try:
        return int(number) if identity and _identity(int(number)) == int(identity) else None
    except (OSError, ValueError):
        return None  # It was told to another process, whose environment this one has.


def _identity(pipe: int) -> int:
    return os.fstat(pipe).st_ino


def _end_after(pipe: int) -> None:
    try:
        os.read(pipe, 1)
    except OSError:
        return  # The program has closed what it does not know.
    os.killpg(os.getpgrp(), signal.SIGTERM)
    time.sleep(KILL_SECONDS)
    os.killpg(os.getpgrp(), signal.SIGKILL)
