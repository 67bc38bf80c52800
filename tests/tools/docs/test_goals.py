"""What readers come for: each goal is three clicks away, and each page is read in five minutes.

Pages that are looked up, not read from start to end, may be longer: readers search them, or scan
the rows of their tables.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, Pattern, Set

import pytest

from tools.docs.pages import write_pages

MOST_CLICKS = 3
MOST_WORDS = 1200  # Read in five minutes, at 240 words a minute.
# What a reader wants, the page that has it, and the heading if it is one part of the page.
GOALS = {
    "is my model worth it?": ("when-it-does-not-pay", ""),
    "speed up a script without changing it": ("get-started", ""),
    "which options does my model need?": ("choose-options", ""),
    "what is this option's default and range?": ("options", "Run lookups ahead of the step"),
    "train on parameter servers on this machine": ("command-cluster", ""),
    "train on several ranks of Horovod": ("command-run", "Start ranks of Horovod"),
    "does my script still compute the same?": ("command-check", ""),
    "why was this lookup left alone?": ("passes", "Why was this one left alone?"),
    "how old are the rows that my steps use?": ("measure-staleness", ""),
    "it hangs, differs or is no faster": ("debug", ""),
    "a server was killed, what happened?": (
        "errors",
        "What happens when a task of the cluster is lost",
    ),
    "serve the model": ("command-export", ""),
}
LOOKED_UP = {
    *("options", "refusals", "errors", "troubleshooting"),  # by option, reason or message
    *("decisions", "releases", "changelog"),  # by what they are on
    *("configs", "examples", "dockerfile", "json-schema", "licence"),  # files as they are
}
LINK = re.compile(r"\]\(([\w-]+)\.md[#)]")
ARTICLE = re.compile(r'<article role="main".*?</article>', re.DOTALL)
SHOWN_LINK = re.compile(r'href="([\w-]+)\.html[#"]')
FIGURES = re.compile(r"<!-- \w+\.json.*?<!-- end -->", re.DOTALL)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, str]:
    folder = tmp_path_factory.mktemp("docs") / "pages"
    write_pages(folder)
    return {path.stem: path.read_text("utf-8") for path in Path(folder).glob("*.md")}


def clicks_to(pages: Dict[str, str], link: Pattern[str] = LINK) -> Dict[str, int]:
    """How many links of texts, the sidebar left out, lead from the first page to each."""
    found: Dict[str, int] = {}
    reached: Set[str] = {"index"}
    while reached:
        found.update(dict.fromkeys(reached, max(found.values(), default=-1) + 1))
        reached = {name for page in reached for name in link.findall(pages[page])} - set(found)
    return found


def anchor(heading: str) -> str:
    """The anchor of a heading, as on the page."""
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


def part_of(page: str, heading: str) -> str:
    """The text under a heading, up to the next one of its level; all of it without a heading."""
    if not heading:
        return page
    return re.split(r"^## ", page.split("## {}\n".format(heading))[1], flags=re.MULTILINE)[0]


def test_each_goal_is_three_clicks_away(pages: Dict[str, str]) -> None:
    clicks = clicks_to(pages)
    assert len(GOALS) == 12
    assert {
        goal: clicks[page] for goal, (page, _) in GOALS.items() if clicks[page] > MOST_CLICKS
    } == {}


@pytest.mark.slow
def test_each_goal_is_three_clicks_away_on_the_built_site(site: Path) -> None:
    articles = {path.stem: ARTICLE.findall(path.read_text("utf-8")) for path in site.glob("*.html")}
    shown = {page: "".join(article) for page, article in articles.items()}
    clicks = clicks_to(shown, SHOWN_LINK)
    for goal, (page, heading) in GOALS.items():
        assert clicks[page] <= MOST_CLICKS, goal
        assert not heading or 'href="#{}"'.format(anchor(heading)) in shown[page], goal


def test_each_goal_is_read_in_five_minutes(pages: Dict[str, str]) -> None:
    words = {goal: len(part_of(pages[page], part).split()) for goal, (page, part) in GOALS.items()}
    assert {goal: count for goal, count in words.items() if count > MOST_WORDS} == {}


def test_each_page_is_read_in_five_minutes(pages: Dict[str, str]) -> None:
    assert set(pages) > LOOKED_UP
    words = {
        name: len(FIGURES.sub("", text).split())
        for name, text in pages.items()
        if name not in LOOKED_UP
    }
    assert {name: count for name, count in words.items() if count > MOST_WORDS} == {}


def test_every_page_is_reached_by_links_alone(pages: Dict[str, str]) -> None:
    assert set(pages) - set(clicks_to(pages)) == set()
