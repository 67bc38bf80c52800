"""A browser for tests of pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import pytest


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    from tests.report_page import browser  # It skips the test where selenium is missing.

    yield from browser.driver()


@pytest.fixture
def browser(driver: Any, tmp_path: Path) -> Iterator[Any]:
    from tests.report_page.browser import Browser

    window = Browser(driver, tmp_path)
    yield window
    assert window.errors() == []
