"""The config that `--config` and `--set` define."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

from graph_opt.cli.shared_arguments import DEFAULTS
from graph_opt.compat import tf
from graph_opt.config import merge
from graph_opt.config.options import SWITCHES, session_options
from graph_opt.config.settings import settings_config
from graph_opt.config.text import parse_config


class ConfigOfArguments(NamedTuple):
    """What the arguments say about sessions.

    Attributes:
      given: A `graph_opt.ConfigProto` of only what they set: the file, overridden by the settings.
      defaults: Prefetching, unless settings say what to do; None if `--config` names a file.
      whole: Both, for sessions that the script gives no config.
    """

    given: Any
    defaults: Any
    whole: Any


def checked_config(options: argparse.Namespace) -> ConfigOfArguments:
    """The config that the arguments define, validated.

    Raises:
      tf.errors.InvalidArgumentError: The file or a setting is wrong; an option is missing or out of
        range. The message starts with the place it is in: the file or a setting.
    """
    file = None
    if options.config_text is not None:
        file = parse_config(options.config_text, source=options.config)
    settings = settings_config(options.settings)
    given = merge(file, settings)
    defaults = _defaults(settings) if options.config is None else None
    whole = merge(defaults, given)
    try:
        session_options(whole)
    except tf.errors.InvalidArgumentError as error:
        where = "--set " + " ".join(options.settings) if options.settings else options.config
        if file is not None and _fails(file):
            where = options.config
        message = "{}: {}".format(where, error.message)
        raise tf.errors.InvalidArgumentError(None, None, message) from error
    return ConfigOfArguments(given, defaults, whole)


def _fails(config: Any) -> bool:
    try:
        session_options(config)
    except tf.errors.InvalidArgumentError:
        return True
    return False


def _defaults(settings: Any) -> Any:
    config = settings_config(DEFAULTS)
    given = settings.graph_options.optimizer_options
    if any(getattr(given, switch) for switch in SWITCHES):
        config.graph_options.optimizer_options.do_async_embedding = False  # Unless the script asks.
    return config
