"""What Python 2 had under another name, or wrote in another way, than Python 3."""

from __future__ import annotations

from typing import Sequence, Tuple

SYNTAX: Sequence[Tuple[str, str]] = (
    (r"^\s*print\s+[^(=\s]|^\s*print\s*$", "print is a function"),
    (r"^\s*print\s*>>", "print is a function; its file is an argument"),
    (r"^\s*exec\s+[^(=\s]", "exec is a function"),
    (r"\bexcept\b[^:]*,\s*\w+\s*:", "it is `except ... as error`"),
    (r"^\s*raise\s+[\w.]+\s*,", "it is `raise Error(text)`"),
    (r"\b(\d+|0[xX][0-9a-fA-F]+)[lL]\b", "integers have no suffix"),
    (r"(^|[^\w.])0\d+\b", "octal numbers begin with 0o"),
    (r"`[^`]+`", "backticks are repr()"),
    (r"<>", "it is !="),
    (r"\b[uU][rR]['\"]", "strings have no prefix ur"),
    (r"\bdef\s+\w+\s*\([^)]*\(|\blambda\s*\(", "arguments cannot be tuples"),
)
NAMES = {
    "apply": "function(*arguments)",
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
MODULES = {
    "ConfigParser": "configparser",
    "HTMLParser": "html.parser",
    "Queue": "queue",
    "StringIO": "io",
    "__builtin__": "builtins",
    "cPickle": "pickle",
    "cStringIO": "io",
    "commands": "subprocess",
    "thread": "_thread",
    "urllib2": "urllib.request",
    "urlparse": "urllib.parse",
}
ATTRIBUTES = {
    "func_code": "__code__",
    "func_defaults": "__defaults__",
    "func_name": "__name__",
    "getcwdu": "getcwd",
    "has_key": "`key in it`",
    "ifilter": "the built-in filter",
    "im_class": "__self__.__class__",
    "im_func": "__func__",
    "im_self": "__self__",
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
# Functions that left a module.
OF_MODULES = {
    **{
        "string." + name: "a method of str"
        for name in "atof atoi join lower split strip upper".split()
    },
    "string.letters": "string.ascii_letters",
    "string.lowercase": "string.ascii_lowercase",
    "string.maketrans": "str.maketrans",
    "string.uppercase": "string.ascii_uppercase",
    **{
        "urllib." + name: "urllib.parse." + name
        for name in "quote quote_plus unquote unquote_plus urlencode".split()
    },
    "urllib.urlopen": "urllib.request.urlopen",
    "urllib.urlretrieve": "urllib.request.urlretrieve",
}
