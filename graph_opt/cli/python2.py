"""Names what Python 2 left in a script that failed: the line, and what to do about it.

Nothing is done to make such scripts run: what a line means in Python 3 is what it does.
"""

from __future__ import annotations

import ast
import os
import re
from types import TracebackType
from typing import Callable, Dict, List, NamedTuple, Optional, Pattern, Sequence, Tuple, Type

_MOST_LINES = 3
_INSTALLED = "site-packages"
_BY_HAND = "; 2to3 does not change it"


class _Place(NamedTuple):
    """A line of the program.

    Attributes:
      path: The file's.
      line: Its number.
    """

    path: str
    line: int


_SYNTAX: Sequence[Tuple[str, str]] = (
    (r"^\s*print\s+[^(=\s]|^\s*print\s*$", "print is a function"),
    (r"^\s*print\s*>>", "print is a function; its file is an argument"),
    (r"^\s*exec\s+[^(=\s]", "exec is a function"),
    (r"\bexcept\b[^:]*,\s*\w+\s*:", "it is `except ... as error`"),
    (r"^\s*raise\s+[\w.]+\s*,", "it is `raise Error(text)`"),
    (r"\b\d+[lL]\b", "integers have no suffix"),
    (r"(^|[^\w.])0\d+\b", "octal numbers begin with 0o"),
    (r"`[^`]+`", "backticks are repr()"),
    (r"<>", "it is !="),
    (r"\b[uU][rR]['\"]", "strings have no prefix ur"),
    (r"\bdef\s+\w+\s*\([^)]*\(|\blambda\s*\(", "arguments cannot be tuples"),
)
_NAMES = {
    "basestring": "str",
    "execfile": "exec(open(path).read())",
    "file": "open",
    "long": "int",
    "raw_input": "input",
    "reduce": "functools.reduce",
    "reload": "importlib.reload",
    "unichr": "chr",
    "unicode": "str",
    "xrange": "range",
}
_MODULES = {
    "ConfigParser": "configparser",
    "HTMLParser": "html.parser",
    "Queue": "queue",
    "StringIO": "io",
    "__builtin__": "builtins",
    "cPickle": "pickle",
    "cStringIO": "io",
    "commands": "subprocess",
    "urllib2": "urllib.request",
    "urlparse": "urllib.parse",
}
_ATTRIBUTES = {
    "getcwdu": "getcwd",
    "has_key": "`key in it`",
    "ifilter": "the built-in filter",
    "imap": "the built-in map",
    "iteritems": "items",
    "iterkeys": "keys",
    "itervalues": "values",
    "izip": "the built-in zip",
    "izip_longest": "zip_longest",
    "maxint": "maxsize",
    "urlencode": "urllib.parse.urlencode",
    "urlopen": "urllib.request.urlopen",
}
_VIEWS = {"dict_items": "items", "dict_keys": "keys", "dict_values": "values"}
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
    return own[-1] if own else None


def _lines(traceback: Optional[TracebackType]) -> List[_Place]:
    found = []
    while traceback is not None:
        found.append(_Place(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
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
    for pattern, what in _SYNTAX:
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
        name = found.group(1)
        if name not in names:
            return None
        return "'{}' is {} in Python 3".format(name, names[name])

    return explain


def _next_method(found: re.Match[str], place: _Place) -> str:
    return "an iterator's next element is next(iterator) in Python 3"


def _iterator(found: re.Match[str], place: _Place) -> str:
    name = found.group(1)
    maker = _VIEWS.get(name, name)
    lines = _lines_with(place, lambda node: _calls(node, maker))
    where = " ({})".format(lines) if lines else ""
    return "{} gives no list in Python 3{}: it is list({}(...))".format(maker, where, maker)


def _division(found: re.Match[str], place: _Place) -> Optional[str]:
    lines = _lines_with(place, lambda node: isinstance(node, ast.Div))
    if not lines:
        return None
    return "/ of integers gives a float in Python 3 ({}): it is //".format(lines) + _BY_HAND


def _comparison(found: re.Match[str], place: _Place) -> str:
    return "sorted() and sort() take key= instead of cmp= in Python 3" + _BY_HAND


def _text(found: re.Match[str], place: _Place) -> str:
    what = "text is not bytes in Python 3: open files as 'rb' or 'wb', or encode() and decode()"
    return what + _BY_HAND


_ERRORS: Sequence[Tuple[Tuple[Type[BaseException], ...], Pattern[str], _Explain]] = (
    ((NameError,), re.compile(r"name '(\w+)' is not defined"), _renamed(_NAMES)),
    ((ImportError,), re.compile(r"No module named '(\w+)'"), _renamed(_MODULES)),
    ((ImportError,), re.compile(r"cannot import name '(\w+)'"), _renamed(_ATTRIBUTES)),
    ((AttributeError,), re.compile(r"has no attribute '(\w+)'"), _renamed(_ATTRIBUTES)),
    ((AttributeError,), re.compile(r"has no attribute 'next'"), _next_method),
    ((AttributeError,), re.compile(r"'str' object has no attribute 'decode'"), _text),
    (
        (TypeError, AttributeError, ValueError),
        re.compile(
            r"(?:'|<|<class ')(map|filter|zip|range|dict_(?:items|keys|values))(?:'| obj|\()"
        ),
        _iterator,
    ),
    (
        (TypeError, ValueError),
        re.compile(
            r"'float' object cannot be interpreted|by non-int of type 'float'|"
            r"slice indices must be integers|indices must be integers[^']*not float|"
            r"must be integer or None|Expected int\d*,.*of type 'float'|Cannot convert .*\d\.\d+ to"
        ),
        _division,
    ),
    ((TypeError,), re.compile(r"'cmp' is an invalid keyword"), _comparison),
    ((TypeError,), re.compile(r"a bytes-like object is required|must be str, not bytes"), _text),
)


def _lines_with(place: _Place, wanted: Callable[[ast.AST], bool]) -> str:
    """The place's own line if it has what is wanted, else the first ones of its file that do."""
    try:
        with open(place.path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ""
    lines = sorted(
        {
            inner.lineno
            for inner in ast.walk(tree)
            if isinstance(inner, ast.expr)
            for part in (inner, getattr(inner, "op", inner))
            if wanted(part)
        }
    )
    if place.line in lines or not lines:
        return "" if not lines else "line {}".format(place.line)
    more = ", ..." if len(lines) > _MOST_LINES else ""
    several = "lines" if len(lines) > 1 else "line"
    return "{} {}{}".format(several, ", ".join(map(str, lines[:_MOST_LINES])), more)


def _calls(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    return getattr(function, "id", None) == name or getattr(function, "attr", None) == name


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
