"""The site: navigation has every page, links lead somewhere, and the code says the messages."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import List, Set

import pytest

from tests.repository_checks import nodes_of
from tools.docs.pages import DOCS, FOLDERS, NAVIGATION, REPOSITORY, write_pages

LEAST_LETTERS = 6  # of a piece of a message that says something


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "pages"
    write_pages(folder)
    return folder


def test_every_page_is_in_the_navigation_once(pages: Path) -> None:
    listed = ["index", *(name for names in NAVIGATION.values() for name in names)]
    assert sorted(listed) == sorted(path.stem for path in pages.glob("*.md"))
    assert set(NAVIGATION) <= set(listed)


@pytest.mark.parametrize("door", NAVIGATION["index"])
def test_a_door_says_what_each_page_behind_it_answers(door: str, pages: Path) -> None:
    page = (pages / (door + ".md")).read_text("utf-8")
    linked = re.findall(r"^\| \[[^]]+\]\(([\w-]+)\.md\) \| \S.* \|$", page, flags=re.MULTILINE)
    assert linked == list(NAVIGATION[door])


def test_every_link_leads_to_a_page_or_file(pages: Path) -> None:
    links = {
        (path.name, link)
        for path in pages.glob("*.md")
        if path.stem not in FOLDERS
        for link in re.findall(r"\]\(([\w./-]+)[#)]", path.read_text("utf-8"))
    }
    assert len(links) > 80
    assert [link for link in links if not (pages / link[1]).exists()] == []


def test_every_anchor_is_that_of_a_heading(pages: Path) -> None:
    anchors = {path.name: _anchors(path.read_text("utf-8")) for path in pages.glob("*.md")}
    linked = {
        (path.name, to or path.name, anchor)
        for path in pages.glob("*.md")
        if path.stem not in FOLDERS
        for to, anchor in re.findall(r"\]\(([\w-]+\.md)?#([\w-]+)\)", path.read_text("utf-8"))
    }
    assert len(linked) > 150
    assert [link for link in linked if link[2] not in anchors[link[1]]] == []


def _anchors(page: str) -> Set[str]:
    text = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{1,4} (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_examples_and_configs_are_shown_as_they_are(pages: Path) -> None:
    for name in ("examples/dlrm.py", "configs/async_embedding.pbtxt"):
        page = (pages / name.split("/")[0]).with_suffix(".md").read_text("utf-8")
        assert (REPOSITORY / name).read_text("utf-8").strip() in page


def texts_in(source: str) -> Set[str]:
    constants = (node.value for node in nodes_of(source, ast.Constant))
    return {text for text in constants if isinstance(text, str)}


def is_said(message: str, texts: Set[str]) -> bool:
    """Whether one text of the code has all pieces of a message in their order."""
    pieces = [piece for piece in message.split("…") if len(piece.strip()) >= LEAST_LETTERS]
    pattern = re.compile(".*".join(re.escape(piece) for piece in pieces), re.DOTALL)
    return bool(pieces) and any(pattern.search(text) for text in texts)


def test_messages_on_the_page_of_troubleshooting_are_said() -> None:
    texts: Set[str] = set()
    for path in (REPOSITORY / "graph_opt").rglob("*.py"):
        texts |= {text.replace("{{", "{").replace("}}", "}") for text in texts_in(path.read_text())}
    page = (DOCS / "troubleshooting.md").read_text("utf-8")
    messages: List[str] = re.findall(r"^\| `(.*?)` \|", page, flags=re.MULTILINE)
    assert len(messages) > 30
    assert [message for message in messages if not is_said(message, texts)] == []
    assert not is_said("a message that … nobody says", texts)


@pytest.mark.slow
def test_the_site_is_built(site: Path) -> None:
    assert "graph_opt" in (site / "index.html").read_text("utf-8")
    sessions = (site / "api-sessions.html").read_text("utf-8")
    for part in (
        'id="graph_opt.Session"',
        'href="_modules/graph_opt/session/session.html#Session"',
    ):
        assert part in sessions
    assert "MonitoredTrainingSession" in (site / "searchindex.js").read_text("utf-8")
