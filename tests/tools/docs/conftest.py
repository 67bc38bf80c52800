"""The site, which several tests look at."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Callable

import pytest


@pytest.fixture(scope="session")
def site(made_once: Callable[..., Path]) -> Path:
    """The folder of the site, which is built once for all processes; skips without Sphinx."""
    if importlib.util.find_spec("sphinx") is None:
        pytest.skip("Sphinx is not installed: make docs does so")
    from tools.docs.__main__ import build

    made = made_once("site", lambda folder: build(folder / "pages", folder / "site"))
    return made / "site"
