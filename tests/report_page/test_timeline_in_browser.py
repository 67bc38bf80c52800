"""The timeline of a run in Chromium: what waited where, by numbers that the bars agree with."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.report_page.page_content import PageSource
from graph_opt.reporting.step_records import StepRecord, Wait
from tests.report_page.browser import Browser, by_selector
from tests.report_page.page_models import lookups_config, rewritten_source, trained_model

pytestmark = pytest.mark.slow
TAKE, PUT = "TensorBufferTake", "TensorBufferPut"
DELAY = 0.03
REPOSITORY = Path(__file__).resolve().parents[2]
DELAYED_SERVER = Path(__file__).with_name("delayed_server.py")


def main_step(number: int, start: float, length: float, wait: Optional[float]) -> StepRecord:
    """A step of main that first waits for a batch; not traced if `wait` is None."""
    waits = () if wait is None else (Wait(TAKE, start, start + wait),)
    return StepRecord("main", "Main", number, start, start + length, waits, wait is not None)


def a_run() -> List[StepRecord]:
    """Warm-up, a step of 9 ms every 10 ms, 16 traced ones that wait for 40 %, and plain ones."""
    steps = [main_step(number, 0.5 * number, 0.5, None) for number in range(10)]
    steps += [main_step(10 + number, 5 + 0.01 * number, 0.009, None) for number in range(40)]
    for number in range(16):
        start = 5.4 + 0.02 * number
        steps.append(main_step(50 + number, start, 0.02, 0.008))
        ahead = (Wait(TAKE, start, start + 0.002), Wait(PUT, start + 0.012, start + 0.02))
        stage = StepRecord("async_embedding", "t/0", 53 + number, start, start + 0.02, ahead, True)
        steps.append(stage)
    steps += [main_step(66 + number, 5.72 + 0.01 * number, 0.009, None) for number in range(40)]
    return steps


@pytest.fixture
def model() -> PageSource:
    trained_model()
    return rewritten_source(a_run())


def shares_of(browser: Browser) -> Dict[str, Dict[str, float]]:
    """By stage, the percentages of the table."""
    return {
        row.get_attribute("data-lane").split()[0]: {
            cell.get_attribute("data-share"): float(cell.text.split()[0])
            for cell in by_selector(row, "[data-share]")
            if cell.text
        }
        for row in browser.all(".lanes tbody tr")
    }


def drawn_share(browser: Browser, kind: str, region: str) -> float:
    """Which part of a lane's bars is hatched, in percent, as a reader sees it."""
    widths = (
        "return [...document.querySelectorAll(arguments[0])]"
        ".reduce((sum, one) => sum + one.getBBox().width, 0)"
    )
    steps = ".timeline .step.{}".format(region)
    waits = browser.driver.execute_script(widths, "{} rect.wait.{}".format(steps, kind))
    whole = browser.driver.execute_script(widths, "{} rect:first-child".format(steps))
    return float(100 * waits / whole)


def test_shares_are_those_of_the_bars(browser: Browser, model: PageSource) -> None:
    browser.open(model)
    browser.one("#tab-timeline").click()
    assert browser.texts(".timeline .lane") == ["async_embedding 0", "main"]
    shares = shares_of(browser)
    assert shares["main"] == {"works": 60, "batch": 40, "room": 0, "between": 0}
    assert shares["async_embedding"] == {"works": 50, "batch": 10, "room": 40, "between": 0}
    for kind, region, stage in (("batch", "r-m", "main"), ("room", "r-p", "async_embedding")):
        assert abs(drawn_share(browser, kind, region) - shares[stage][kind]) < 2
    assert not browser.all(".timeline .step.unknown")


def test_steps_without_recorded_waits_are_not_drawn_as_work(
    browser: Browser, model: PageSource
) -> None:
    browser.open(model)
    browser.one("#tab-timeline").click()
    browser.one("[title='Show the whole run']").click()
    unknown = len(browser.all(".timeline .step.unknown"))
    assert unknown >= 90
    assert len(browser.all(".timeline .step.r-m")) == 106
    assert "not recorded" in " ".join(browser.texts(".timeline-panel .legend li"))


def test_warm_up_and_traced_steps_are_not_averaged_in(browser: Browser, model: PageSource) -> None:
    browser.open(model)
    gained = browser.one(".card[aria-label='What was gained']").text
    assert "100 steps/s measured" in gained
    assert "without 10 steps of warm-up and 16 traced" in gained
    browser.one("#tab-timeline").click()
    cells = browser.texts(".lanes tr[data-lane^=main] td.number")
    assert cells[-3:] == ["106", "9.00 ms", "9.00 ms"]


def test_a_single_step_is_shown(browser: Browser, model: PageSource) -> None:
    browser.open(dataclasses.replace(model, steps=(main_step(0, 1.0, 0.0, None),)))
    browser.one("#tab-timeline").click()
    assert len(browser.all(".timeline .step")) == 0
    assert browser.texts(".lanes tbody th") == ["main"]


def test_main_that_waits_for_lookups_is_told_to_give_them_threads(
    browser: Browser, model: PageSource
) -> None:
    browser.open(model)
    assert "Main waits 40 % of the time for lookups" in browser.one(".waits").text


def test_a_slow_input_is_seen_as_waits_for_batches(browser: Browser, tmp_path: Path) -> None:
    """Each batch takes its time to be read: the io stage works, and all others wait for it."""

    def read(ids: Any) -> Any:
        time.sleep(DELAY)  # It stands for a slow disk.
        return ids

    rows = tf.data.Dataset.from_tensor_slices(np.arange(64) % 10).repeat().batch(8)
    rows = rows.map(lambda ids: tf.ensure_shape(tf.numpy_function(read, [ids], tf.int64), [None]))
    ids = tf.data.make_one_shot_iterator(rows).get_next()
    looked_up = tf.nn.embedding_lookup(tf.get_variable("table", [10, 4]), ids)
    train_op = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(looked_up))
    hook = graph_opt.train.StepTraceHook()
    training = graph_opt.train.MonitoredTrainingSession(config=lookups_config(), hooks=[hook])
    with training as session:
        for step in range(60):
            hook.trace.detailed = step >= 20
            session.run(train_op)
        graph_opt.graph_report(session).save(tmp_path / "slow.html")
    browser.open_file(tmp_path / "slow.html")
    browser.one("#tab-timeline").click()
    shares = shares_of(browser)
    assert shares["async_embedding_io"]["works"] > 80
    assert shares["async_embedding"]["batch"] > 60
    assert shares["main"]["batch"] > 60 and shares["main"]["room"] == 0
    assert "The input is the bottleneck" in browser.one("#overview .waits").get_attribute(
        "textContent"
    )


def test_a_delayed_server_is_seen_as_work_of_the_lookups(browser: Browser, tmp_path: Path) -> None:
    """Each lookup takes a round trip to its server; main, which needs none, waits for it."""
    command = [sys.executable, "-m", "graph_opt.cli", "cluster", "--ps", "1", "--workers", "1"]
    milliseconds = str(1000 * DELAY / 2)  # Each way.
    ended = subprocess.run(
        [*command, "--delay-ms", milliseconds, "--", str(DELAYED_SERVER), "served.html"],
        cwd=str(tmp_path),
        env=dict(os.environ, PYTHONPATH=str(REPOSITORY), TF_CPP_MIN_LOG_LEVEL="2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout
    browser.open_file(tmp_path / "served.html")
    browser.one("#tab-timeline").click()
    shares = shares_of(browser)
    assert shares["async_embedding"]["works"] > 70
    assert shares["main"]["batch"] > 50
    (row,) = browser.all(".lanes tr[data-lane^='async_embedding graph_opt']")
    median = float(by_selector(row, "td.number")[-2].text.split()[0])
    assert median >= 1000 * DELAY
    told = browser.one("#overview .waits").get_attribute("textContent")
    assert "of the time for lookups" in told
