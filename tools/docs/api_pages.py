"""The pages of the API reference: public names, whose docstrings Sphinx puts there."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any, List

from google.protobuf.message import Message

from tools.docs.reference import GROUPS, Group


def write_api_pages(folder: Path) -> None:
    """Writes a page for each group, and links to them where `reference.md` names them.

    Args:
      folder: Of the site's pages.
    """
    reference = folder / "reference.md"
    text = reference.read_text("utf-8")
    for group in GROUPS:
        text = text.replace("| {} |".format(group.title), "| {} |".format(_link(group)))
        (folder / (group.page + ".md")).write_text(_page(group), "utf-8")
    reference.write_text(text, "utf-8")


def public_value(name: str) -> Any:
    """What a public name stands for.

    Args:
      name: Dotted, without `graph_opt.`.
    """
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(".".join(["graph_opt", *module.split()])), last)


def _link(group: Group) -> str:
    return "[{}]({}.md)".format(group.title, group.page)


def _page(group: Group) -> str:
    question = "**{}** [](./{}.md) explains it.".format(group.question, group.guide)
    lines = ["# " + group.title, "", question, "", "```{eval-rst}"]
    lines += [".. autosummary::", "", *("   graph_opt." + name for name in group.names), ""]
    for name in group.names:
        lines += _entry(name)
    return "\n".join([*lines, "```", ""])


def _entry(name: str) -> List[str]:
    """The directive for one name; of a class, also what it adds to the classes that it extends."""
    value = public_value(name)
    if not inspect.isclass(value):
        return [".. autofunction:: graph_opt." + name, ""]
    members = [] if issubclass(value, Message) else ["   :members:"]  # Options have a page.
    return [".. autoclass:: graph_opt." + name, *members, ""]
