"""Python processes that a script starts by itself, such as the tasks of its cluster.

They find a folder on their PYTHONPATH whose `sitecustomize` calls `go_on` before anything of their
own runs, and in their environment what was asked of `graph-opt run`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import List

from graph_opt.cli import spawned_children

_VARIABLE = "GRAPH_OPT_RUN"
_PATH = "PYTHONPATH"
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "on_path")
_HANDED_ON = ("config", "config_text", "settings", "infer_io_stage", "tf1", "report")
_BY_MULTIPROCESSING = "--multiprocessing-fork"


def hand_on(options: argparse.Namespace) -> None:
    """Changes the environment for processes started from now on.

    Args:
      options: Arguments of `graph-opt run`.
    """
    asked = {name: getattr(options, name) for name in _HANDED_ON}
    os.environ[_VARIABLE] = json.dumps(dict(asked, report_folder=options.report_folder))
    folders = [folder for folder in os.environ.get(_PATH, "").split(os.pathsep) if folder]
    if _FOLDER not in folders:
        os.environ[_PATH] = os.pathsep.join([_FOLDER, *folders])


def go_on() -> None:
    """Does in a started process what `graph-opt run` did before the script ran.

    A process of `multiprocessing` is told more by its parent (`spawned_children`).
    """
    from graph_opt.cli.watched_program import WatchedProgram

    text = os.environ.get(_VARIABLE)
    if text is None or _BY_MULTIPROCESSING in sys.argv:
        return
    options = argparse.Namespace(**json.loads(text))
    options.module, options.script, options.main_path = _module_run(), [], ""
    spawned_children.hand_on(options)
    WatchedProgram(options).watch()


def _module_run() -> List[str]:
    """The module that this process runs by `python -m`, as far as Python tells."""
    given: List[str] = getattr(sys, "orig_argv", [])
    if sys.argv[:1] != ["-m"] or "-m" not in given:
        return []
    return given[given.index("-m") + 1 : given.index("-m") + 2]
