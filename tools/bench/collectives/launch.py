"""Starting ranks by Horovod's launcher, and reading what each of them found."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List

import tqdm

from tools.bench import foreign_load
from tools.bench.cluster.processes import ProcessEnded
from tools.bench.collectives.settings import Setting

SETTING = "setting.pickle"
LIMIT_SECONDS = 900.0
PROGRESS = "[0]<stdout>:progress "

Watch = Callable[[str, int, int], Any]


class RanksFailed(ProcessEnded):
    """The ranks did not come to an end; what they said stands on standard error."""


def found_by_ranks(
    setting: Setting,
    folder: Path,
    watch: Watch,
    keep_weights: bool = False,
) -> List[Dict[str, Any]]:
    """Runs `rank.py` on ranks of this machine.

    Args:
      setting: what they measure.
      folder: where they write what they found.
      watch: told what runs next, how many turns are done, and how many there are.
      keep_weights: whether they write their weights there, too.

    Returns:
      What each of them wrote.

    Raises:
      RanksFailed: Horovod is not installed, a rank failed, or they took too long.
    """
    if importlib.util.find_spec("horovod") is None:
        raise RanksFailed("Horovod is not installed: make horovod")
    command = [sys.executable, "-m", "horovod.runner.launch", "-np", str(setting.ranks), "--gloo"]
    command += [sys.executable, "-m", "tools.bench.collectives.rank", str(folder)]
    (folder / SETTING).write_bytes(pickle.dumps((setting, keep_weights)))
    process = subprocess.Popen(
        command,
        env={"TF_CPP_MIN_LOG_LEVEL": "1", **os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    timer = threading.Timer(LIMIT_SECONDS, process.send_signal, [signal.SIGTERM])
    timer.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            pass_on(line, watch)
        if process.wait():
            raise RanksFailed("the ranks ended with exit code {}".format(process.returncode))
    finally:
        timer.cancel()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait()
    found = [
        json.loads((folder / "rank_{}.json".format(rank)).read_text(encoding="utf-8"))
        for rank in range(setting.ranks)
    ]
    foreign_load.add(found[0]["foreign_load"])
    return found


def measured_by_ranks(setting: Setting, title: str) -> List[Dict[str, Any]]:
    """What ranks find; turns are told on standard error."""

    def watch(name: str, done: int, of: int) -> None:
        print("{}, turn {} of {}: {}".format(title, done + 1, of, name), file=sys.stderr)

    with tempfile.TemporaryDirectory() as folder:
        return found_by_ranks(setting, Path(folder), watch)


def pass_on(line: str, watch: Watch) -> None:
    """Tells of progress, and shows any other line of a rank."""
    if not line.startswith(PROGRESS):
        tqdm.tqdm.write(line, file=sys.stderr, end="")  # Above a bar, if there is one.
        return
    done, of, name = line[len(PROGRESS) :].split()
    watch(name, int(done), int(of))
