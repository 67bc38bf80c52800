"""The names of TensorFlow that a Python source uses, found without running it."""

from __future__ import annotations

import ast
import re
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

Names = Tuple[str, ...]

_TENSORFLOW = "tensorflow"
_CAUGHT = frozenset(
    "AttributeError BaseException Exception ImportError ModuleNotFoundError".split()
)
_ASKS_FOR_VERSION = re.compile(r"version|eager|hasattr|tf_?[12](?![a-z])|^v[12]$", re.I)


class Use(NamedTuple):
    """One place where a name of TensorFlow is used.

    Attributes:
      line: Line of the source.
      names: What follows `tf.`; `("nn", "dropout")`.
      keywords: Names of the keyword arguments, if it is called.
      guarded: Whether the source checks there which TensorFlow it has, or catches the error if
        the name is missing.
    """

    line: int
    names: Names
    keywords: Names = ()
    guarded: bool = False


class Import(NamedTuple):
    """One import of something other than TensorFlow.

    Attributes:
      level: Number of leading dots.
      module: Dotted name; "" for `from . import x`.
      names: Imported names and what they are called here; none for `import x`.
    """

    level: int
    module: str
    names: Tuple[Tuple[str, str], ...] = ()


class Uses(NamedTuple):
    """What a source reveals about its TensorFlow.

    Attributes:
      uses: All uses, in order of their lines.
      methods: Line and name of each method that is called on anything else.
      imports: Everything else that it imports.
      aliases: Names of TensorFlow that other modules may import from this one.
    """

    uses: Tuple[Use, ...]
    methods: Tuple[Tuple[int, str], ...]
    imports: Tuple[Import, ...]
    aliases: Dict[str, Names]


def uses_in(tree: ast.AST, aliases_of: Callable[[Import], Dict[str, Names]]) -> Uses:
    """Finds all uses of TensorFlow in a parsed module.

    Args:
      tree: The module.
      aliases_of: Names of TensorFlow that another module re-exports, its `Uses.aliases`; called for
        each `from module import ...`.
    """
    imports = list(_other_imports(tree))
    bound = _bound(tree, _reexported(imports, aliases_of))
    aliases = _aliases(tree, bound)
    visitor = _Visitor(aliases, bound)
    visitor.visit(tree)
    uses = sorted(visitor.uses + list(_imported(tree)), key=lambda use: use.line)
    return Uses(tuple(uses), tuple(visitor.methods), tuple(imports), aliases)


def _other_imports(tree: ast.AST) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] != _TENSORFLOW:
                    yield Import(0, alias.name)
        elif isinstance(node, ast.ImportFrom):
            names = tuple((alias.name, alias.asname or alias.name) for alias in node.names)
            module = node.module or ""
            if node.level or module.partition(".")[0] != _TENSORFLOW:
                yield Import(node.level, module, names)


def _reexported(
    imports: List[Import], aliases_of: Callable[[Import], Dict[str, Names]]
) -> Dict[str, Names]:
    found = {}
    for one in imports:
        if not one.names:
            continue
        theirs = aliases_of(one)
        for name, here in one.names:
            if name == "*":
                found.update(theirs)
            elif name in theirs:
                found[here] = theirs[name]
    return found


def _bound(tree: ast.AST, reexported: Dict[str, Names]) -> Dict[str, Names]:
    """Names that imports bind to TensorFlow or a part of it.

    A name that is bound to different parts in different places is ambiguous and left out.
    """
    bound: Dict[str, Set[Names]] = {name: {names} for name, names in reexported.items()}
    for name, names in _imported_names(tree):
        bound.setdefault(name, set()).add(names)
    return {name: next(iter(all_)) for name, all_ in bound.items() if len(all_) == 1}


def _aliases(tree: ast.AST, bound: Dict[str, Names]) -> Dict[str, Names]:
    """Names that mean the same part of TensorFlow wherever the module uses them."""
    aliases = dict(bound)
    stored: Dict[str, List[Optional[Names]]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            if isinstance(node.targets[0], ast.Name):
                names = chain_of(node.value, aliases)
                stored.setdefault(node.targets[0].id, []).append(names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored.setdefault(node.id, [])
    for name, values in stored.items():
        if name in bound:
            aliases.pop(name, None)
        elif len(values) == 1 and values[0] is not None:
            aliases[name] = values[0]
    return aliases


def _imported_names(tree: ast.AST) -> Iterator[Tuple[str, Names]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = alias.name.split(".")
                if path[0] == _TENSORFLOW:
                    yield alias.asname or path[0], tuple(path[1:]) if alias.asname else ()
        elif isinstance(node, ast.ImportFrom) and _is_of_tensorflow(node):
            inner = _inner(node)
            for alias in node.names:
                yield alias.asname or alias.name, (*inner, alias.name)


def _imported(tree: ast.AST) -> Iterator[Use]:
    """Imports that name a part of TensorFlow."""
    guarded = {id(node) for outer in ast.walk(tree) for node in _guarded_within(outer)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = alias.name.split(".")
                if path[0] == _TENSORFLOW and path[1:]:
                    yield Use(node.lineno, tuple(path[1:]), guarded=id(node) in guarded)
        elif isinstance(node, ast.ImportFrom) and _is_of_tensorflow(node):
            for alias in node.names:
                names = _inner(node) + (() if alias.name == "*" else (alias.name,))
                if names:
                    yield Use(node.lineno, names, guarded=id(node) in guarded)


def _is_of_tensorflow(node: ast.ImportFrom) -> bool:
    return not node.level and (node.module or "").partition(".")[0] == _TENSORFLOW


def _inner(node: ast.ImportFrom) -> Names:
    return tuple((node.module or "").split(".")[1:])


def chain_of(node: ast.AST, aliases: Dict[str, Names]) -> Optional[Names]:
    """The names after `tf.` if the expression is `tf.x.y`; otherwise None."""
    names: List[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in aliases:
        return None
    return aliases[node.id] + tuple(reversed(names))


def _guarded_within(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that `node` guards."""
    for part in _guarded_parts(node):
        yield from ast.walk(part)


def _guarded_parts(node: ast.AST) -> List[ast.AST]:
    if isinstance(node, ast.Try) and any(_catches(handler) for handler in node.handlers):
        return [*node.body, *node.handlers]
    if isinstance(node, ast.If) and _asks_for_version(node.test):
        return [*node.body, *node.orelse]
    if isinstance(node, ast.IfExp) and _asks_for_version(node.test):
        return [node.body, node.orelse]
    return []


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in _CAUGHT for node in ast.walk(handler.type))


def _asks_for_version(test: ast.AST) -> bool:
    words = [node.id for node in ast.walk(test) if isinstance(node, ast.Name)]
    words += [node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute)]
    return any(_ASKS_FOR_VERSION.search(word) for word in words)


class _Visitor(ast.NodeVisitor):
    """Collects the places where aliases are used."""

    def __init__(self, aliases: Dict[str, Names], bound: Dict[str, Names]) -> None:
        self.uses: List[Use] = []
        self.methods: List[Tuple[int, str]] = []
        self._aliases = aliases
        self._bound = bound
        self._guards = 0

    def visit(self, node: ast.AST) -> None:
        parts = _guarded_parts(node)
        if not parts:
            super().visit(node)
            return
        for child in ast.iter_child_nodes(node):
            is_guarded = any(child is part for part in parts)
            self._guards += is_guarded
            self.visit(child)
            self._guards -= is_guarded

    def visit_Assign(self, node: ast.Assign) -> None:
        # `tf = tf.compat.v1` reads the imported name that it replaces.
        names = chain_of(node.value, self._bound)
        if names and chain_of(node.value, self._aliases) is None:
            self.uses.append(Use(node.lineno, names, (), self._guards > 0))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        keywords = tuple(keyword.arg for keyword in node.keywords if keyword.arg)
        if not self._found(node.func, keywords):
            if isinstance(node.func, ast.Attribute):
                self.methods.append((node.lineno, node.func.attr))
            self.visit(node.func)
        for argument in [*node.args, *node.keywords]:
            self.visit(argument)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self._found(node, ()):
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._found(node, ())

    def _found(self, node: ast.AST, keywords: Names) -> bool:
        names = chain_of(node, self._aliases)
        if not names:
            return names is not None
        line: int = getattr(node, "lineno", 0)
        self.uses.append(Use(line, names, keywords, self._guards > 0))
        return True
