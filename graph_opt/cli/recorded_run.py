"""The process of `graph-opt run` that `graph-opt check` starts, and that records its steps."""

from __future__ import annotations

import atexit
import json
import os
import random
import sys
import threading
from typing import Dict, NamedTuple, NoReturn, Optional

from graph_opt.checking.ranks import run_of_ranks
from graph_opt.checking.records import GrowingRecord, Run, read_run
from graph_opt.cli.own_copies import OwnCopies

_VARIABLE = "GRAPH_OPT_CHECK"
RECORD = "record"
NOT_RECORDED = {_VARIABLE: ""}
"""What keeps a process from recording that starts beside one that records."""


class RecordedRun(NamedTuple):
    """How a run is recorded.

    Attributes:
      folder: Where its record goes, and its initial values.
      given: The folder of the run whose initial values it starts from; "" for its own.
      most_updates: After how many steps that train it ends; 0 for never.
      in_lock_step: Whether no lookup runs ahead of the updates before it.
      num_ranks: How many ranks record, each in a folder of its own in these; 0 if there are none.
    """

    folder: str
    given: str
    most_updates: int
    in_lock_step: bool
    num_ranks: int = 0

    def environment(self) -> Dict[str, str]:
        """What the process is told by; Python's hashes are the same in all of them."""
        return {_VARIABLE: json.dumps(self), "PYTHONHASHSEED": "0"}

    def read(self) -> Run:
        """What was recorded, as far as that was written."""
        if not self.num_ranks:
            return read_run(os.path.join(self.folder, RECORD))
        ranks = [self.of_rank(rank) for rank in range(self.num_ranks)]
        return run_of_ranks([read_run(os.path.join(one.folder, RECORD)) for one in ranks])

    def growing(self) -> GrowingRecord:
        """What tells how far the run is; of ranks, the first one, as all take the same steps."""
        first = self.of_rank(0) if self.num_ranks else self
        return GrowingRecord(os.path.join(first.folder, RECORD))

    def of_rank(self, rank: int) -> RecordedRun:
        """What one of the ranks does."""
        name = "rank_{}".format(rank)
        given = os.path.join(self.given, name) if self.given else ""
        return self._replace(folder=os.path.join(self.folder, name), given=given)


def asked_for() -> Optional[RecordedRun]:
    """How this process is to be recorded, if it is; processes that it starts are not."""
    text = os.environ.pop(_VARIABLE, "")
    if not text:
        return None
    random.seed(0)
    asked = RecordedRun(*json.loads(text))
    if asked.num_ranks:
        asked = asked.of_rank(int(os.environ["HOROVOD_RANK"]))
        os.makedirs(asked.folder, exist_ok=True)
    return asked


def record(asked: RecordedRun, copies: Optional[OwnCopies] = None) -> None:
    """Begins to record; loads TensorFlow.

    Args:
      asked: How.
      copies: Makes the folders to which checkpoints are saved the run's own.
    """
    import numpy as np

    from graph_opt.checking.recorder import Recorder, Recording
    from graph_opt.checking.records import RecordFile

    np.random.seed(0)
    file = RecordFile(os.path.join(asked.folder, RECORD))
    recording = Recording(
        asked.folder,
        asked.given,
        asked.most_updates,
        asked.in_lock_step,
        ended=_end,
        saves=copies.take_folder_of if copies is not None else None,
    )
    recorder = Recorder(recording, file.add)
    recorder.start()
    atexit.register(recorder.finish)


def _end() -> NoReturn:
    """Ends the process as one that has done its work."""
    if threading.current_thread() is not threading.main_thread():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    raise SystemExit(0)
