"""The names of all options, known before TensorFlow is loaded, which takes seconds.

TensorFlow's own are read from the descriptors in its generated modules, which are not imported.
"""

from __future__ import annotations

import ast
import difflib
import importlib.machinery
import os
import re
from typing import Any, Dict, Iterator, List, Tuple

from google.protobuf import descriptor_pb2

from graph_opt.config.schema import FIELDS

_CONFIG = "tensorflow.core.protobuf.config_pb2"
_IMPORT = re.compile(r"^from (tensorflow[\w.]*) import (\w+_pb2) ", re.MULTILINE)
# Protobuf 3, with which TensorFlow 1 was generated, has a text in place of bytes.
_SERIALIZED = re.compile(r"(?:AddSerializedFile\(|serialized_pb=_b\()(b?'.*')\)")
_OF_VERSION_1 = "tensorflow_core"
_Field = descriptor_pb2.FieldDescriptorProto

SWITCHED = ("true", "false", "True", "False", "t", "f", "1", "0")
"""What the text format takes for a bool."""


def option_names() -> Dict[str, bool]:
    """Names of scalar options and lists of scalars; empty if TensorFlow's cannot be found.

    Each tells whether all options of this name are either on or off.
    """
    try:
        stock = _stock_messages()
    except (OSError, SyntaxError, ValueError):
        return {}
    names: Dict[str, bool] = {}
    seen, waiting = set(), ["ConfigProto"] if stock else []
    while waiting:
        message = waiting.pop()
        if message in seen:
            continue
        seen.add(message)
        for name, nested, is_switch in _fields_of(message, stock):
            if nested:
                waiting.append(nested)
            else:
                names[name] = names.get(name, True) and is_switch
    return names


def near_matches(name: str, candidates: List[str]) -> List[str]:
    """At most three of `candidates` that `name` may be a misspelling of, best first."""
    return difflib.get_close_matches(name, candidates, n=3, cutoff=0.75)


def no_such_option(key: str, near: List[str]) -> str:
    """Says that there is no option of this name, and which ones may be meant."""
    hint = (
        "did you mean {}?".format(", ".join(near))
        if near
        else "docs/options.md lists the options of graph_opt"
    )
    return "there is no option '{}'; {}".format(key, hint)


def _fields_of(message: str, stock: Dict[str, Any]) -> Iterator[Tuple[str, str, bool]]:
    """Fields, each with the message that it has, and whether it is a bool; no lists of messages."""
    for field in stock[message].field if message in stock else ():
        if field.type != _Field.TYPE_MESSAGE:
            yield field.name, "", field.type == _Field.TYPE_BOOL
        elif field.label != _Field.LABEL_REPEATED:
            yield field.name, field.type_name[len(".tensorflow.") :], False
    for new in FIELDS:
        if new.message == message and (new.is_scalar or not new.repeated):
            yield new.name, "" if new.is_scalar else new.kind, new.kind == "bool"


def _stock_messages() -> Dict[str, Any]:
    """TensorFlow's messages that options may have, by name: `ConfigProto.Experimental`."""
    spec = importlib.machinery.PathFinder.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        return {}
    root = os.path.dirname(spec.origin)
    if os.path.isdir(os.path.join(os.path.dirname(root), _OF_VERSION_1)):
        root = os.path.join(os.path.dirname(root), _OF_VERSION_1)
    messages: Dict[str, Any] = {}
    read, waiting = set(), [_CONFIG]
    while waiting:
        module = waiting.pop()
        if module in read:
            continue
        read.add(module)
        with open(os.path.join(root, *module.split(".")[1:]) + ".py", encoding="utf-8") as file:
            text = file.read()
        waiting.extend(".".join(names) for names in _IMPORT.findall(text))
        for message in _descriptor(text).message_type:
            messages.update(_with_nested(message, ""))
    return messages


def _descriptor(module: str) -> Any:
    serialized = _SERIALIZED.search(module)
    if serialized is None:
        raise ValueError("a generated module without a descriptor")
    given = ast.literal_eval(serialized.group(1))
    given = given.encode("latin1") if isinstance(given, str) else given
    return descriptor_pb2.FileDescriptorProto.FromString(given)


def _with_nested(message: Any, prefix: str) -> Iterator[Tuple[str, Any]]:
    yield prefix + message.name, message
    for nested in message.nested_type:
        yield from _with_nested(nested, prefix + message.name + ".")
