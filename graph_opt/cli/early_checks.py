"""What is read and checked before TensorFlow is loaded, which takes seconds."""

from __future__ import annotations

import argparse
import glob
from typing import Optional, Sequence

from graph_opt.cli.exit_codes import WrongInput
from graph_opt.config.option_names import near_matches, no_such_option, option_names


def read_config(options: argparse.Namespace) -> None:
    """Puts the text of the config file into `options.config_text`; None if no file is given.

    The file is read at the start, since a script may change the working directory. Of settings,
    values are checked later.

    Raises:
      WrongInput: A setting names no option; the file cannot be read, or is not text.
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
    known = option_names() if settings else frozenset()
    for setting in settings:
        key = setting.partition("=")[0].strip()
        name = key.rsplit(".", 1)[-1]
        if known and "=" in setting and name not in known:
            raise WrongInput(no_such_option(key, near_matches(name, sorted(known))))


def refuse_missing(path: Optional[str]) -> None:
    """Refuses a path of a graph, unless a file, a folder or a prefix of files has this name.

    Raises:
      WrongInput: There is none.
    """
    if path is not None and path != "-" and not glob.glob(glob.escape(path) + "*"):
        raise WrongInput("{}: no such file".format(path))
