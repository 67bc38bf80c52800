"""A pytest plugin that notes each random model before and after it runs, and what reads the notes.

A process that crashes or is killed has noted all that it did until then.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import signal
import time
from pathlib import Path
from typing import Any, Callable, List, NamedTuple, Optional

import pytest

PATH_VARIABLE = "FUZZ_NOTES"


class Notes(NamedTuple):
    """What a process has done.

    Attributes:
      models: How many models it ran, up to the first that failed: those after it are smaller ones.
      seconds: CPU time that these took.
      example: The decorator that repeats the smallest model that failed, or else the one that is
        running; empty if none is.
      error: What failed in it; empty if nothing did.
    """

    models: int
    seconds: float
    example: str
    error: str


def read_notes(path: Path) -> Notes:
    """The notes in a file, of which the last may be incomplete."""
    text = path.read_text("utf-8") if path.exists() else ""
    models, seconds, running = 0, 0.0, ""
    failed: Optional[Notes] = None
    for line in text[: text.rfind("\n") + 1].splitlines():
        note = json.loads(line)
        if "begins" in note:
            running = note["begins"]
            continue
        if failed is None:
            models, seconds = models + 1, seconds + note["seconds"]
        if note["error"]:
            failed = Notes(0, 0.0, running, note["error"])
        running = ""
    if failed is not None:
        return failed._replace(models=models, seconds=seconds)
    return Notes(models, seconds, running, "")


def python_stacks_path(notes: Path) -> Path:
    """Where a process that writes these notes writes its Python stacks when it gets SIGUSR1."""
    return notes.with_suffix(".stacks")


def pytest_configure() -> None:
    """Has SIGUSR1 write the stacks of all threads, whatever these are doing."""
    file = python_stacks_path(Path(os.environ[PATH_VARIABLE])).open("w", encoding="utf-8")
    faulthandler.register(signal.SIGUSR1, file, all_threads=True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Has a property note its models."""
    handle = getattr(getattr(item, "obj", None), "hypothesis", None)
    if handle is not None:
        given: List[str] = list(getattr(item, "funcargs", {}))
        handle.inner_test = _noted(handle.inner_test, given, Path(os.environ[PATH_VARIABLE]))


def _noted(run: Callable[..., Any], fixtures: List[str], path: Path) -> Callable[..., Any]:
    @functools.wraps(run)
    def noted(*values: Any, **named: Any) -> Any:
        drawn = [repr(value) for value in values]
        drawn += ["{}={!r}".format(name, named[name]) for name in named if name not in fixtures]
        _note(path, {"begins": "@example({})".format(", ".join(drawn))})
        start, error = time.process_time(), ""
        try:
            return run(*values, **named)
        except BaseException as raised:
            error = "{}: {}".format(type(raised).__name__, raised)
            raise
        finally:
            _note(path, {"seconds": time.process_time() - start, "error": error})

    return noted


def _note(path: Path, note: Any) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(note) + "\n")
