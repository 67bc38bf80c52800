"""`graph-opt check`: whether a script computes the same with its lookups rewritten.

Each run is a process of `graph-opt run` in a folder of its own, which records its steps; with
`--ps`, it is a cluster, whose worker does, and with `-np`, all ranks do.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import sys
import threading
from types import FrameType
from typing import Any, Iterator, NoReturn, Optional

from graph_opt.checking.check import check
from graph_opt.checking.verdict import DIFFERENT, EQUAL, ROUNDING, CheckResult
from graph_opt.cli.check_runs import COMMAND, CheckRuns
from graph_opt.cli.colours import WARNING, WELL, WRONG, has_colour, painted
from graph_opt.cli.early_checks import read_config
from graph_opt.cli.exit_codes import INTERRUPTED, WRONG_INPUT, WrongInput
from graph_opt.cli.messages import say_wrong
from graph_opt.cli.script_command import given_script
from graph_opt.saved_models.files import graphs_file

_VERDICT = re.compile("^verdict: .*", re.MULTILINE)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_RANKS_AND_SERVERS = "-np is for ranks of Horovod, and --ps for servers: say one of them"
_ONLY_OF_REQUESTS = "--tolerance is for predictions: say --requests FILE, too"
_NO_SCRIPT = (
    "{}: is a SavedModel, not a script: say --requests FILE to compare what its graphs predict, if "
    "graph-opt export wrote it"
)
_ONLY_ON_SERVERS = "--workers and --no-chief are for clusters: give --ps N, too"


def handle(options: argparse.Namespace) -> int:
    """Makes the runs and prints the verdict; returns the exit code."""
    try:
        read_config(options)
        _refuse_unlike(options)
        given = given_script(options)
        if options.json:
            _write(options.json, "")
        runs = CheckRuns(options, given)
    except WrongInput as error:
        say_wrong(COMMAND, str(error))
        return WRONG_INPUT
    try:
        with _handled_by(_interrupt):
            result = check(runs.run, options.steps)
    except KeyboardInterrupt:
        with _handled_by(signal.SIG_IGN):
            runs.end()
        say_wrong(COMMAND, "interrupted")
        return INTERRUPTED
    except WrongInput as error:
        runs.end()
        say_wrong(COMMAND, str(error))
        return WRONG_INPUT
    runs.clean_up(keeps_logs=result.verdict not in (EQUAL, ROUNDING))
    _print(result, options.json)
    return result.exit_code


@contextlib.contextmanager
def _handled_by(handler: Any) -> Iterator[None]:
    """Has Ctrl-C and SIGTERM do the same; a thread that is not the main one cannot say."""
    is_main = threading.current_thread() is threading.main_thread()
    before = [(one, signal.signal(one, handler)) for one in _SIGNALS if is_main]
    try:
        yield
    finally:
        for one, handled in before:
            signal.signal(one, handled)


def _interrupt(number: int, frame: Optional[FrameType]) -> NoReturn:
    raise KeyboardInterrupt


def _refuse_unlike(options: argparse.Namespace) -> None:
    if options.num_ranks and options.servers:
        raise WrongInput(_RANKS_AND_SERVERS)
    if not options.servers and (options.workers > 1 or not options.has_chief):
        raise WrongInput(_ONLY_ON_SERVERS)
    if options.tolerance is not None:
        raise WrongInput(_ONLY_OF_REQUESTS)
    if options.module is None and graphs_file(options.script[0]) is not None:
        raise WrongInput(_NO_SCRIPT.format(options.script[0]))


def _print(result: CheckResult, json_file: Optional[str]) -> None:
    text = str(result)
    if has_colour(sys.stdout):
        text = coloured_verdict(text, result.verdict)
    print(text, flush=True)
    if json_file:
        try:
            _write(json_file, result.to_json() + "\n")
        except WrongInput as error:
            say_wrong(COMMAND, str(error))


def coloured_verdict(text: str, verdict: str) -> str:
    """The text of a result with its verdict in green, red, or yellow if nothing was compared."""
    style = {EQUAL: WELL, ROUNDING: WELL, DIFFERENT: WRONG}.get(verdict, WARNING)
    return _VERDICT.sub(lambda found: painted(found.group(), style), text)


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise WrongInput("cannot write '{}': {}".format(path, error.strerror)) from error
