"""Names what Python 2 left in a script that failed: the line, and what to do about it.

Nothing is done to make such scripts run: what a line means in Python 3 is what it does.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from types import TracebackType
from typing import (
    Any,
    Callable,
    Dict,
    List,
    NamedTuple,
    Optional,
    Pattern,
    Sequence,
    Set,
    Tuple,
    Type,
)

from graph_opt.cli.python2_names import ATTRIBUTES, MODULES, NAMES, OF_MODULES, SYNTAX
from graph_opt.cli.python2_source import (
    assigned_quotients,
    calls,
    divides,
    divides_as_python_3,
    lines_with,
    name_of,
    nodes_at,
    tree_of,
)

_MOST_LINES = 3
_INSTALLED = "site-packages"
_BY_HAND = "; 2to3 does not change it"
_VIEWS = {"dict_items": "items", "dict_keys": "keys", "dict_values": "values"}


class _Place(NamedTuple):
    """A line of the program.

    Attributes:
      path: The file's.
      line: Its number.
      callers: Lines of the same file from which it was called.
      globals: Names of the program's files through which it was called.
    """

    path: str
    line: int
    callers: Tuple[int, ...] = ()
    globals: Tuple[Dict[str, Any], ...] = ()


_Explain = Callable[["re.Match[str]", _Place], Optional[str]]


def leftover_of(error: BaseException, main: str) -> Optional[str]:
    """A line about what Python 2 left where a program failed; None if it did not fail from that.

    Args:
      error: What ended the program.
      main: Path of its main file.

    Example:
      >>> leftover_of(error, "train.py")
      "train.py:12 is Python 2: 'iteritems' is items in Python 3; `2to3 -w train.py` converts it"
    """
    place = _place_of(error, os.path.dirname(os.path.abspath(main)))
    if place is None:
        return None
    what = _syntax(error) if isinstance(error, SyntaxError) else _explained(error, place)
    if what is None:
        return None
    path = _short(place.path)
    told = "{}:{} is Python 2: {}".format(path, place.line, what)
    if what.endswith(_BY_HAND):
        return told
    return "{}. `2to3 -w {}` converts the file".format(told, path)


def _place_of(error: BaseException, folder: str) -> Optional[_Place]:
    """The innermost line of the program's own files."""
    if isinstance(error, SyntaxError):
        found = [_Place(error.filename or "", error.lineno or 0)]
    else:
        found = _lines(error.__traceback__)
    own = [place for place in found if _is_within(place.path, folder)]
    if not own:
        return None
    path = own[-1].path
    return own[-1]._replace(
        callers=tuple(place.line for place in own[:-1] if place.path == path),
        globals=tuple(names for place in own for names in place.globals),
    )


def _lines(traceback: Optional[TracebackType]) -> List[_Place]:
    found = []
    while traceback is not None:
        frame = traceback.tb_frame
        place = _Place(frame.f_code.co_filename, traceback.tb_lineno, (), (frame.f_globals,))
        found.append(place)
        traceback = traceback.tb_next
    return found


def _is_within(path: str, folder: str) -> bool:
    absolute = os.path.abspath(path)
    inside = absolute.startswith(os.path.join(folder, ""))
    return inside and _INSTALLED not in absolute[len(folder) :] and os.path.exists(absolute)


def _syntax(error: SyntaxError) -> Optional[str]:
    if isinstance(error, TabError):
        return "it indents with tabs as well as spaces" + _BY_HAND
    text = error.text or ""
    for pattern, what in SYNTAX:
        if re.search(pattern, text):
            return what + " in Python 3"
    return None


def _explained(error: BaseException, place: _Place) -> Optional[str]:
    for kinds, pattern, explain in _ERRORS:
        found = pattern.search(str(error)) if isinstance(error, kinds) else None
        what = explain(found, place) if found is not None else None
        if what is not None:
            return what
    return None


def _renamed(names: Dict[str, str]) -> _Explain:
    def explain(found: re.Match[str], place: _Place) -> Optional[str]:
        name = ".".join(found.groups())
        if name not in names:
            return None
        return "'{}' is {} in Python 3".format(name, names[name])

    return explain


def _always(what: str) -> _Explain:
    return lambda found, place: what


def _beside(found: re.Match[str], place: _Place) -> Optional[str]:
    name = found.group(1)
    file = os.path.join(os.path.dirname(os.path.abspath(place.path)), name)
    if not (os.path.isfile(file + ".py") or os.path.isfile(os.path.join(file, "__init__.py"))):
        return None
    return "a file beside it is imported by `from . import {}` in Python 3".format(name)


def _iterator(found: re.Match[str], place: _Place) -> str:
    name = found.group(1)
    maker = _VIEWS.get(name, name)
    tree = tree_of(place.path)
    lines = _told(lines_with(tree, lambda node: calls(node, maker)), place.line)
    where = " ({})".format(lines) if lines else ""
    return "{} gives no list in Python 3{}: it is list({}(...))".format(maker, where, maker)


def _own_iterator(found: re.Match[str], place: _Place) -> Optional[str]:
    name = found.group(1) or found.group(2)
    modules = [vars(module) for module in list(sys.modules.values()) if module is not None]
    for names in (*place.globals, *modules):
        kind = names.get(name)
        if isinstance(kind, type) and hasattr(kind, "next") and not hasattr(kind, "__next__"):
            return "an iterator's method is __next__ in Python 3, not next as in {}".format(name)
    return None


def _division(found: re.Match[str], place: _Place) -> Optional[str]:
    tree = tree_of(place.path)
    if tree is None or divides_as_python_3(tree):
        return None
    at = [place.line, *place.callers]
    lines = [line for line in at if any(map(divides, nodes_at(tree, line)))]
    if not lines:
        names: Set[str] = set()
        for line in at:
            names.update(filter(None, map(name_of, nodes_at(tree, line))))
        lines = assigned_quotients(tree, names)
    if not lines:
        return None
    told = _told(lines, place.line)
    return "/ of integers gives a float in Python 3 ({}): it is //".format(told) + _BY_HAND


def _string_raised(found: re.Match[str], place: _Place) -> Optional[str]:
    tree = tree_of(place.path)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Raise) and node.lineno == place.line:
            return "an error is no string in Python 3: it is `raise Exception(text)`" + _BY_HAND
    return None


def _changed_while_read(found: re.Match[str], place: _Place) -> Optional[str]:
    tree = tree_of(place.path)
    nodes = list(nodes_at(tree, place.line)) if tree is not None else []
    for maker in _VIEWS.values():
        if any(calls(node, maker) for node in nodes):
            what = "{} gives no list in Python 3: it is list({}(...))".format(maker, maker)
            return what + _BY_HAND
    return None


def _pickled(found: re.Match[str], place: _Place) -> Optional[str]:
    tree = tree_of(place.path)
    nodes = list(nodes_at(tree, place.line)) if tree is not None else []
    if not any(calls(node, "load") or calls(node, "loads") for node in nodes):
        return None
    if not any("p" in (name_of(node) or "") and "k" in (name_of(node) or "") for node in nodes):
        return None  # pickle, cPickle, pkl
    if found.group(1) == "ascii":
        what = "Python 3 reads what Python 2 has pickled by pickle.load(file, encoding='latin1')"
        return what + _BY_HAND
    return _TEXT


_TEXT = (
    "text is not bytes in Python 3: open files as 'rb' or 'wb', or encode() and decode()" + _BY_HAND
)
_COMPARISON = "sorted() and sort() take key= instead of cmp= in Python 3" + _BY_HAND
_NEXT = "an iterator's next element is next(iterator) in Python 3"
_PRINT = "print is a function in Python 3; its file is an argument"
_UNICODE = "text is Unicode in Python 3, and this line can go" + _BY_HAND
_CMP = "'cmp(a, b)' is (a > b) - (a < b) in Python 3" + _BY_HAND
_ERRORS: Sequence[Tuple[Tuple[Type[BaseException], ...], Pattern[str], _Explain]] = (
    ((NameError,), re.compile(r"name '(\w+)' is not defined"), _renamed(NAMES)),
    ((NameError,), re.compile(r"name 'cmp' is not defined"), _always(_CMP)),
    ((ImportError,), re.compile(r"No module named '(\w+)'"), _renamed(MODULES)),
    ((ImportError,), re.compile(r"No module named '(\w+)'$"), _beside),
    ((ImportError,), re.compile(r"cannot import name '(\w+)'"), _renamed(ATTRIBUTES)),
    ((AttributeError,), re.compile(r"module 'sys' has .* 'setdefaultencoding'"), _always(_UNICODE)),
    (
        (AttributeError,),
        re.compile(r"module '(\w+)' has no attribute '(\w+)'"),
        _renamed(OF_MODULES),
    ),
    ((AttributeError,), re.compile(r"has no attribute '(\w+)'"), _renamed(ATTRIBUTES)),
    (
        (AttributeError,),
        re.compile(
            r"'[\w.]*(?:iterator|generator|[rR]eader|Wrapper|map|zip|filter|enumerate)' object has "
            r"no attribute 'next'"
        ),
        _always(_NEXT),
    ),
    ((AttributeError,), re.compile(r"'str' object has no attribute 'decode'"), _always(_TEXT)),
    (
        (AttributeError,),
        re.compile(
            r"^'(map|filter|zip|range|dict_(?:items|keys|values))' object has no attribute "
            r"'(?:append|copy|count|extend|index|insert|pop|remove|reverse|sort)'"
        ),
        _iterator,
    ),
    (
        (TypeError, ValueError),
        re.compile(
            r"(?:'|<|<class ')(map|filter|zip|range|dict_(?:items|keys|values))(?:'| obj|\()"
        ),
        _iterator,
    ),
    (
        (TypeError,),
        re.compile(
            r"iter\(\) returned non-iterator of type '(\w+)'|'(\w+)' object is not an iterator"
        ),
        _own_iterator,
    ),
    (
        (TypeError, ValueError, IndexError),
        re.compile(
            r"'float' object cannot be interpreted|by non-int of type 'float'|"
            r"slice indices must be integers|indices must be integers[^']*not float|"
            r"must be integer or None|Expected int\d*,.*of type 'float'|"
            r"Cannot convert .*\d\.\d+ to|nly integers, slices \(|"
            r"integers or a single integer, got '\d+\.|"
            r"has DataType float\d+ not in list of allowed values: int32, int64|"
            r"num_or_size_splits argument to split\. Argument provided: \d+\.\d"
        ),
        _division,
    ),
    (
        (TypeError,),
        re.compile(
            r"'cmp' is an invalid keyword|sorted expected 1 arg|sort\(\) takes no positional"
        ),
        _always(_COMPARISON),
    ),
    (
        (TypeError,),
        re.compile(
            r"a bytes-like object is required, not 'str'|must be str, not bytes|"
            r"can't concat str to bytes|can only concatenate str \(not \"bytes\"\)|"
            r"[sS]trings must be encoded before hashing"
        ),
        _always(_TEXT),
    ),
    ((Exception,), re.compile(r"^iterator should return strings, not bytes"), _always(_TEXT)),
    ((LookupError,), re.compile(r"^'\w+' is not a text encoding"), _always(_TEXT)),
    ((UnicodeDecodeError,), re.compile(r"^'(ascii|utf-8)' codec can't decode"), _pickled),
    ((TypeError,), re.compile(r"for >>: 'builtin_function_or_method'"), _always(_PRINT)),
    ((TypeError,), re.compile(r"exceptions must derive from BaseException"), _string_raised),
    ((RuntimeError,), re.compile(r"dictionary changed size during"), _changed_while_read),
)


def _told(lines: Sequence[int], here: int) -> str:
    """Lines in words: the one that failed if it is among them, else the first ones."""
    lines = [here] if here in lines else sorted(set(lines))
    if not lines:
        return ""
    more = ", ..." if len(lines) > _MOST_LINES else ""
    several = "lines" if len(lines) > 1 else "line"
    return "{} {}{}".format(several, ", ".join(map(str, lines[:_MOST_LINES])), more)


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
