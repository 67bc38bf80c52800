"""Checks for the repository's own rules: each takes source text and returns its faults.

Faults are lines of text that start with the line number; `module` is the file's dotted name, for
the checks that need it. `test_repository.py` tests that the repository has none, and that each
check finds a planted one.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import types
from typing import Any, Dict, FrozenSet, Iterator, List, Optional, Set, Tuple, Type, TypeVar

from tests.rooms import MAY_IMPORT as MAY_IMPORT

PUBLIC_MODULES = frozenset(
    {"graph_opt", "graph_opt.train", "graph_opt.sok", "graph_opt.distributed_embeddings"}
)
FORBIDDEN_STEMS = frozenset({"util", "utils", "helper", "helpers", "manager", "managers"})
VERSION_NAMES = frozenset({"__version__", "VERSION", "GIT_VERSION", "version_info"})
PRIVATE_BY_NAME_ONLY = frozenset({"_asdict", "_replace", "_fields", "_make", "_exit"})

# Names that Python 3.7's standard library lacks, by the module they would come from.
NEWER_THAN_3_7: Dict[str, FrozenSet[str]] = {
    "typing": frozenset(
        "Annotated Concatenate Final Literal ParamSpec Protocol Self TypeAlias TypedDict TypeGuard "
        "Unpack final get_args get_origin override runtime_checkable".split()
    ),
    "functools": frozenset({"cache", "cached_property", "singledispatchmethod"}),
    "math": frozenset({"comb", "dist", "isqrt", "lcm", "perm", "prod"}),
    "statistics": frozenset({"fmean", "geometric_mean", "quantiles"}),
    "itertools": frozenset({"batched", "pairwise"}),
    "contextlib": frozenset({"aclosing", "chdir"}),
    "importlib": frozenset({"metadata", "resources"}),
}
NEWER_MODULES = frozenset({"graphlib", "importlib.metadata", "tomllib", "zoneinfo"})
NEWER_METHODS = frozenset({"removeprefix", "removesuffix"})

# Their only children say whether a name is read or written.
LEAVES = frozenset({ast.Name, ast.Constant})

Import = Tuple[int, str, str]
Kind = TypeVar("Kind", bound=ast.AST)


def nodes_of(source: str, kind: Type[Kind]) -> List[Kind]:
    """The nodes of one kind in a file, by Python 3.7's grammar, in the order of `ast.walk`."""
    return _nodes_by_kind(source).get(kind, [])


@functools.lru_cache(maxsize=1)  # The checks of one file follow each other.
def _nodes_by_kind(source: str) -> Dict[type, List[Any]]:
    by_kind: Dict[type, List[Any]] = {}
    waiting: List[Any] = [ast.parse(source, feature_version=(3, 7))]
    for node in waiting:
        kind = type(node)
        by_kind.setdefault(kind, []).append(node)
        for field in () if kind in LEAVES else kind._fields:
            value = getattr(node, field)
            if isinstance(value, list):
                waiting.extend(each for each in value if isinstance(each, ast.AST))
            elif isinstance(value, ast.AST):
                waiting.append(value)
    return by_kind


def imports_of(source: str, module: str, for_types: bool = True) -> List[Import]:
    """(line, module, name) of every import, including inside functions; name '' for `import x`.

    Args:
      source: Text of a Python file.
      module: Its dotted name; a package's `__init__` is named by `package.__init__`.
      for_types: Whether imports under `if TYPE_CHECKING` count.
    """
    skipped = set() if for_types else _imports_for_types(source)
    found = [
        (node.lineno, alias.name, "")
        for node in nodes_of(source, ast.Import)
        if node not in skipped
        for alias in node.names
    ]
    for node in nodes_of(source, ast.ImportFrom):
        if node not in skipped:
            parent = module.split(".")[: -node.level] if node.level else []
            origin = ".".join(parent + [node.module] if node.module else parent)
            found.extend((node.lineno, origin, alias.name) for alias in node.names)
    return found


def _imports_for_types(source: str) -> Set[ast.AST]:
    return {
        inner
        for node in nodes_of(source, ast.If)
        if getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }


def upward_imports(source: str, module: str) -> List[str]:
    """Imports between rooms of graph_opt that `MAY_IMPORT` does not have.

    Example:
      >>> upward_imports("from graph_opt.session import live", "graph_opt.rules.sparse")
      ['1: graph_opt.rules.sparse imports graph_opt.session.live']
    """
    room = module.split(".")[1]
    if room == "__init__":
        return []
    faults = []
    for line, origin, name in imports_of(source, module):
        parts = origin.split(".") + ([name] if name else [])
        if parts[0] == "graph_opt" and not _may_import(room, parts[1:]):
            faults.append("{}: {} imports {}".format(line, module, ".".join(parts)))
    return faults


def _may_import(room: str, target: List[str]) -> bool:
    if not target:
        return False
    allowed = MAY_IMPORT.get(room, frozenset()) | {room, "compat"}
    return target[0] in allowed or ".".join(target[:2]) in allowed


def tensorflow_includes(source: str, module: str) -> List[str]:
    """Includes of TensorFlow, or of what knows it, by C++ outside of the kernels."""
    if module.startswith("ops_src.kernels."):
        return []
    included = re.compile(r'\s*#\s*include\s*[<"]((?:tensorflow|third_party|kernels)/[^>"]+)')
    found = ((line, included.match(text)) for line, text in enumerate(source.splitlines(), 1))
    return ["{}: includes {}".format(line, match[1]) for line, match in found if match]


def private_imports(source: str, module: str) -> List[str]:
    """Imports of graph_opt's rooms by code that may use only public names."""
    if module in ("tools.docs.message_stubs", "tools.docs.tables"):
        return []
    faults = []
    for line, origin, name in imports_of(source, module):
        inner = origin.split(".")[0] == "graph_opt" and origin not in PUBLIC_MODULES
        rooms = {room for room in MAY_IMPORT if "graph_opt." + room not in PUBLIC_MODULES}
        if inner or (origin == "graph_opt" and name in rooms):
            faults.append("{}: {} imports {} {}".format(line, module, origin, name).rstrip())
    return faults


def tensorflow_imports(source: str, module: str) -> List[str]:
    """Imports of TensorFlow, and any mention of its private package."""
    faults = [
        "{}: {} imports {}".format(line, module, origin)
        for line, origin, _ in imports_of(source, module)
        if origin.split(".")[0] in ("tensorflow", "keras", "tf_keras", "tensorflow_estimator")
    ]
    return faults + private_tensorflow(source, module)


def private_tensorflow(source: str, module: str) -> List[str]:
    """Imports of TensorFlow's private packages, and text that spells one for `import_module`."""
    spelled = [(line, origin + "." + name) for line, origin, name in imports_of(source, module)]
    for node in nodes_of(source, ast.Constant):
        if isinstance(node.value, str):
            spelled.append((node.lineno, node.value))
    return [
        "{}: {} is private to TensorFlow".format(line, text.split()[0].rstrip("."))
        for line, text in spelled
        if re.match(r"tensorflow\.(python|compiler)\b", text)
    ]


def private_attributes(source: str, module: str = "") -> List[str]:
    """Uses of `._name` that the file itself does not define: private parts of another module."""
    own = set(_names_defined(source)) | PRIVATE_BY_NAME_ONLY
    return [
        "{}: .{} is private to another object".format(node.lineno, node.attr)
        for node in nodes_of(source, ast.Attribute)
        if _is_private(node.attr) and node.attr not in own
    ]


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _names_defined(source: str) -> Iterator[str]:
    yield from (node.name for node in nodes_of(source, ast.FunctionDef))
    yield from (node.name for node in nodes_of(source, ast.ClassDef))
    for name in nodes_of(source, ast.Name):
        if isinstance(name.ctx, ast.Store):
            yield name.id
    for node in nodes_of(source, ast.Attribute):
        if isinstance(node.ctx, ast.Store) and getattr(node.value, "id", "") in ("self", "cls"):
            yield node.attr


def version_readings(source: str, module: str = "") -> List[str]:
    """Uses of TensorFlow's or Python's version other than printing it in a message."""
    printed: Set[int] = set()
    for call in nodes_of(source, ast.Call):
        if _called_name(call) == "format":
            printed.update(id(argument) for argument in call.args)
    return [
        "{}: reads {}".format(node.lineno, node.attr)
        for node in nodes_of(source, ast.Attribute)
        if node.attr in VERSION_NAMES and id(node) not in printed
    ]


def example_counts(source: str, module: str) -> List[str]:
    """Numbers of random examples that no profile can change."""
    if module in ("tests.conftest", "tests.example_share"):
        return []
    return [
        "{}: sets max_examples".format(node.value.lineno)
        for node in nodes_of(source, ast.keyword)
        if node.arg == "max_examples"
    ]


def newer_than_python_3_7(source: str, module: str) -> List[str]:
    """Syntax and library names that Python 3.7 does not have."""
    try:
        imports = imports_of(source, module)
    except SyntaxError as error:
        return ["{}: {}".format(error.lineno, error.msg)]
    faults = [
        "{}: {} {} is newer than 3.7".format(line, origin, name).replace("  ", " ")
        for line, origin, name in imports
        if origin in NEWER_MODULES or name in NEWER_THAN_3_7.get(origin, frozenset())
    ]
    for node in nodes_of(source, ast.Attribute):
        if _is_newer_attribute(node):
            faults.append("{}: .{} is newer than 3.7".format(node.lineno, node.attr))
    # Python 3.9's parser lets these three pass.
    for assignment in nodes_of(source, ast.AnnAssign):
        if isinstance(assignment.value, ast.Tuple) and not _in_parentheses(
            source, assignment.value
        ):
            faults.append("{}: a tuple without parentheses".format(assignment.lineno))
    for walrus in nodes_of(source, ast.NamedExpr):
        faults.append("{}: := is newer than 3.7".format(walrus.lineno))
    for arguments in nodes_of(source, ast.arguments):
        if arguments.posonlyargs:
            faults.append("{}: positional-only".format(arguments.posonlyargs[0].lineno))
    return faults


def _in_parentheses(source: str, node: ast.expr) -> bool:
    return (ast.get_source_segment(source, node) or "").startswith("(")


def _is_newer_attribute(node: ast.Attribute) -> bool:
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    return node.attr in NEWER_METHODS or node.attr in NEWER_THAN_3_7.get(owner, frozenset())


def refusal_codes(source: str, module: str = "") -> Set[str]:
    """Codes passed to `Refusal`, as a literal or as a constant of the file."""
    return {code for _, code in _refusals(source) if code is not None}


def nameless_refusals(source: str, module: str = "") -> List[str]:
    """Calls of `Refusal` whose code cannot be read from the source."""
    return [
        "{}: the code of this Refusal is not written out".format(line)
        for line, code in _refusals(source)
        if code is None
    ]


def _refusals(source: str) -> Iterator[Tuple[int, Optional[str]]]:
    constants = _text_constants(source)
    for node in nodes_of(source, ast.Call):
        if _called_name(node) == "Refusal":
            given = [k.value for k in node.keywords if k.arg == "code"] + list(node.args[:1])
            yield node.lineno, _text_of(given[0], constants) if given else None


def _called_name(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _text_constants(source: str) -> Dict[str, str]:
    (module,) = nodes_of(source, ast.Module)
    return {
        target.id: statement.value.value
        for statement in module.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name) and isinstance(statement.value.value, str)
    }


def _text_of(node: ast.expr, constants: Dict[str, str]) -> Optional[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return constants.get(node.id) if isinstance(node, ast.Name) else None


def documented_imports(page: str) -> Dict[str, Set[str]]:
    """Maps each room to what it may import, according to the table in docs/architecture-rooms.md.

    Example:
      >>> documented_imports("| `graph_opt/cli/` | the command | passes, `ops.library` |")
      {'cli': {'passes', 'ops.library'}}
    """
    rows = re.findall(
        r"^\| `graph_opt/(\w+)(?:/|\.py)` \|[^|]*\|([^|]*)\|$", page, flags=re.MULTILINE
    )
    return {room: set(re.findall(r"[\w.]+", cell)) for room, cell in rows}


def make_targets_named(text: str) -> Set[str]:
    """Targets of the `make TARGET` commands in code spans and code blocks of a page."""
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, flags=re.DOTALL))
    return set(re.findall(r"(?<![\w/-])make ([a-z][a-z-]*)", code))


def make_targets(makefile: str) -> Set[str]:
    """Targets that a Makefile has rules for; `bench-%` is returned as it is."""
    rules = re.findall(r"^([a-z][a-z %-]*):(?!=)", makefile, flags=re.MULTILINE)
    return {target for rule in rules for target in rule.split()}


def relative_links(page: str) -> List[str]:
    """Files that a Markdown page links to or embeds, without anchors and external addresses."""
    targets = re.findall(r"\]\(([^)\s]+)\)", page)
    paths = [target.split("#")[0] for target in targets]
    return [path for path in paths if path and "://" not in path]


def attributes_of_loaded_modules(package: str) -> Dict[str, Dict[str, int]]:
    """Identity of every attribute of the package's loaded modules and of the classes in them."""
    attributes: Dict[str, Dict[str, int]] = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] != package or module is None:
            continue
        values = {
            key: value
            for key, value in vars(module).items()
            if not _is_module(value) and not key.startswith("_tfmw_")  # TensorFlow's own notes
        }
        attributes[name] = {key: id(value) for key, value in values.items()}
        for key, value in values.items():
            if isinstance(value, type) and value.__module__.split(".")[0] == package:
                attributes[name + "." + key] = {k: id(v) for k, v in vars(value).items()}
    return attributes


def _is_module(value: object) -> bool:
    return isinstance(value, types.ModuleType)


def changes_between(
    before: Dict[str, Dict[str, int]], after: Dict[str, Dict[str, int]]
) -> List[str]:
    """Attributes set, replaced or removed in between, except in modules loaded in between."""
    changed: List[str] = []
    for owner in sorted(set(before) & set(after)):
        keys = set(before[owner]) | set(after[owner])
        differ = (key for key in keys if before[owner].get(key) != after[owner].get(key))
        changed.extend("{}.{}".format(owner, key) for key in sorted(differ))
    return changed
