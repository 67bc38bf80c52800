"""The config that `--config` and `--set` describe."""

from __future__ import annotations

import argparse
from typing import Any

from graph_opt.cli.arguments import DEFAULTS
from graph_opt.compat import tf
from graph_opt.config import merge
from graph_opt.config.options import session_options
from graph_opt.config.settings import settings_config
from graph_opt.config.text import parse_config


def given_config(options: argparse.Namespace) -> Any:
    """What the arguments set, and no more: the file with the settings laid over it.

    Returns:
      A `graph_opt.ConfigProto`.

    Raises:
      tf.errors.InvalidArgumentError: The file or a setting is wrong.
    """
    base = None
    if options.config_text is not None:
        base = parse_config(options.config_text, source=options.config)
    return merge(base, settings_config(options.settings))


def checked_config(options: argparse.Namespace) -> Any:
    """The config that counts where a script gives none, validated.

    Returns:
      A `graph_opt.ConfigProto`.

    Raises:
      tf.errors.InvalidArgumentError: An option is missing or out of range. The message starts with
        what it stands in, the file or a setting.
    """
    whole = merge(default_config(options), given_config(options))
    try:
        session_options(whole)
    except tf.errors.InvalidArgumentError as error:
        where = "--set " + " ".join(options.settings) if options.settings else options.config
        if options.config is not None and _fails(parse_config(options.config_text)):
            where = options.config
        message = "{}: {}".format(where, error.message)
        raise tf.errors.InvalidArgumentError(None, None, message) from error
    return whole


def _fails(config: Any) -> bool:
    try:
        session_options(config)
    except tf.errors.InvalidArgumentError:
        return True
    return False


def default_config(options: argparse.Namespace) -> Any:
    """What counts where nothing is set: prefetching, unless a file says it all.

    Returns:
      A `graph_opt.ConfigProto`, None where `--config` names a file.
    """
    return settings_config(DEFAULTS) if options.config is None else None
