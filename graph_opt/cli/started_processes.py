"""Python processes that a script starts itself, such as the tasks of its cluster.

A folder on their PYTHONPATH has a `sitecustomize` that calls `continue_run` before any code of
their own runs, and their environment holds the arguments of `graph-opt run`.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import os
import sys
from typing import Dict, Iterator, List

from graph_opt.cli import spawned_children
from graph_opt.cli.report_file import ReportFile
from graph_opt.launch.starter_pipe import end_with_starter

_VARIABLE = "GRAPH_OPT_RUN"
LAUNCHER = "GRAPH_OPT_LAUNCHER"  # process id of what started several ranks or tasks, in these
_PATH = "PYTHONPATH"
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "on_path")
_PASSED_ON = ("config", "config_text", "settings", "infer_io_stage", "tf1", "sok", "report")
_BY_MULTIPROCESSING = "--multiprocessing-fork"


def pass_on(options: argparse.Namespace) -> None:
    """Changes the environment for processes started from now on.

    Args:
      options: Arguments of `graph-opt run`.
    """
    asked = {name: getattr(options, name) for name in _PASSED_ON}
    os.environ[_VARIABLE] = json.dumps(dict(asked, report_folder=options.report_folder))
    if _FOLDER not in _path_folders():
        os.environ[_PATH] = os.pathsep.join([_FOLDER, *_path_folders()])


def pass_on_to_several(options: argparse.Namespace) -> Dict[str, str]:
    """The same for processes that this one starts beside each other, and that end with it.

    Returns:
      The environment that they have in common.

    Raises:
      WrongInput: The report that was asked for cannot be written.
    """
    options.report_folder = ReportFile(options.report).folder if options.report else ""
    pass_on(options)
    return {**os.environ, "PYTHONUNBUFFERED": "1", LAUNCHER: str(os.getpid())}


@contextlib.contextmanager
def restored_afterwards() -> Iterator[None]:
    """Takes back at its end what `pass_on` put into the environment; other changes stay."""
    asked = os.environ.get(_VARIABLE)
    was_on_path = _FOLDER in _path_folders()
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)
        if asked is not None:
            os.environ[_VARIABLE] = asked
        if not was_on_path and _FOLDER in _path_folders():
            folders = [folder for folder in _path_folders() if folder != _FOLDER]
            os.environ[_PATH] = os.pathsep.join(folders)
            if not folders:
                del os.environ[_PATH]


def continue_run() -> None:
    """Does in a started process what `graph-opt run` did before the script started.

    A process of `multiprocessing` gets more from its parent (`spawned_children`).
    """
    from graph_opt.cli.watched_program import WatchedProgram

    text = os.environ.get(_VARIABLE)
    if text is None or _BY_MULTIPROCESSING in sys.argv:
        return
    end_with_starter()
    options = argparse.Namespace(**json.loads(text))
    options.module, options.script, options.main_path = _module_run(), [], ""
    spawned_children.pass_on(options)
    watched = WatchedProgram(options)
    watched.watch()
    if os.environ.get(LAUNCHER) == str(os.getppid()):
        watched.tell_steps()
        atexit.register(watched.say_if_unused)


def _path_folders() -> List[str]:
    return [folder for folder in os.environ.get(_PATH, "").split(os.pathsep) if folder]


def _module_run() -> List[str]:
    """The module that this process runs by `python -m`, as far as Python tells."""
    given: List[str] = getattr(sys, "orig_argv", [])
    if sys.argv[:1] != ["-m"] or "-m" not in given:
        return []
    return given[given.index("-m") + 1 : given.index("-m") + 2]
