"""`graph-opt run`: an unmodified TensorFlow 1 script, with its lookups prefetched.

The script sees what `python script.py` would show it: its own `sys.argv`, `sys.path[0]`,
`__main__`, `__file__`, tracebacks and exit code.
"""

from __future__ import annotations

import argparse
import sys
from types import TracebackType
from typing import Optional

from graph_opt.cli.config_arguments import default_config, given_config
from graph_opt.cli.exit_codes import INTERRUPTED, WRONG_INPUT
from graph_opt.cli.programs import Program, ProgramError, find_module, find_script
from graph_opt.compat import tf
from graph_opt.compat.legacy_imports import present_version_1
from graph_opt.config.settings import without_effect
from graph_opt.session.installation import install

_NO_OVERRIDE = (
    "graph-opt run: {} is TensorFlow's default already; it does not override what the script sets"
)


def handle(options: argparse.Namespace) -> int:
    """Runs the script; returns the exit code that Python would give it.

    Raises:
      SystemExit: The script's own.
    """
    try:
        config = given_config(options)
        ineffective = without_effect(options.settings)
        program = _program(options)
    except (ProgramError, tf.errors.OpError) as error:
        message = getattr(error, "message", str(error))
        print("graph-opt run: " + " ".join(message.split()), file=sys.stderr)
        return WRONG_INPUT
    for setting in ineffective:
        print(_NO_OVERRIDE.format(setting), file=sys.stderr)
    install(
        config=config,
        infer_io_stage=options.infer_io_stage,
        defaults=default_config(options),
    )
    return _run(program)


def _program(options: argparse.Namespace) -> Program:
    if options.module:
        # Before the search: it imports the packages around the module.
        present_version_1(own_package=options.module[0].partition(".")[0])
        return find_module(options.module)
    program = find_script(options.script)
    present_version_1()
    return program


def _run(program: Program) -> int:
    try:
        program.execute()
    except SystemExit:
        raise
    except BaseException as error:
        return _uncaught(program, error)
    return 0


def _uncaught(program: Program, error: BaseException) -> int:
    """What the interpreter does with an uncaught exception, without our frames in between."""
    traceback = _frames_of(program, error.__traceback__)
    sys.excepthook(type(error), error.with_traceback(traceback), traceback)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _frames_of(program: Program, traceback: Optional[TracebackType]) -> Optional[TracebackType]:
    """The part of the traceback from the program's first frame on; none for a SyntaxError."""
    while traceback is not None and not program.owns(traceback.tb_frame.f_code):
        traceback = traceback.tb_next
    return traceback
