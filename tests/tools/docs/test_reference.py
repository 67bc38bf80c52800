"""The API reference: every public name is on one of its pages, and docstrings read as Markdown."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Dict

import pytest

from tests.documented.test_docstrings import public_names
from tools.docs.api_pages import public_value
from tools.docs.docstrings import to_restructured_text, without_addresses
from tools.docs.pages import NAVIGATION, write_pages
from tools.docs.reference import GROUPS


@pytest.fixture(scope="module")
def public() -> Dict[str, Any]:
    return {name[len("graph_opt.") :]: value for name, value in public_names().items()}


def test_every_public_name_is_on_one_page(public: Dict[str, Any]) -> None:
    listed = [name for group in GROUPS for name in group.names]
    assert sorted(listed) == sorted(public)
    assert all(public_value(name) is value for name, value in public.items())


def test_a_page_has_an_entry_for_each_of_its_names(tmp_path: Path, public: Dict[str, Any]) -> None:
    write_pages(tmp_path / "pages")
    assert NAVIGATION["reference"] == tuple(group.page for group in GROUPS)
    reference = (tmp_path / "pages" / "reference.md").read_text("utf-8")
    for group in GROUPS:
        page = (tmp_path / "pages" / (group.page + ".md")).read_text("utf-8")
        assert "| [{}]({}.md) |".format(group.title, group.page) in reference
        for name in group.names:
            kind = "class" if inspect.isclass(public[name]) else "function"
            assert ".. auto{}:: graph_opt.{}\n".format(kind, name) in page


@pytest.mark.parametrize(
    "line, written",
    [
        ("A `tf.Session`, or `x*y`.", "A ``tf.Session``, or ``x*y``."),
        ("See `graph_opt.Session`.", "See :py:obj:`graph_opt.Session`."),
        ("  `config`s and ``marked``", "  ``config``\\ s and ``marked``"),
        ("  >>> tf.constant('`a`')", "  >>> tf.constant('`a`')"),
    ],
)
def test_code_in_docstrings_is_marked_as_sphinx_reads_it(line: str, written: str) -> None:
    lines = [line]
    to_restructured_text(None, "", "", None, None, lines)
    assert lines == [written]


def test_blocks_in_docstrings_are_shown_as_they_are() -> None:
    lines = ["  Of `a`:", "", "  ```", "  [put]  `b`", "  ```", "  And `c`."]
    to_restructured_text(None, "", "", None, None, lines)
    assert lines == ["  Of ``a``:", "", "  ::", "", "      [put]  `b`", "", "  And ``c``."]


def test_defaults_that_are_bare_objects_are_left_out() -> None:
    signature = "(save: Any = <object object>, of: Any = <a.B object at 0x7f>, steps: int = 3)"
    shown, returns = without_addresses(None, "", "", None, None, signature, "int")
    assert shown == "(save: Any = ..., of: Any = ..., steps: int = 3)" and returns == "int"
    signature = "(watch=<function <lambda>>, told=<function _told at 0x7f>)"
    assert (
        without_addresses(None, "", "", None, None, signature, None)[0] == "(watch=..., told=...)"
    )
    assert without_addresses(None, "", "", None, None, None, None) == (None, None)
