"""Arguments that DeepRec's savers, scaffolds and hooks have besides TensorFlow's."""

from __future__ import annotations

import functools
from typing import Any, Callable, List, Optional

from tensorflow.python.training import basic_session_run_hooks, monitored_session
from tensorflow.python.training import saver as saver_module

from graph_opt.compat.legacy_names import Replacement

_HOOK_METHODS = ("begin", "after_create_session", "after_run")


def incremental_arguments(
    make_incremental: Callable[[Any], Any], hook: Callable[..., Any]
) -> List[Replacement]:
    """Lets savers, scaffolds and hooks write incremental checkpoints.

    `Saver(incremental_save_restore=, incremental_include_normal_var=)`,
    `Scaffold(incremental_save_restore=)` and `CheckpointSaverHook(incremental_save_secs=)` are the
    arguments.

    Args:
      make_incremental: Called with a saver that is to be incremental, once it is built.
      hook: `hook(folder, secs, scaffold=, saver=)` makes a hook that writes increments.
    """
    saver, scaffold = saver_module.Saver, monitored_session.Scaffold
    checkpoints = basic_session_run_hooks.CheckpointSaverHook
    return [
        Replacement(saver, "__init__", _saver_init(saver.__init__, make_incremental)),
        Replacement(scaffold, "__init__", _scaffold_init(scaffold.__init__)),
        Replacement(scaffold, "finalize", _scaffold_finalize(scaffold.finalize, make_incremental)),
        Replacement(checkpoints, "__init__", _hook_init(checkpoints.__init__, hook)),
    ]


def when_built(saver: Any, act: Callable[[Any], Any]) -> None:
    """Calls a function with a saver that has its ops: at once, or when it gets them.

    Savers of Estimators get theirs as the graph is finalized (`defer_build`), since hooks may make
    variables before that.

    Args:
      saver: A `tf.train.Saver`.
      act: Called with it.
    """
    if saver.saver_def is not None:
        act(saver)
        return
    build = saver.build

    def build_and_act() -> None:
        saver.build = build
        build()
        act(saver)

    saver.build = build_and_act


def _saver_init(stock: Any, make_incremental: Callable[[Any], Any]) -> Any:
    @functools.wraps(stock)
    def __init__(  # noqa: N807 - it takes the place of one
        self: Any,
        *arguments: Any,
        incremental_save_restore: bool = False,
        incremental_include_normal_var: bool = False,
        **named: Any,
    ) -> None:
        del incremental_include_normal_var  # Increments always have all other variables.
        stock(self, *arguments, **named)
        if incremental_save_restore:
            when_built(self, make_incremental)

    return __init__


def _scaffold_init(stock: Any) -> Any:
    @functools.wraps(stock)
    def __init__(  # noqa: N807 - it takes the place of one
        self: Any, *arguments: Any, incremental_save_restore: bool = False, **named: Any
    ) -> None:
        stock(self, *arguments, **named)
        self._graph_opt_incremental = incremental_save_restore

    return __init__


def _scaffold_finalize(stock: Any, make_incremental: Callable[[Any], Any]) -> Any:
    @functools.wraps(stock)
    def finalize(self: Any) -> Any:
        if getattr(self, "_graph_opt_incremental", False):
            if self._saver is None:
                self._saver = saver_module._get_saver_or_default()
            self._saver.build()
            make_incremental(self._saver)
            self._graph_opt_incremental = False
        return stock(self)

    return finalize


def _hook_init(stock: Any, hook: Callable[..., Any]) -> Any:
    @functools.wraps(stock)
    def __init__(  # noqa: N807 - it takes the place of one
        self: Any,
        checkpoint_dir: str,
        *arguments: Any,
        incremental_save_secs: Optional[float] = None,
        **named: Any,
    ) -> None:
        stock(self, checkpoint_dir, *arguments, **named)
        if incremental_save_secs:
            increments = hook(
                checkpoint_dir, incremental_save_secs, scaffold=self._scaffold, saver=self._saver
            )
            for name in _HOOK_METHODS:
                setattr(self, name, _both(getattr(self, name), getattr(increments, name)))

    return __init__


def _both(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., None]:
    def call(*arguments: Any) -> None:
        first(*arguments)
        second(*arguments)

    return call
