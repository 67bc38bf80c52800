"""The config that `--config` and `--set` describe."""

from __future__ import annotations

import argparse
from typing import Any

from graph_opt.cli.arguments import DEFAULTS
from graph_opt.config import merge
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


def default_config(options: argparse.Namespace) -> Any:
    """What counts where nothing is set: prefetching, unless a file says it all.

    Returns:
      A `graph_opt.ConfigProto`, None where `--config` names a file.
    """
    return settings_config(DEFAULTS) if options.config is None else None
