"""What is read and checked before TensorFlow is loaded, which takes seconds."""

from __future__ import annotations

import argparse
import errno
import glob
import os
from typing import Optional, Sequence

from graph_opt.cli.exit_codes import WrongInput
from graph_opt.config.option_names import SWITCHED, near_matches, no_such_option, option_names
from graph_opt.conversion import CHECKPOINT

_READ = ("input", "diff", "requests", "sample", "timeline")
_WRITTEN = {"rewrite": ("output",), "inspect": ("picture", "html", "dot")}
_NOT_A_SETTING = "'{}' is not a setting: write key=value"


def check_early(options: argparse.Namespace) -> None:
    """Checks the arguments of a command for files, as far as that needs no TensorFlow.

    Reads the config file, too, as `read_config` does.

    Raises:
      WrongInput: A file is missing, an output cannot get its place, a setting names no option, or
        options contradict each other.
    """
    if options.command == "convert":
        _check_convert(options)
        return
    if options.command != "update":  # It has none.
        read_config(options)
    check = _CONTRADICTIONS.get(options.command)
    if check is not None:
        check(options)
    for name in _READ:
        refuse_missing(getattr(options, name, None))
    if options.command in ("export", "update") and options.output is not None:
        _refuse_existing(options.output)
    for name in _WRITTEN.get(options.command, ()):
        _refuse_without_folder(getattr(options, name))


def _check_convert(options: argparse.Namespace) -> None:
    for path in options.sources:
        refuse_missing(path)
    written = options.target
    if options.target_format == CHECKPOINT:
        written += ".index"
    if os.path.exists(written):
        raise WrongInput("{} exists: remove it, or choose another name".format(options.target))


def _check_inspect(options: argparse.Namespace) -> None:
    if options.timeline is not None and (options.html is None or options.diff is not None):
        raise WrongInput("--timeline is shown in a page: give --html FILE.html, and no --diff")
    if options.diff is not None:
        given = (options.config, options.picture, options.tensorboard, options.dot)
        if options.settings or any(one is not None for one in given):
            raise WrongInput(
                "--diff compares files as they are, and goes with --json and --html only"
            )
        return
    cost = {
        "--ids-per-row": options.ids_per_row,
        "--distinct-share": options.distinct_share,
        "--sample": options.sample,
    }
    for option, value in cost.items():
        if value and options.batch is None:
            raise WrongInput("{} is for the cost of a step: say --batch N, too".format(option))


def _check_plan(options: argparse.Namespace) -> None:
    if options.delay_ms and not options.measure:
        raise WrongInput("--delay-ms is for the rates that --measure measures: say both")
    if options.sample and options.batch is None:
        raise WrongInput("--sample counts the different ids of batches: say --batch N, too")


def _check_served(options: argparse.Namespace) -> None:
    if len(options.script) != 1:
        raise WrongInput("--requests goes with one folder, which graph-opt export wrote")
    refuse_missing(options.script[0])


_CONTRADICTIONS = {"inspect": _check_inspect, "plan": _check_plan, "check": _check_served}


def _refuse_existing(path: str) -> None:
    if os.path.exists(path):
        name = os.path.normpath(path)
        raise WrongInput("{}: exists already; give a folder that does not".format(name))


def _refuse_without_folder(path: Optional[str]) -> None:
    """Refuses the path of a file to write unless there is a folder for it, or if it is one."""
    if path is not None and not os.path.isdir(os.path.dirname(path) or "."):
        raise WrongInput("{}: cannot be written: {}".format(path, os.strerror(errno.ENOENT)))
    if path is not None and os.path.isdir(path):
        raise WrongInput("{}: cannot be written: {}".format(path, os.strerror(errno.EISDIR)))


def read_config(options: argparse.Namespace) -> None:
    """Puts the text of the config file into `options.config_text`; None if no file is given.

    The file is read at the start, since a script may change the working directory. Of settings,
    most values are checked later.

    Raises:
      WrongInput: A setting names no option, or switches one neither on nor off; the file cannot be
        read, or is not text.
    """
    _refuse_unknown(options.settings)
    options.config_text = None
    if options.config is None:
        return
    try:
        with open(options.config, encoding="utf-8") as file:
            options.config_text = file.read()
    except FileNotFoundError as error:
        raise WrongInput("{}: there is no such config file".format(options.config)) from error
    except OSError as error:
        message = "{}: cannot be read: {}".format(options.config, error.strerror)
        raise WrongInput(message) from error
    except UnicodeDecodeError as error:
        message = "{}: not a text proto (byte {} is not UTF-8)".format(options.config, error.start)
        raise WrongInput(message) from error


def _refuse_unknown(settings: Sequence[str]) -> None:
    known = option_names() if settings else {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise WrongInput(_NOT_A_SETTING.format(setting))
        name = key.strip().rsplit(".", 1)[-1]
        if known and name not in known:
            raise WrongInput(no_such_option(key.strip(), near_matches(name, sorted(known))))
        if known and known[name] and value.strip() not in SWITCHED:
            raise WrongInput("{}: need true or false".format(setting))


def refuse_missing(path: Optional[str]) -> None:
    """Refuses a path of a graph, unless a file, a folder or a prefix of files has this name.

    Raises:
      WrongInput: There is none.
    """
    if path is not None and path != "-" and not glob.glob(glob.escape(path) + "*"):
        raise WrongInput("{}: no such file".format(path))
