"""The effective config of a session: the script's, overridden by the installed one."""

from __future__ import annotations

from typing import Optional

from graph_opt.config import extend, merge
from graph_opt.config.messages import ConfigProto, SessionConfig
from graph_opt.config.options import SessionOptions, session_options
from graph_opt.reporting.warnings_given import warn_once


class InstalledConfig:
    """What `graph_opt.install` was given.

    Attributes:
      config: Overrides every session's own config; None overrides nothing.
      infer_io_stage: Replaces the option of that name; None leaves it unchanged.
      defaults: Used where no session's config sets a field; None adds nothing.
    """

    def __init__(
        self,
        config: Optional[SessionConfig] = None,
        infer_io_stage: Optional[bool] = None,
        defaults: Optional[SessionConfig] = None,
    ) -> None:
        self.config = None if config is None else extend(config)
        self.infer_io_stage = infer_io_stage
        self.defaults = None if defaults is None else extend(defaults)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, InstalledConfig)
            and self.config == other.config
            and self.infer_io_stage == other.infer_io_stage
            and self.defaults == other.defaults
        )

    def __hash__(self) -> int:
        return hash(self.infer_io_stage)

    def over(self, config: Optional[SessionConfig]) -> ConfigProto:
        """A new extended config: the defaults, overridden by `config`, overridden by our own."""
        merged = merge(merge(self.defaults, config), self.config)
        if self.infer_io_stage is not None:
            optimizer = merged.graph_options.optimizer_options
            if optimizer.do_async_embedding:
                optimizer.async_embedding_options.infer_io_stage = self.infer_io_stage
        return merged


NOTHING_INSTALLED = InstalledConfig()
_current = NOTHING_INSTALLED


def set_installed(installed: InstalledConfig) -> None:
    """Makes this apply to all sessions opened from now on."""
    global _current
    _current = installed


def effective_config(config: Optional[SessionConfig]) -> Optional[ConfigProto]:
    """The extended config of a session that was given `config`; None if nobody gave one."""
    if config is None and _current == NOTHING_INSTALLED:
        return None
    return _current.over(config)


def checked_options(config: Optional[SessionConfig], target: str) -> SessionOptions:
    """Returns the config's options, after logging each of their warnings once.

    Raises:
      tf.errors.InvalidArgumentError: An option is missing or out of range.
    """
    options = session_options(config, target)
    for warning in options.warnings:
        warn_once(warning, in_reports=False)  # The graph's report contains it anyway.
    return options
