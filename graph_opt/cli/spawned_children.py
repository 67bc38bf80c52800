"""Processes that a script spawns with `multiprocessing`, which import the script again.

A forked child has everything that its parent has. A spawned one starts a new interpreter, which
would run the script's imports with the stock TensorFlow; so the arguments of `graph-opt run` are
passed on with the data that prepares the child.
"""

from __future__ import annotations

import argparse
import contextlib
from multiprocessing import spawn
from typing import Any, Callable, Dict, Iterator, Tuple


def pass_on(options: argparse.Namespace) -> None:
    """Makes children that are spawned from now on see what this process sees.

    Args:
      options: Arguments of `graph-opt run`; read when a child is spawned.
    """
    prepared = spawn.get_preparation_data

    def prepared_with_options(name: str) -> Dict[str, Any]:
        data = dict(prepared(name))
        data["graph_opt"] = _Inheritance(options)
        return data

    spawn.get_preparation_data = prepared_with_options


@contextlib.contextmanager
def restored_afterwards() -> Iterator[None]:
    """Restores at its end what spawned children are prepared with."""
    prepared = spawn.get_preparation_data
    try:
        yield
    finally:
        spawn.get_preparation_data = prepared


class _Inheritance:
    """Continues `graph-opt run` in the process that unpickles it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options

    def __reduce__(self) -> Tuple[Callable[..., None], Tuple[Dict[str, Any]]]:
        return continue_in_child, (dict(vars(self._options)),)


def continue_in_child(options: Dict[str, Any]) -> None:
    """Does in a spawned process what `graph-opt run` did in its parent before the script."""
    from graph_opt.cli.watched_program import WatchedProgram

    inherited = argparse.Namespace(**options)
    pass_on(inherited)
    WatchedProgram(inherited, is_child=True).watch()
