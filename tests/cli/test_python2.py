"""What Python 2 left in a script is named by its line, and nothing else is taken for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from graph_opt.cli.python2 import leftover_of

REPOSITORY = Path(__file__).resolve().parents[2]


BY_HAND = ("tabs", "//", "cmp=", "bytes", "float", "does not change")


def failure_of(source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> BaseException:
    script = folder / "train.py"
    script.write_text(source)
    monkeypatch.chdir(folder)
    try:
        exec(compile(source, str(script), "exec"), {"__name__": "script"})
    except Exception as error:
        return error
    raise AssertionError("it ran to its end")


@pytest.mark.parametrize(
    "source, line, what",
    [
        ("x = 1\nprint 'step', x", 2, "print is a function in Python 3"),
        ("try:\n    pass\nexcept ValueError, e:\n    pass", 3, "`except ... as error`"),
        ("raise ValueError, 'x'", 1, r"`raise Error\(text\)`"),
        ("x = 10L", 1, "integers have no suffix"),
        ("x = 0777", 1, "octal numbers begin with 0o"),
        ("if True:\n\tx = 1\n        y = 2", 3, "tabs as well as spaces"),
        ("f = lambda (a, b): a", 1, "arguments cannot be tuples"),
        ("d = {}\nfor k in d.iteritems():\n    pass", 2, "'iteritems' is items"),
        ("d = {}\nd.has_key(1)", 2, "'has_key' is `key in it`"),
        ("xs = map(int, '12')\n\nprint(xs[0])", 3, r"map gives no list in Python 3 \(line 1\)"),
        ("xs = dict(a=1).keys()\nxs.sort()", 2, r"keys gives no list in Python 3 \(line 1\)"),
        ("len(zip([1], [2]))", 1, r"zip gives no list in Python 3 \(line 1\)"),
        ("xs = range(3) + [1]", 1, "range gives no list"),
        ("n = 8\nhalf = n / 2\nrange(half)", 3, r"float in Python 3 \(line 2\): it is //"),
        ("[0] * (4 / 2)", 1, r"float in Python 3 \(line 1\)"),
        ("for i in xrange(3):\n    pass", 1, "'xrange' is range"),
        ("import cPickle", 1, "'cPickle' is pickle"),
        ("from itertools import izip", 1, "'izip' is the built-in zip"),
        ("import sys\nsys.maxint", 2, "'maxint' is maxsize"),
        ("it = iter([1])\nit.next()", 2, r"next\(iterator\)"),
        ("sorted([1], cmp=lambda a, b: 0)", 1, "key= instead of cmp="),
        ("'a'.decode('utf-8')", 1, "text is not bytes"),
        ("import sys\nprint >>sys.stderr, 'x'", 2, "its file is an argument"),
        ("raise 'lost'", 1, "an error is no string.*does not change"),
        (
            "import sys\nsys.setdefaultencoding('utf-8')",
            2,
            "this line can go; 2to3 does not change",
        ),
        ("import string\nstring.join(['a'])", 2, "'string.join' is a method of str"),
        ("n = 9\nn /= 2\nrange(n)", 3, r"float in Python 3 \(line 2\)"),
        ("def f(n):\n    return range(n)\n\nf(9 / 3)", 2, r"float in Python 3 \(line 4\)"),
        ("import numpy as np\nnp.zeros(4)[4 / 2]", 2, r"float in Python 3 \(line 2\)"),
        (
            "class Input:\n    def __iter__(self):\n        return self\n"
            "    def next(self):\n        return 1\n\nfor x in Input():\n    pass",
            7,
            "__next__ in Python 3, not next as in Input",
        ),
        (
            "import pickle\npickle.loads(b'\\x80\\x02U\\x01\\xe9q\\x00.')",
            2,
            r"encoding='latin1'\).*does not change",
        ),
        (
            "d = {1: 2}\nfor k in d.keys():\n    del d[k]",
            2,
            "keys gives no list.*does not change",
        ),
        (
            "import tensorflow.compat.v1 as tf\nxs = map(float, [1])\ntf.convert_to_tensor(xs)",
            3,
            r"map gives no list in Python 3 \(line 2\)",
        ),
        (
            "import tensorflow.compat.v1 as tf\nn = 8\ntf.TensorShape([n / 2])",
            3,
            r"float in Python 3 \(line 3\)",
        ),
    ],
)
def test_leftovers_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, line: int, what: str
) -> None:
    told = leftover_of(failure_of(source, tmp_path, monkeypatch), "train.py")
    assert told is not None and told.startswith("train.py:{} is Python 2: ".format(line))
    by_hand = any(word in what for word in BY_HAND)
    converts = ". `2to3 -w train.py` converts the file"
    assert told.endswith("; 2to3 does not change it" if by_hand else converts)
    assert re.search(what, told), told


@pytest.mark.parametrize(
    "source",
    [
        "x = (1,",
        "print('x'",
        "x.append(1)",
        "import absent_module",
        "[1, 2]['a'] / 2",
        "range(2.5)",
        "raise TypeError('a value of zip code')",
        "x = 1 / 2\n[1][2.5]",
        "from __future__ import division\nn = 8 / 2\nrange(n)",
        "n = 8 / 2.0\nrange(n)",
        "None.next",
        "class Map:\n    pass\nMap().map",
        "{}.keys().other",
        "open(__name__, 'wb').write(3)",
        "import json\njson.loads(b'\\xff')",
    ],
)
def test_other_failures_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    assert leftover_of(failure_of(source, tmp_path, monkeypatch), "train.py") is None


def test_the_command_says_it_after_the_traceback(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import model\n")
    (tmp_path / "model.py").write_text("\nprint 'loss'\n")
    command = [sys.executable, "-m", "graph_opt.cli", "run", "train.py"]
    environment = dict(os.environ, PYTHONPATH=str(REPOSITORY))
    ended = subprocess.run(
        command, cwd=str(tmp_path), env=environment, capture_output=True, text=True, check=False
    )
    *before, last = ended.stderr.strip().splitlines()
    assert ended.returncode == 1 and before[-1].startswith("SyntaxError: Missing parentheses")
    assert last == (
        "graph-opt run: model.py:2 is Python 2: print is a function in Python 3. "
        "`2to3 -w model.py` converts the file"
    )
