"""The drawing of a graph in Chromium: in the order of data, with the loss, and searched by side."""

from __future__ import annotations

from typing import Any, List

import pytest

from graph_opt.compat import tf
from graph_opt.report_page.page_content import PageSource
from graph_opt.reporting.report import Report
from tests.report_page.browser import Browser, by_selector
from tests.report_page.page_models import rewritten_source, trained_model

pytestmark = pytest.mark.slow


@pytest.fixture
def browser_with_graph(browser: Browser) -> Browser:
    trained_model()
    source: PageSource = rewritten_source()
    browser.open(source)
    browser.one("#tab-graph").click()
    return browser


def left_of(browser: Browser, name: str) -> float:
    """Where a box begins that is drawn in the outermost scope."""
    (box,) = [
        box for box in browser.all("g.item") if box.accessible_name.split(",")[0].endswith(name)
    ]
    return float(box.rect["x"])


def chosen(browser: Browser) -> List[str]:
    return browser.texts(".choice[aria-label=Show] [aria-pressed=true]")


def selected(drawing: Any) -> List[str]:
    return [box.accessible_name for box in by_selector(drawing, "g.item.selected")]


def test_parts_are_drawn_in_the_order_of_data(browser_with_graph: Browser) -> None:
    parts = ("async_embedding_io", "scope async_embedding", "scope tower", "scope gradients")
    places = [left_of(browser_with_graph, part) for part in parts]
    assert places == sorted(places) and len(set(places)) == len(parts)
    browser_with_graph.one("[data-choice=before]").click()
    before = ("IteratorGetNext", "scope tower", "scope gradients")
    places = [left_of(browser_with_graph, part) for part in before]
    assert places == sorted(places) and len(set(places)) == len(before)


def test_the_copy_of_the_input_is_drawn_in_the_io_stage(browser_with_graph: Browser) -> None:
    browser = browser_with_graph
    browser.one("#search").send_keys("async_embedding/IteratorGetNext\n")
    assert browser.one(".details h3").text == "async_embedding/IteratorGetNext"
    (stage,) = [box for box in browser.all("g.item.open") if "_io" in box.accessible_name]
    (copy,) = browser.all("g.item.selected")
    assert stage.rect["x"] < copy.rect["x"] < stage.rect["x"] + stage.rect["width"]


def test_the_loss_is_marked_and_a_click_away(browser_with_graph: Browser) -> None:
    browser = browser_with_graph
    assert any(
        name.startswith("scope tower") and name.endswith(", loss") for name in browser.drawn()
    )
    (link,) = [one for one in browser.all(".graph > .legend button") if one.text == "loss"]
    link.click()
    assert browser.one(".details h3").text == "tower/loss"
    assert browser.one("g.item.selected").text.startswith("◎")


@pytest.mark.parametrize("side", ("before", "after"))
def test_a_search_stays_on_the_side_that_was_searched(
    browser_with_graph: Browser, side: str
) -> None:
    browser = browser_with_graph
    browser.one("[data-choice={}]".format(side)).click()
    browser.one("#search").send_keys("item/Identity\n")
    assert chosen(browser) == [side]
    (name,) = selected(browser.driver)
    doer = "item/Identity" if side == "before" else "group_embedding/lookup_0/pooled"
    assert doer in name


def test_a_search_stays_on_its_side_beside_the_other(browser_with_graph: Browser) -> None:
    browser = browser_with_graph
    browser.one("[data-choice='side by side']").click()
    before, after = browser.all("svg.drawing")
    by_selector(before, "g.item")[0].click()
    browser.one("#search").send_keys("op:Mean\n")
    assert chosen(browser) == ["side by side"]
    assert [name.split()[0] for name in selected(before)] == ["Mean"]
    assert [name.split()[0] for name in selected(after)] == ["Mean"]
    assert browser.driver.execute_script(
        "return arguments[0].contains(document.activeElement)", before
    )


def test_what_is_opened_in_one_graph_is_open_where_the_other_is_shown_again(
    browser_with_graph: Browser,
) -> None:
    browser = browser_with_graph
    browser.one("[data-choice=before]").click()
    assert not any("tower/Square" in name for name in browser.drawn())
    browser.one("[data-choice=after]").click()
    browser.one("#search").send_keys("tower/Square\n")
    browser.one("[data-choice=before]").click()
    assert any("tower/Square" in name for name in browser.drawn())


def test_siblings_are_grouped_in_the_order_of_their_numbers(browser: Browser) -> None:
    graph_def = tf.GraphDef()
    for number in range(60):
        graph_def.node.add(name="op_{}".format(number), op="Placeholder")
    browser.open(PageSource("alike", Report(), graph_def))
    browser.one("#tab-graph").click()
    assert browser.drawn() == [
        "group op_0 … op_29, 30 nodes",
        "group op_30 … op_59, 30 nodes",
    ]
