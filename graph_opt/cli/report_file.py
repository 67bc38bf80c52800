"""`graph-opt run --report FILE`: what became of all sessions of a script and its child processes.

Each process writes its part to a folder whenever one of its sessions has news, so that even a
process which is killed has left what was known; the first process joins the parts into the file.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from typing import Any, Dict, List, Tuple

from graph_opt.cli.exit_codes import WrongInput

RANK = "HOROVOD_RANK"  # Set by launchers of Horovod's ranks.
TOLD = "GRAPH_OPT_TOLD"  # Set in a task of a cluster if another says what holds for all.
_JSON = ".json"
_NO_TENSORFLOW = "process {}: TensorFlow was not imported"


class ReportFile:
    """The file, which is JSON if its name ends in `.json`, and otherwise text.

    Ranks of `horovodrun`, each of which runs `graph-opt run`, write a file each: those after rank 0
    put their number into its name (`report.rank1.json`).

    Args:
      path: The file; created at once, so that a path that cannot be written is an error before the
        script runs.
      folder: Where the processes write their parts; "" in the first one, which creates it.

    Attributes:
      folder: The same.

    Raises:
      WrongInput: The file cannot be written.
    """

    def __init__(self, path: str, folder: str = "") -> None:
        self.path = os.path.abspath(path)
        self.folder = folder
        self._first = 0
        if not folder:
            self.path = _of_this_rank(self.path)
            _write(self.path, "")
            self._first = os.getpid()
            self.folder = tempfile.mkdtemp(prefix="graph_opt_report_")
            atexit.register(self._finish)

    def follow_sessions(self) -> None:
        """Writes whenever a session has news and when the process ends; loads TensorFlow."""
        from graph_opt.session.session_log import tell_more_by

        tell_more_by("{} says why".format(os.path.basename(self.path)), self._update)
        atexit.register(self._update)

    def _update(self) -> None:
        from graph_opt.session.session_log import process_report

        report = process_report()
        part = {"text": str(report), "report": report.to_dict()}
        target = os.path.join(self.folder, "{}{}".format(os.getpid(), _JSON))
        try:
            _write(target + ".new", json.dumps(part))
            os.replace(target + ".new", target)
            if os.getpid() == self._first:
                self._join()
        except (OSError, WrongInput):
            pass  # A full disk must not end training; the script's last line says what is missing.

    def _join(self) -> None:
        parts = self._parts()
        if self.path.endswith(_JSON):
            text = json.dumps({"processes": [part["report"] for part in parts]}, indent=2)
        else:
            texts = [part["text"] for part in parts] or [_NO_TENSORFLOW.format(self._first)]
            text = "\n\n".join(texts)
        _write(self.path, text + "\n")

    def _parts(self) -> List[Dict[str, Any]]:
        """The parts of all processes: the first one's, then the others by rank, task and id."""
        parts = []
        for name in filter(_is_part, os.listdir(self.folder)):
            with open(os.path.join(self.folder, name)) as file:
                parts.append(json.load(file))
        return sorted(parts, key=self._place)

    def _place(self, part: Dict[str, Any]) -> Tuple[bool, int, str, int]:
        report = part["report"]
        is_later = report["process"] != self._first
        return is_later, report.get("rank", -1), report.get("task", ""), report["process"]

    def _finish(self) -> None:
        if os.getpid() != self._first:
            return
        self._join()
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_part(name: str) -> bool:
    return name.endswith(_JSON) and name[: -len(_JSON)].isdigit()


def _of_this_rank(path: str) -> str:
    rank = os.environ.get(RANK, "0")
    stem, suffix = os.path.splitext(path)
    return path if rank == "0" else "{}.rank{}{}".format(stem, rank, suffix)


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise WrongInput("cannot write the report '{}': {}".format(path, error.strerror)) from error
