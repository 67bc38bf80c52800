"""Every name of DeepRec's Python API is found, with its arguments and defaults."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any, Dict, List

import graph_opt
from graph_opt.compat import tf
from tests.release_features import HAS_ESTIMATORS

NAMES = Path(__file__).with_name("names.txt")
LINE = re.compile(r"(?P<path>[\w.]+)(?:\((?P<arguments>.*)\)| = (?P<number>\d+))?$")
ARGUMENT = re.compile(r"(\w+)(?:=(\(\)|[^,]*))?(?:, |$)")


def found(path: str) -> Any:
    """What a path leads to, through attributes and modules."""
    names = path.split(".")
    value: Any = tf if names[0] == "tf" else importlib.import_module(names[0])
    for place, name in enumerate(names[1:], 1):
        if hasattr(value, name):
            value = getattr(value, name)
        else:
            value = importlib.import_module(".".join(names[: place + 1]))
    return value


def faults_of(function: Any, arguments: str) -> List[str]:
    """What a function's parameters lack of a line of the list."""
    parameters = inspect.signature(function).parameters
    names = list(parameters)
    in_order, _, keywords = arguments.partition("*")
    faults = []
    for place, (name, default) in enumerate(ARGUMENT.findall(in_order)):
        if name not in names[place : place + 1]:
            faults.append("{} is not parameter {}".format(name, place))
        elif default and parameters[name].default != ast.literal_eval(default):
            faults.append("{} is {} by default".format(name, parameters[name].default))
    wanted = [name for name, _ in ARGUMENT.findall(keywords.lstrip(", "))]
    return faults + [name for name in wanted if not takes(function, name)]


def takes(function: Any, keyword: str) -> bool:
    """Whether a function has an argument, also if it shows the parameters of one that it wraps."""
    if keyword in inspect.signature(function).parameters:
        return True
    called: Any = vars(function)["__init__"] if isinstance(function, type) else function
    code = called.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return keyword in names or bool(code.co_flags & inspect.CO_VARKEYWORDS)


def test_every_name_is_found() -> None:
    lines = [line for line in NAMES.read_text("utf-8").splitlines() if line and line[0] != "#"]
    if not HAS_ESTIMATORS:
        lines = [line for line in lines if not line.startswith("tf.estimator.")]
    faults: Dict[str, List[str]] = {}
    with graph_opt.install(contrib=True):
        for line in lines:
            match = LINE.match(line)
            assert match is not None, line
            try:
                value = found(match.group("path"))
            except (ImportError, AttributeError) as error:
                faults[line] = [str(error)]
                continue
            if match.group("arguments"):
                faults[line] = faults_of(value, match.group("arguments"))
            elif match.group("number") and value != int(match.group("number")):
                faults[line] = ["it is {}".format(value)]
    assert {line: told for line, told in faults.items() if told} == {}
    assert len(lines) > 130
