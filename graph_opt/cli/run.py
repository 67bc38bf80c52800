"""`graph-opt run`: runs an unmodified script with its lookups prefetched.

The script gets what `python script.py` would give it: its own `sys.argv`, `sys.path[0]`,
`__main__`, `__file__`, tracebacks and exit code. Nothing else is loaded until it imports
TensorFlow; then graph_opt is installed, and the script gets the TensorFlow it was written for.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from types import TracebackType
from typing import Any, Iterator, Optional

from graph_opt.cli import spawned_children, started_processes
from graph_opt.cli.early_checks import read_config
from graph_opt.cli.exit_codes import WRONG_INPUT, WrongInput
from graph_opt.cli.messages import say, say_wrong
from graph_opt.cli.programs import Program
from graph_opt.cli.python2 import leftover_of
from graph_opt.cli.tensorflow_import import stop_watching
from graph_opt.cli.watched_program import COMMAND, WatchedProgram
from graph_opt.session.module_aliases import libraries_of_sharded_tables

_CONTRIB = "graph_opt.contrib"


def handle(options: argparse.Namespace) -> int:
    """Runs the script; returns the exit code that Python would give it.

    Raises:
      SystemExit: The script's own, or 2 for a wrong option, which may be detected only when the
        script imports TensorFlow.
      KeyboardInterrupt: The script's own; it has already been reported.
    """
    try:
        read_config(options)
        options.report_folder = ""
        watched = WatchedProgram(options)
        watched.open_report()
        started_processes.pass_on(options)
        spawned_children.pass_on(options)
        program = watched.program()
    except WrongInput as error:
        say_wrong(COMMAND, str(error))
        return WRONG_INPUT
    return _execute(program, watched)


@contextlib.contextmanager
def undone_afterwards() -> Iterator[None]:
    """Undoes at its end what a run sets for started processes and for an import of TensorFlow."""
    with started_processes.restored_afterwards(), spawned_children.restored_afterwards():
        try:
            yield
        finally:
            stop_watching()
            libraries_of_sharded_tables.take_back()


def _execute(program: Program, watched: WatchedProgram) -> int:
    try:
        program.execute()
        watched.say_if_unused()
    except SystemExit as error:
        if error.code:
            sys.last_value = error
        raise
    except KeyboardInterrupt as error:
        _report(program, error)
        _leave_out_of_reports(error)
        raise  # The interpreter ends with the signal, as a shell expects of what it interrupts.
    except BaseException as error:
        _report(program, error)
        advice = leftover_of(error, program.path) or _use_instead(error)
        if advice:
            say(COMMAND, advice)
        return 1
    return 0


def _use_instead(error: BaseException) -> str:
    """What `tf.contrib` says of a name that was imported from it; Python does not repeat that."""
    found = re.search(r"cannot import name '(\w+)'", str(error))
    module = sys.modules.get(getattr(error, "name", None) or "")
    if found is None or module is None or not module.__name__.startswith(_CONTRIB):
        return ""
    try:
        getattr(module, found.group(1))
    except AttributeError as absent:
        return str(absent)
    return ""


def _report(program: Program, error: BaseException) -> None:
    """Reports an uncaught exception as the interpreter does, but without our own frames."""
    traceback = _frames_of(program, error.__traceback__)
    sys.last_value = error  # As the interpreter does; who tells of a program's end looks here.
    sys.excepthook(type(error), error.with_traceback(traceback), traceback)


def _leave_out_of_reports(reported: BaseException) -> None:
    hook = sys.excepthook

    def report_others(kind: Any, error: Any, traceback: Any) -> None:
        if error is not reported:
            hook(kind, error, traceback)

    sys.excepthook = report_others


def _frames_of(program: Program, traceback: Optional[TracebackType]) -> Optional[TracebackType]:
    """The part of the traceback from the program's first frame on; none for a SyntaxError."""
    while traceback is not None and not program.owns(traceback.tb_frame.f_code):
        traceback = traceback.tb_next
    return traceback
