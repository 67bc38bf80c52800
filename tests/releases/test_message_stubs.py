"""The types of the config's messages have the fields of each release of TensorFlow."""

from __future__ import annotations

import ast
from typing import Dict, Set

from graph_opt.config import messages
from tests.documented.page import REPOSITORY

STUBS = REPOSITORY / "graph_opt" / "config" / "messages.pyi"


def names_in(stub: ast.Module) -> Dict[str, Set[str]]:
    """By class, the names of its attributes and methods."""
    classes = [each for each in stub.body if isinstance(each, ast.ClassDef)]
    return {
        each.name: {
            name
            for one in each.body
            for name in (getattr(one, "name", ""), getattr(getattr(one, "target", None), "id", ""))
        }
        for each in classes
    }


def test_the_stubs_have_every_field() -> None:
    declared = names_in(ast.parse(STUBS.read_text("utf-8")))
    file = messages.ConfigProto.DESCRIPTOR.file
    missing = [
        "{}.{}".format(name, field.name)
        for name, message in file.message_types_by_name.items()
        for field in message.fields
        if field.name not in declared[name]
    ]
    assert missing == []
