"""A window of Chromium, without a screen, that shows pages of graphs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Iterator, List

import pytest

from graph_opt.report_page.graph_report import GraphReport
from graph_opt.report_page.page_content import PageSource

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys as Keys  # noqa: E402

LIMIT_SECONDS = 60


class Browser:
    """One window; a page that reports an error to the console fails the test."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver = driver
        self._folder = folder

    def open(self, source: PageSource) -> None:
        path = self._folder / "report.html"
        GraphReport(source).save(path)
        self.open_file(path)

    def open_file(self, path: Path) -> None:
        self.driver.get(path.as_uri())
        assert self.errors() == []

    def errors(self) -> List[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def one(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> List[Any]:
        return by_selector(self.driver, selector)

    def texts(self, selector: str) -> List[str]:
        return [element.text for element in self.all(selector)]

    def press(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def drawn(self) -> List[str]:
        """What the drawn boxes say to a screen reader."""
        return [box.get_attribute("aria-label") for box in self.all("g.item")]


def by_selector(element: Any, selector: str) -> List[Any]:
    """What is inside an element, or a window."""
    found: List[Any] = element.find_elements(By.CSS_SELECTOR, selector)
    return found


def driver() -> Iterator[Any]:
    """A running browser; skips the test if there is none."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    service = shutil.which("chromedriver")
    if chromium is None or service is None:
        pytest.skip("no Chromium with its driver (Debian: apt install chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.add_argument("--window-size=1400,900")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(service))
    driver.set_page_load_timeout(LIMIT_SECONDS)
    yield driver
    driver.quit()
