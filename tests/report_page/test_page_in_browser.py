"""The page in Chromium, without a window: what a reader does with it, and hostile names."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, List

import pytest

from graph_opt.compat import tf
from graph_opt.config import ConfigProto
from graph_opt.config.options import session_options
from graph_opt.cost.assumptions import Assumptions
from graph_opt.cost.cost_plan import cost_plan
from graph_opt.cost.planned_graph import PlannedGraph
from graph_opt.passes.graph_reports import report_of_lookups
from graph_opt.report_page.graph_report import GraphReport
from graph_opt.report_page.page_content import PageSource, page_content
from graph_opt.reporting.report import Report
from graph_opt.runtime.trace import StepRecord, Wait
from tests.report_page.browser import Browser, Keys, by_selector
from tests.report_page.page_models import (
    HOSTILE_NAMES,
    SCRIPT_NAME,
    called_source,
    hostile_graph,
    hostile_lookups,
    rewritten_source,
    trained_model,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def model() -> PageSource:
    trained_model()
    return rewritten_source(steps_of_a_run())


def steps_of_a_run() -> List[StepRecord]:
    steps = []
    for number in range(40):
        start = 1.0 + number * 0.01
        waits = (Wait("TensorBufferTake", start, start + 0.002),)
        steps.append(StepRecord("main", "MainThread", number, start, start + 0.009, waits, True))
        steps.append(StepRecord("async_embedding", "thread/0", number, start - 0.02, start - 0.013))
    return steps


def test_the_overview_counts_and_links_to_the_graph(browser: Browser, model: PageSource) -> None:
    browser.open(model)
    assert browser.one("#summary").text.startswith("2 of 3 lookups fused into 1 op, 1 in an op")
    browser.one(".table button.link[title='user_table']").click()
    assert browser.one("#tab-graph").get_attribute("aria-selected") == "true"
    assert browser.one(".details h3").text == "user_table"


def test_the_first_screen_tells_what_was_done_gained_left_and_is_to_do(
    browser: Browser, model: PageSource
) -> None:
    browser.open(model)
    done, gained, left, to_do = [" ".join(text.split()) for text in browser.texts(".card")]
    assert done.startswith(
        "What was done 2 of 3 lookups fused into 1 op, 1 in an op of its own 2 of 3 run ahead"
    )
    step = page_content(model)["overview"]["step"]
    assert gained.startswith(
        "What was gained {before} → {after} nodes in a step {ahead} run ahead".format(**step)
    )
    assert step["before"] > step["after"]
    assert "1 lookup in the step" in left and "placeholder_upstream" in left
    assert "Feed the placeholder through staged" in to_do
    bottoms = [card.rect["y"] + card.rect["height"] for card in browser.all(".card")]
    assert max(bottoms) < browser.driver.execute_script("return window.innerHeight")


def test_a_narrow_window_scrolls_down_only(browser: Browser, model: PageSource) -> None:
    screen = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        browser.open(model)
        for tab in ("overview", "graph", "lookups", "timeline"):
            browser.one("#tab-" + tab).click()
            wide = "const one = document.getElementById(arguments[0]); return one.scrollWidth"
            assert browser.driver.execute_script(wide, tab) <= 390
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_plan_of_a_step_is_on_the_first_screen(browser: Browser, model: PageSource) -> None:
    planned = PlannedGraph(model.graph_def, model.rewritten, model.report)
    browser.open(dataclasses.replace(model, cost=cost_plan(planned, Assumptions(8))))
    gained = browser.one(".card[aria-label='What was gained']").text
    assert "ops that run\nby the plan of a step" in gained
    assert "stages" not in gained  # What a rewrite adds is no gain.


def test_scopes_open_and_close_by_mouse_and_keys(browser: Browser, model: PageSource) -> None:
    browser.open(model)
    browser.one("#tab-graph").click()
    closed = browser.drawn()
    (tower,) = [box for box in browser.all("g.item") if "scope tower" in box.accessible_name]
    tower.click()
    browser.press(Keys.ENTER)
    opened = browser.drawn()
    assert len(opened) > len(closed) and any("tower/Square" in name for name in opened)
    assert browser.driver.switch_to.active_element.get_attribute("aria-expanded") == "true"
    browser.press(Keys.ENTER)
    assert sorted(browser.drawn()) == sorted(closed)
    browser.press(Keys.ARROW_LEFT)
    assert browser.one(".details h3").text != "tower/"


def test_search_marks_the_way_from_the_input_to_the_loss(
    browser: Browser, model: PageSource
) -> None:
    browser.open(model)
    browser.one("body").send_keys("/")
    browser.press("op:Square", Keys.ENTER)
    assert browser.one(".details h3").text == "tower/Square"
    assert "from the input to the loss" in browser.one(".way summary").text
    browser.one(".way summary").click()
    way = [text.split(" ")[0] for text in browser.texts(".way li")]
    assert way[-2:] == ["tower/Mean", "tower/loss"] and "async_embedding/TensorBufferTake" in way
    assert browser.all("g.item.path") and browser.all("path.edge.path")
    assert [box.get_attribute("aria-label") for box in browser.all("g.item.selected")] == [
        "Square tower/Square"
    ]


def test_lookups_are_found_first_and_stay_in_sight(browser: Browser, model: PageSource) -> None:
    browser.open(model)
    browser.one("#tab-graph").click()
    assert "lookup 3" in browser.texts(".graph > .legend li")[0]
    assert any(name.endswith("2 lookups") for name in browser.drawn())
    browser.one("#search").send_keys("user")
    assert "lookup" in browser.texts(".found li")[0]
    browser.press(Keys.ENTER)
    assert "lookup" in browser.one("g.item.selected").accessible_name
    browser.one("[data-choice='side by side']").click()
    assert browser.all("g.item.selected") and browser.all("g.item.path")


def test_before_and_after_are_seen_side_by_side(browser: Browser, model: PageSource) -> None:
    browser.open(model)
    browser.one("#tab-graph").click()
    browser.one("[data-choice='side by side']").click()
    assert browser.texts("figcaption") == ["before", "after"]
    legend = " ".join(browser.texts(".graph > .legend li"))
    for change in ("moved", "fused", "added", "copy", "fused op", "idle"):
        assert change in legend
    before, after = browser.all("svg.drawing")
    new = "async_embedding"
    assert not any(new in box.accessible_name for box in by_selector(before, "g.item"))
    assert any(new in box.accessible_name for box in by_selector(after, "g.item"))


def test_lookups_are_filtered_and_sorted(browser: Browser, model: PageSource) -> None:
    browser.open(model)
    browser.one("#tab-lookups").click()
    names = "#lookups tbody td:first-child"
    assert browser.texts(names) == ["user", "item", "extra"]
    browser.one("#lookups th button").click()
    assert browser.texts(names) == ["extra", "item", "user"]
    assert browser.one("#lookups th").get_attribute("aria-sort") == "ascending"
    browser.one("#lookups input[type=search]").send_keys("placeholder_upstream")
    assert browser.texts(names) == ["extra"]
    browser.one("#lookups .reason summary").click()
    assert "Feed the placeholder through staged" in browser.one("#lookups .reason").text


def test_all_parts_are_printed(browser: Browser, model: PageSource) -> None:
    browser.open(model)
    browser.driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert all(part.is_displayed() for part in browser.all("main > section"))
    assert browser.one("svg.drawing").get_dom_attribute("viewBox") and browser.all(
        ".timeline .step"
    )
    browser.driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
    shown = [part.get_attribute("id") for part in browser.all("main > section:not([hidden])")]
    assert shown == ["overview"]


def test_hostile_names_are_shown_as_text(browser: Browser) -> None:
    browser.open(PageSource(SCRIPT_NAME, Report(left_alone=HOSTILE_NAMES), hostile_graph()))
    assert browser.driver.title == SCRIPT_NAME
    assert SCRIPT_NAME in browser.one("h1").text and not browser.all("img")
    assert len(browser.all(".notes li")) == len(HOSTILE_NAMES)
    browser.one("#tab-graph").click()
    browser.one("#search").send_keys("break")
    assert browser.texts(".found-name") == [
        "line\\u{2028}and\\u{2029}and\\u{a}break\\u{0}\\u{1b}[31m"
    ]
    browser.press(Keys.ENTER)
    assert browser.one(".details h3").text.startswith("line\\u{2028}")
    assert browser.driver.title == SCRIPT_NAME


def test_a_notebook_shows_the_page_in_a_frame(
    browser: Browser, model: PageSource, tmp_path: Path
) -> None:
    notebook = tmp_path / "notebook.html"
    shown = GraphReport(model)._repr_html_()
    notebook.write_text("<!DOCTYPE html><meta charset='utf-8'>" + shown, "utf-8")
    browser.driver.get(notebook.as_uri())
    browser.driver.switch_to.frame(browser.one("iframe"))
    browser.one("#tab-graph").click()
    assert any("scope tower" in name for name in browser.drawn())
    browser.driver.switch_to.default_content()


def test_a_call_opens_to_what_its_function_does(browser: Browser) -> None:
    browser.open(called_source())
    assert "4 calls" in browser.one("#overview").text
    browser.one("#tab-lookups").click()
    browser.one("#lookups tbody button.link").click()
    assert browser.one(".details h3").text.endswith("/rows")
    assert any("rows" in name and "lookup" in name for name in browser.drawn())
    way = browser.driver.execute_script("return document.querySelector('.way').textContent")
    assert "A way from the input to the loss" in way
    browser.one("#search").send_keys("doubled op:mul", Keys.ENTER)
    name = browser.one(".details h3").text
    assert name.startswith("tower/StatefulPartitionedCall") and name.endswith("/doubled")


def test_hostile_names_of_tables_devices_attributes_and_functions(browser: Browser) -> None:
    graph_def = hostile_lookups()
    report = report_of_lookups(graph_def, session_options(ConfigProto()))
    browser.open(PageSource(SCRIPT_NAME, report, graph_def))
    browser.one("#tab-lookups").click()
    assert len(browser.all("#lookups tbody tr")) == 2
    for place in range(2):
        browser.one("#tab-lookups").click()
        browser.all("#lookups tbody td:first-child button.link")[place].click()
        assert browser.one(".details h3").text.endswith("/rows")
        browser.all(".details summary")[-1].click()
        assert "Tindices" in browser.one(".details pre").text
    for name in ("__proto__", "constructor", "onerror", "left", "<!--"):
        browser.one("#search").clear()
        browser.one("#search").send_keys(name, Keys.ENTER)
        assert name in browser.one(".details h3").text
    for button in browser.all('[data-choice="device"], [data-choice="region"]'):
        button.click()
    browser.one("#tab-overview").click()
    for heading in browser.all("#overview .sort"):
        heading.click()
    assert browser.driver.title == SCRIPT_NAME and not browser.all("img, script[src]")


def large_graph(columns: int) -> Any:
    """`columns` chains of ten nodes in four levels of scopes, and as many nodes without a scope."""
    graph_def = tf.GraphDef()
    source = graph_def.node.add(name="IteratorGetNext", op="IteratorGetNext").name
    for column in range(columns):
        last = source
        for step in range(9):
            name = "tower_{}/block_{}/column_{}/op_{}".format(column % 3, column % 97, column, step)
            graph_def.node.add(name=name, op="Relu", input=[last])
            last = name
        graph_def.node.add(name="flat_{}".format(column), op="Relu", input=[last])
    return graph_def


def test_a_large_graph_stays_usable(browser: Browser) -> None:
    browser.open(PageSource("large", Report(), large_graph(10_000)))
    browser.one("#tab-graph").click()
    assert 0 < len(browser.drawn()) < 100
    browser.one("#search").send_keys("column_9876/op_4", Keys.ENTER)
    assert browser.one(".details h3").text == "tower_0/block_79/column_9876/op_4"
    assert len(browser.all("*")) < 6000
    size = browser.driver.execute_script("return document.documentElement.outerHTML.length")
    assert size < 12_000_000
