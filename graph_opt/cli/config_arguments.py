"""The config that `--config` and `--set` define."""

from __future__ import annotations

import argparse
from typing import Any

from graph_opt.cli.arguments import DEFAULTS
from graph_opt.compat import tf
from graph_opt.config import merge
from graph_opt.config.options import SWITCHES, session_options
from graph_opt.config.settings import settings_config
from graph_opt.config.text import parse_config


def given_config(options: argparse.Namespace) -> Any:
    """Only what the arguments set: the file, overridden by the settings.

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
    """The config for sessions that the script gives none, validated.

    Returns:
      A `graph_opt.ConfigProto`.

    Raises:
      tf.errors.InvalidArgumentError: An option is missing or out of range. The message starts with
        the place it is in: the file or a setting.
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
    """The defaults: prefetching, unless there is a config file, or settings say what to do.

    Returns:
      A `graph_opt.ConfigProto`; None if `--config` names a file.
    """
    if options.config is not None:
        return None
    config = settings_config(DEFAULTS)
    given = settings_config(options.settings).graph_options.optimizer_options
    if any(getattr(given, switch) for switch in SWITCHES):
        config.graph_options.optimizer_options.ClearField("do_async_embedding")
    return config
