"""A check for texts that were meant to be formatted, and are raised or printed as they are."""

from __future__ import annotations

import ast
import re
from typing import Dict, Iterator, List

from tests.repository_checks import nodes_of

_FIELD = re.compile(r"{\w*(![rsa])?(:[^{}]*)?}")
_TELLS = re.compile(r"(Error|Exception|Warning|Refusal|say|print|warn|warning|error|info|fail)$")


def unformatted_texts(source: str, module: str = "") -> List[str]:
    """Texts with fields that no `format` fills in.

    Only literals and constants of the file that are an argument themselves are looked at, of what
    is raised, printed or logged.
    """
    constants = {
        target.id: node.value
        for node in nodes_of(source, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        "{}: {!r} is never formatted".format(argument.lineno, text)
        for call in nodes_of(source, ast.Call)
        if _TELLS.search(_called_name(call))
        for argument in [*call.args, *[keyword.value for keyword in call.keywords]]
        for text in _texts(argument, constants)
        if _FIELD.search(text)
    ]


def _called_name(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _texts(argument: ast.expr, constants: Dict[str, ast.expr]) -> Iterator[str]:
    if isinstance(argument, ast.Name) and argument.id in constants:
        argument = constants[argument.id]
    if isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Add):
        yield from _texts(argument.left, {})
        yield from _texts(argument.right, {})
    text = getattr(argument, "value", None)
    if isinstance(text, str):
        yield text
