"""The site in Chromium, without a window: what fits on a screen, and what a search finds first."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, List
from urllib.parse import urlencode

import pytest

pytestmark = pytest.mark.slow
DESKTOP, PHONE = (1300, 900), (390, 844)
TITLES = {
    "options": "Options",
    "exact rows": "Exact rows",
    "staleness": "Staleness",
    "install": "Install",
    "graph-opt check": "graph-opt check",
    "MonitoredTrainingSession": "graph_opt.train.MonitoredTrainingSession",
}
LIMIT_SECONDS = 20
TOO_WIDE = "return document.documentElement.scrollWidth - window.innerWidth"
CUT_TABLES = """return [...document.querySelectorAll('.table-wrapper')]
    .filter(table => table.scrollWidth > table.clientWidth).length"""
RESULTS = "return [...document.querySelectorAll('#search-results li > a')].map(a => a.innerText)"


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    from tests.report_page import browser  # It skips the test where selenium is missing.

    yield from browser.driver()


def show(driver: Any, page: str, width: int, height: int) -> None:
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    driver.get(page)


@pytest.mark.parametrize("screen", [DESKTOP, PHONE])
def test_no_page_is_wider_than_the_screen(driver: Any, site: Path, screen: Any) -> None:
    """On a phone, wide tables scroll by themselves."""
    pages = sorted(site.glob("*.html"))
    assert len(pages) > 100
    too_wide: List[str] = []
    for path in pages:
        show(driver, path.as_uri(), *screen)
        if driver.execute_script(TOO_WIDE) > 0:
            too_wide.append(path.name)
        elif screen == DESKTOP and driver.execute_script(CUT_TABLES) > 0:
            too_wide.append("a table of " + path.name)
    assert too_wide == []


def test_the_first_table_of_the_first_page_begins_within_a_screen(driver: Any, site: Path) -> None:
    show(driver, (site / "index.html").as_uri(), *DESKTOP)
    top = driver.execute_script(
        "return document.querySelector('table').getBoundingClientRect().top"
    )
    assert 0 < top < DESKTOP[1]


@pytest.mark.parametrize("query", list(TITLES))
def test_a_search_finds_the_page_with_that_title_first(driver: Any, site: Path, query: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    page = (site / "search.html").as_uri() + "?" + urlencode({"q": query})
    show(driver, page, *DESKTOP)
    found = WebDriverWait(driver, LIMIT_SECONDS).until(
        lambda driver: driver.execute_script(RESULTS)
    )
    assert found[0] == TITLES[query]
