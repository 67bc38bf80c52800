"""The page as a file: nothing that comes from a graph is markup, and nothing else is let in."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import pytest

import graph_opt
from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.report_page import graph_report
from graph_opt.report_page.graph_report import GraphReport
from graph_opt.report_page.page import page_html
from graph_opt.report_page.page_content import PageSource, page_content
from graph_opt.reporting.report import Report
from tests.report_page.page_models import (
    HOSTILE_NAMES,
    SCRIPT_NAME,
    content_of,
    hostile_graph,
    lookups_config,
    node_names,
    trained_model,
)

REPOSITORY = Path(__file__).resolve().parents[2]
WEB = REPOSITORY / "graph_opt" / "report_page" / "web"


class _Elements(HTMLParser):
    """All elements of a page, and the text of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: List[Tuple[str, Dict[str, Optional[str]]]] = []
        self.texts: List[Tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in ("script", "style") and data.strip():
            self.texts.append((self.found[-1][1].get("type") or self.found[-1][0], data))


@pytest.fixture(scope="module")
def hostile_page() -> str:
    return page_html(page_content(PageSource(SCRIPT_NAME, Report(), hostile_graph())))


def test_hostile_names_are_data_and_nothing_else(hostile_page: str) -> None:
    elements = _Elements(hostile_page)
    tags = [tag for tag, _ in elements.found]
    assert tags.count("script") == 3 and "img" not in tags
    assert "<!--" not in hostile_page
    assert not re.search("[\u2028\u2029\u202e\x00\x1b]", hostile_page)
    assert set(node_names(content_of(hostile_page)["graph"])) == set(HOSTILE_NAMES)


def test_the_policy_allows_the_scripts_of_the_page_alone(hostile_page: str) -> None:
    elements = _Elements(hostile_page)
    (policy,) = [
        found["content"] or ""
        for tag, found in elements.found
        if found.get("http-equiv") == "Content-Security-Policy"
    ]
    for kind in ("script", "style"):
        hashes = [
            base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
            for of, text in elements.texts
            if of == kind
        ]
        (allowed,) = re.findall(kind + "-src ([^;]*)", policy)
        assert allowed.split() == ["'sha256-{}'".format(one) for one in hashes]
    assert "default-src 'none'" in policy and "unsafe" not in policy


def test_a_page_needs_no_other_file(hostile_page: str) -> None:
    named = {name for _, found in _Elements(hostile_page).found for name in found}
    assert not named & {"src", "href", "style", "onclick", "onload"}
    assert "sourceMappingURL" not in hostile_page
    assert "://" not in re.sub(r"http://www\.w3\.org/2000/svg", "", hostile_page)


def test_the_layout_library_is_the_one_that_was_published() -> None:
    digest = hashlib.sha256((WEB / "vendor" / "dagre.min.js").read_bytes()).hexdigest()
    assert digest in (REPOSITORY / "docs" / "decisions.md").read_text("utf-8")
    assert "Permission is hereby granted" in (WEB / "vendor" / "dagre.LICENSE.txt").read_text()


def test_a_wheel_has_all_parts_of_the_page() -> None:
    patterns = ("web/*", "web/vendor/*")
    assert str(list(patterns)).replace("'", '"') in (REPOSITORY / "pyproject.toml").read_text()
    matched = {path for pattern in patterns for path in WEB.parent.glob(pattern)}
    assert {path for path in WEB.rglob("*") if path.is_file()} <= matched


def test_inspect_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained_model()
    graph, page = tmp_path / "model.pb", tmp_path / "report.html"
    graph.write_bytes(tf.get_default_graph().as_graph_def().SerializeToString())
    assert main(["inspect", str(graph), "--html", str(page)]) == 0
    content = content_of(page.read_text("utf-8"))
    nodes, regions = (content["overview"][key] for key in ("nodes", "regions"))
    counts = ": {before} nodes, {after} once it is rewritten".format(**nodes)
    counts += ", of which {idle} are kept for their names and run in no step".format(**regions[1])
    assert content["text"] == capsys.readouterr().out.rstrip("\n").replace(counts, "")
    assert [side["label"] for side in content["graph"]["graphs"]] == ["before", "after"]
    assert "float32 [8, 4]" in content["graph"]["outputs"]  # Shapes are inferred.


@pytest.mark.slow
def test_a_page_that_cannot_be_written_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained_model()
    graph = tmp_path / "model.pb"
    graph.write_bytes(tf.get_default_graph().as_graph_def().SerializeToString())
    missing = str(tmp_path / "missing" / "report.html")
    assert main(["inspect", str(graph), "--html", missing]) == 2
    assert missing + ": cannot be written" in capsys.readouterr().err


def test_a_device_that_is_none_is_an_error_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = tmp_path / "model.pb"
    graph.write_bytes(hostile_graph().SerializeToString())
    assert main(["inspect", str(graph)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is not a device" in line


@pytest.mark.slow
@pytest.mark.parametrize("monitored", [False, True])
def test_a_session_reports_its_graph_and_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, monitored: bool
) -> None:
    train_op = trained_model()
    initializer = tf.global_variables_initializer()
    tf.train.get_or_create_global_step()
    opened = graph_opt.train.MonitoredTrainingSession if monitored else graph_opt.Session
    with opened(config=lookups_config()) as session:
        if not monitored:
            session.run(initializer)
        for _ in range(3):
            with graph_opt.step_trace(session).main_step():
                session.run(train_op)
        report = graph_opt.graph_report(session) if monitored else session.graph_report()
    report.save(tmp_path / "report.html")
    content = content_of((tmp_path / "report.html").read_text("utf-8"))
    lanes = {lane["stage"]: len(lane["steps"]) for lane in content["timeline"]["lanes"]}
    assert lanes["main"] == 3 and lanes["async_embedding"] >= 2
    before = content["graph"]["graphs"][0]
    names = node_names(content["graph"])
    assert before["regions"][names.index("async_embedding/TensorBufferPut")] == "."
    shown = report._repr_html_()
    assert 'sandbox="allow-scripts"' in shown
    (frame,) = [found for tag, found in _Elements(shown).found if tag == "iframe"]
    assert frame["srcdoc"] == report.html()
    monkeypatch.setattr(graph_report, "_MOST_SHOWN", 1000)
    assert "<iframe" not in report._repr_html_() and html.escape(str(report))[:40] in (
        report._repr_html_()
    )


def test_a_session_that_asked_for_nothing_has_a_report() -> None:
    trained_model()
    with tf.Session() as session:
        content = content_of(graph_opt.graph_report(session).html())
    assert [side["label"] for side in content["graph"]["graphs"]] == ["graph"]
    assert {row["name"] for row in content["lookups"]} == {"user", "item", "extra"}


def test_a_session_tells_what_its_step_costs() -> None:
    ids = tf.sparse_placeholder(tf.int64, [None, None])
    table = tf.get_variable("users", [1000, 4])
    tf.reduce_sum(tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sum"))
    with graph_opt.Session() as session:
        report = session.graph_report(batch=8, ids_per_row={"us.rs": 5})
    assert ["rows of tables read", "40"] in content_of(report.html())["cost"]["rows"]
    assert "cost: a step ends at Sum; batches of 8 rows" in str(report)


def test_text_of_a_large_graph_is_escaped_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_report, "_MOST_SHOWN", 0)
    source = PageSource(SCRIPT_NAME, Report(left_alone=(SCRIPT_NAME,)), hostile_graph())
    assert "<script" not in GraphReport(source)._repr_html_()
