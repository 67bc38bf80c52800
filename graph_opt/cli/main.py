"""How `graph-opt` starts a command, and how errors end the process.

Exit codes: 0 success; 1 the graph was refused, with the reason, or two graphs differ (for `run`:
the exit code of the script); 2 a file, option or argument is wrong, which one line on stderr
explains; 130 interrupted. Without arguments, it lists its commands, and that is success.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from typing import Callable, Optional, Sequence

from graph_opt.cli.arguments import parser
from graph_opt.cli.child_process import in_child_process
from graph_opt.cli.completion import completion
from graph_opt.cli.early_checks import check_early
from graph_opt.cli.exit_codes import INTERRUPTED, REFUSED, WRONG_INPUT, WrongInput
from graph_opt.cli.messages import say_wrong
from graph_opt.cli.parser import commands_of
from graph_opt.cli.tensorflow_import import stop_watching
from graph_opt.graph.collection import uncollected_process
from graph_opt.launch.starter_pipe import end_with_starter

_NO_SCRIPT = "no script given: give its path, or -m MODULE"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs `graph-opt` and returns its exit code.

    Args:
      arguments: Without the program's name; `sys.argv[1:]` if None. If they are given, this process
        is not the program's own: what `run` sets for processes that the script starts, and for an
        import of TensorFlow, is undone when the script ends.

    Raises:
      SystemExit: Wrong usage (2), `--help` (0), and whatever the script of `run` raises.

    Example:
      >>> main(["inspect", "graph.pbtxt", "--json"])
      0
    """
    try:
        if not (sys.argv[1:] if arguments is None else arguments):
            parser().print_help()
            return 0
        options = parser().parse_args(arguments)
        if options.command == "completion":
            print(completion(parser(), options.shell), end="", flush=True)
            return 0
    except OSError as error:
        return _refused_by_system(error)
    stop_watching()  # This process may have been started by a script under another `run`.
    if options.command == "proxy":
        return _proxy(options)
    checks_predictions = options.command == "check" and options.requests is not None
    if options.command in ("run", "check", "cluster") and not checks_predictions:
        return _run(options, is_own_process=arguments is None)
    # TensorFlow's start-up lines would bury an error, which is a single line.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if arguments is not None:
        return _graph_command(options)
    return in_child_process(lambda: _only_command(options), lambda name: _crashed(options, name))


def _only_command(options: argparse.Namespace) -> int:
    """Runs a command in a process that does nothing else."""
    if options.command == "convert":
        return _graph_command(options)
    with uncollected_process():
        return _graph_command(options)


def _crashed(options: argparse.Namespace, name: str) -> int:
    several = {"convert": "sources", "check": "script"}.get(options.command)
    file = getattr(options, several)[0] if several else options.input
    return _fail(
        "{}: TensorFlow ended by {} on what the file has in it: no program of TensorFlow writes "
        "such files".format(file, name),
        WRONG_INPUT,
    )


def _run(options: argparse.Namespace, is_own_process: bool) -> int:
    if options.module is None and options.script[:1] == ["--"]:
        del options.script[0]
    if not (options.script or options.module):
        commands_of(parser())[options.command].error(_NO_SCRIPT)
    handle = _launcher(options)
    if is_own_process:  # Its threads and exit handlers may outlast the script.
        end_with_starter()
        return handle(options)
    from graph_opt.cli.run import undone_afterwards

    with undone_afterwards():
        return handle(options)


def _proxy(options: argparse.Namespace) -> int:
    from graph_opt.cli import proxy

    try:
        return proxy.handle(options)
    except (ImportError, OSError) as error:  # It may not be compiled, or have no more sockets.
        return _fail(str(error), WRONG_INPUT)


def _launcher(options: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    if options.command == "check":
        from graph_opt.cli.check import handle
    elif options.command == "cluster":
        from graph_opt.cli.cluster import handle
    elif options.num_ranks is None:
        from graph_opt.cli.run import handle
    else:
        from graph_opt.cli.ranks import handle
    return handle


def _graph_command(options: argparse.Namespace) -> int:
    try:
        return _run_graph_command(options)
    except (WrongInput, ImportError) as error:  # TensorFlow or the compiled ops may be missing.
        return _fail(str(error), WRONG_INPUT)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except OSError as error:
        return _refused_by_system(error)


def _run_graph_command(options: argparse.Namespace) -> int:
    check_early(options)
    name = "check_served" if options.command == "check" else options.command
    handle = importlib.import_module("graph_opt.cli." + name).handle
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # Names may be in any script.
    code = _handled(handle, options)
    if sys.stdout is not None:
        sys.stdout.flush()
    return code


def _handled(handle: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Runs a command, and tells TensorFlow's errors."""
    from graph_opt.compat import tf
    from graph_opt.compat.deprecation_advice import without_deprecation

    try:
        with without_deprecation():
            return handle(options)
    except tf.errors.FailedPreconditionError as error:
        return _fail(error.message, REFUSED)
    except tf.errors.OpError as error:
        return _fail(error.message, WRONG_INPUT)


def _refused_by_system(error: OSError) -> int:
    """Says what the system refused a command; a reader that is gone (`| head`) is no fault."""
    if error.filename is not None:
        return _fail("{}: {}".format(error.filename, error.strerror), WRONG_INPUT)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # It is flushed once more.
    if isinstance(error, BrokenPipeError):
        return 0
    return _fail("the output cannot be written: {}".format(error.strerror), WRONG_INPUT)


def _fail(message: str, code: int) -> int:
    say_wrong("", message)
    return code
