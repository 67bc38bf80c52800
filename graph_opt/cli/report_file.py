"""`graph-opt run --report FILE`: what became of all sessions of a script and its child processes.

Each process writes its part to a folder whenever one of its sessions has news, so that even a
process which is killed has left what was known; the first process joins the parts into the file.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
from html import escape
from typing import Any, Dict, Iterator, List, Tuple

from graph_opt.cli.exit_codes import WrongInput
from graph_opt.cli.messages import warn
from graph_opt.reporting.json_documents import json_document

RANK = "HOROVOD_RANK"  # Set by launchers of Horovod's ranks.
TOLD = "GRAPH_OPT_TOLD"  # Set in a task of a cluster if another says what holds for all.
_JSON = ".json"
_HTML = ".html"
_TEXT_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{}</title></head>
<body><pre>{}</pre></body></html>"""
_NO_PAGE = "the page of the run could not be made: {}"
_NO_TENSORFLOW = "process {}: TensorFlow was not imported"


class ReportFile:
    """The file: JSON if its name ends in `.json`, a page if it ends in `.html`, otherwise text.

    Ranks of `horovodrun`, each of which runs `graph-opt run`, write a file each: those after rank 0
    put their number into its name (`report.rank1.json`). A page is of the session of a process
    that ran most steps. Where several processes have one, those after the first are beside it,
    named after their rank, task or process (`report.worker_1.html`).

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
        if self._is_page:
            from graph_opt.session.step_recording import record_steps

            record_steps()
        atexit.register(self._update_at_end)

    @property
    def _is_page(self) -> bool:
        return self.path.endswith(_HTML)

    def _update_at_end(self) -> None:
        if self._is_page:
            try:
                self._write_page()
            except Exception as error:  # Whatever a graph has, the script itself has succeeded.
                warn("run", _NO_PAGE.format(error))
        self._update()

    def _write_page(self) -> None:
        from graph_opt.session.session_log import process_report
        from graph_opt.session.step_recording import page_of_run

        report = process_report()
        sessions = [session.title for session in report.sessions]
        notes = [*(sessions if len(sessions) > 1 else ()), *report.messages]
        page = page_of_run(os.path.basename(sys.argv[0]) or "script", notes)
        if page is not None:
            page.save(os.path.join(self.folder, "{}{}".format(os.getpid(), _HTML)))

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
            text = json_document("run", {"processes": [part["report"] for part in parts]})
        else:
            texts = [part["text"] for part in parts] or [_NO_TENSORFLOW.format(self._first)]
            text = "\n\n".join(texts)
        if not self._is_page:
            _write(self.path, text + "\n")
        elif not self._take_pages(parts):
            _write(self.path, _TEXT_PAGE.format(escape(os.path.basename(self.path)), escape(text)))

    def _take_pages(self, parts: List[Dict[str, Any]]) -> bool:
        """Puts the pages that processes have made where users look; False if there is none."""
        path = self.path
        for part in parts:
            made = os.path.join(self.folder, "{}{}".format(part["report"]["process"], _HTML))
            if os.path.exists(made):
                with _writing(path or self._beside(part["report"])) as target:
                    shutil.copyfile(made, target)
                path = ""
        return not path

    def _beside(self, report: Dict[str, Any]) -> str:
        """The path of the page of a process that is not the first one."""
        name = report.get("task") or "process{}".format(report["process"])
        if "rank" in report:
            name = "rank{}".format(report["rank"])
        return "{}.{}{}".format(self.path[: -len(_HTML)], re.sub(r"\W", "_", name), _HTML)

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
        try:
            self._join()
        except WrongInput as error:  # The exit code is the script's.
            warn("run", str(error))
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_part(name: str) -> bool:
    return name.endswith(_JSON) and name[: -len(_JSON)].isdigit()


def _of_this_rank(path: str) -> str:
    rank = os.environ.get(RANK, "0")
    stem, suffix = os.path.splitext(path)
    return path if rank == "0" else "{}.rank{}{}".format(stem, rank, suffix)


def _write(path: str, text: str) -> None:
    with _writing(path), open(path, "w", encoding="utf-8") as file:
        file.write(text)


@contextlib.contextmanager
def _writing(path: str) -> Iterator[str]:
    """Tells which file cannot be written."""
    try:
        yield path
    except OSError as error:
        raise WrongInput("cannot write the report '{}': {}".format(path, error.strerror)) from error
