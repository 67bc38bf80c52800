"""Tables of pages: docs/ has what the package says of refusals, options and flags."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graph_opt.cli.parser import actions_of
from graph_opt.config.schema import FIELDS
from tests.documented.option_rows import rows_of_options
from tools.docs.pages import DOCS
from tools.docs.tables import commands, page_of, with_tables


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: str(path.stem))
def test_a_page_has_the_tables_that_are_written(path: Path) -> None:
    page = path.read_text("utf-8")
    assert with_tables(page) == page, "python -m tools.docs.tables writes it anew"


def test_every_command_has_a_table_of_its_flags() -> None:
    for name, command in commands().items():
        page = (DOCS / (page_of(name) + ".md")).read_text("utf-8")
        tables = re.findall(r"<!-- flags of (.*?)(?: but .*)? -->", page)
        flags = [each for each in actions_of(command) if each.option_strings]
        assert tables == ([name] if any(each.dest != "help" for each in flags) else [])


def test_every_option_has_a_row() -> None:
    rows = [(row.message, row.name) for row in rows_of_options()]
    assert sorted(rows) == sorted((field.message, field.name) for field in FIELDS)


def test_rows_are_those_of_the_package() -> None:
    page = "<!-- {} -->\n| head |\n|---|\n{}\n<!-- end -->\n"
    written = with_tables(page.format("flags of cluster but run check", "| old |"))
    assert "| `--gbit G` |" in written
    assert "--no-chief" not in written and "| old |" not in written
    options = "options of SmartStageOptions"
    written = with_tables(page.format(options, "| `capacity` | bool | 7 | As is |"))
    assert "| `capacity` | int32 | 2 | As is |" in written
    numbers = with_tables(page.format("numbers", "| old |"))
    assert "| `StalenessLimit` | `table` 1, `updates` 2 |" in numbers and "| old |" not in numbers
    with pytest.raises(KeyError):
        with_tables(page.format(options, "| `lost` | bool | 7 | As is |"))
