"""Reads the lines of a script that failed as Python 2 would mean them."""

from __future__ import annotations

import ast
from typing import Any, Callable, Iterator, List, Optional, Set


def tree_of(path: str) -> Optional[ast.AST]:
    """The source of a file; None if it cannot be read as Python 3."""
    try:
        with open(path, "rb") as file:
            return ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def lines_with(tree: Optional[ast.AST], wanted: Callable[[ast.AST], bool]) -> List[int]:
    """Lines of the expressions that are wanted."""
    nodes = ast.walk(tree) if tree is not None else ()
    return [node.lineno for node in nodes if isinstance(node, ast.expr) and wanted(node)]


def nodes_at(tree: ast.AST, line: int) -> Iterator[ast.AST]:
    """What the statement at a line evaluates; of those with a body, without it."""
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.stmt) or hasattr(statement, "decorator_list"):
            continue
        body = getattr(statement, "body", None)
        last = body[0].lineno - 1 if body else getattr(statement, "end_lineno", statement.lineno)
        if not statement.lineno <= line <= max(last or 0, statement.lineno):
            continue
        yield statement
        for part in ast.iter_child_nodes(statement):
            if not isinstance(part, (ast.stmt, ast.excepthandler)):
                yield from ast.walk(part)


def assigned_quotients(tree: ast.AST, names: Set[str]) -> List[int]:
    """Lines at which one of these names becomes a quotient."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets, values = node.targets, list(ast.walk(node.value))
        elif isinstance(node, ast.AugAssign):
            targets, values = [node.target], [node]
        else:
            continue
        given = {name_of(part) for target in targets for part in ast.walk(target)}
        if given & names and any(map(divides, values)):
            lines.append(node.lineno)
    return lines


def divides_as_python_3(tree: ast.AST) -> bool:
    """Whether a source asks for Python 3's division by itself."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return any(
        one.module == "__future__" and any(name.name == "division" for name in one.names)
        for one in imports
    )


def divides(node: ast.AST) -> bool:
    """Whether it is a quotient that may be one of integers."""
    if not isinstance(getattr(node, "op", None), ast.Div):
        return False
    operands = [getattr(node, name, None) for name in ("left", "right", "value")]
    return not any(_is_float(one) or calls(one, "float") for one in operands)


def _is_float(node: Any) -> bool:
    try:
        return isinstance(ast.literal_eval(node), float)
    except (ValueError, TypeError):  # It is no number, or nothing.
        return False


def name_of(node: Any) -> Optional[str]:
    """The name of a variable or attribute; None for others."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def calls(node: Any, name: str) -> bool:
    """Whether it is a call of a function or method of that name."""
    if not isinstance(node, ast.Call):
        return False
    return name_of(node.func) == name
