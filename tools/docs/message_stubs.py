"""Types of the config's messages, for type checkers and editors.

`python -m tools.docs.message_stubs` writes `graph_opt/config/messages.pyi`: a class for each
message, with fields, constructor and nested messages as its descriptor has them, and what
docs/options.md says of each option. Messages of TensorFlow's own are imported from its generated
modules: they are typed where its stubs are installed, and may be anything elsewhere.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Sequence

from graph_opt.config import messages
from tools.docs.pages import DOCS, REPOSITORY

STUBS = REPOSITORY / "graph_opt" / "config" / "messages.pyi"
_PACKAGE = "graph_opt"
_WIDTH = 100
_TABLE = re.compile(r"<!-- options of (\w+) -->\n.*\n.*\n((?:\|.*\n)+)<!-- end -->")
# Every release of TensorFlow has other fields there.
_EXPERIMENTAL = "Experimental"
_ANY_FIELD = (
    "def __getattr__(self, name: str) -> Any: ...",
    "def __setattr__(self, name: str, value: Any) -> None: ...",
)
# By message, fields that later releases have as well, each with one of the same type.
_LATER_FIELDS = {"ConfigProto": {"pluggable_device_options": "gpu_options"}}
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_HEAD = '''\
"""Written by `python -m tools.docs.message_stubs`, as graph_opt's messages are made at run time."""

from abc import ABCMeta
from typing import (
    Any,
    List,
    Literal,
    Mapping,
    MutableMapping,
    MutableSequence,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

from typing_extensions import Self

{imports}

_M = TypeVar("_M")
_T = TypeVar("_T")

# Without protobuf's stubs, which pyright brings along, its `Message` is anything to mypy, and so
# would be classes derived from it: no misspelled option would be found. Only mypy reads what is
# under `if 0`, and only mypy takes `MYPY` for true.
MYPY = False
if 0:
    class _Message:
        DESCRIPTOR: Any
        def ByteSize(self) -> int: ...
        def Clear(self) -> None: ...
        def CopyFrom(self, other_msg: Self) -> None: ...
        def DiscardUnknownFields(self) -> None: ...
        @classmethod
        def FromString(cls, s: bytes) -> Self: ...
        def IsInitialized(self) -> bool: ...
        def ListFields(self) -> Sequence[Tuple[Any, Any]]: ...
        def MergeFrom(self, other_msg: Self) -> None: ...
        def MergeFromString(self, serialized: bytes) -> int: ...
        def ParseFromString(self, serialized: bytes) -> int: ...
        def SerializePartialToString(self, **kwargs: Any) -> bytes: ...
        def SerializeToString(self, **kwargs: Any) -> bytes: ...
        def SetInParent(self) -> None: ...
        def WhichOneof(self, oneof_group: str) -> Optional[str]: ...

elif not MYPY:
    from google.protobuf.message import Message as _Message

class _Enum:
    def Name(self, number: int) -> str: ...
    def Value(self, name: str) -> int: ...
    def items(self) -> List[Tuple[str, int]]: ...
    def keys(self) -> List[str]: ...
    def values(self) -> List[int]: ...

class _Scalars(MutableSequence[_T], metaclass=ABCMeta):
    def MergeFrom(self, other: Self) -> None: ...

class _Messages(Sequence[_M], metaclass=ABCMeta):
    def append(self, value: _M) -> None: ...
    def extend(self, elem_seq: Sequence[_M]) -> None: ...
    def insert(self, key: int, value: _M) -> None: ...
    def pop(self, key: int = ...) -> _M: ...
    def remove(self, elem: _M) -> None: ...
    def MergeFrom(self, other: Self) -> None: ...
    def __delitem__(self, key: Union[int, slice]) -> None: ...

class _StockMessages(_Messages[Any], metaclass=ABCMeta):
    def add(self, **fields: Any) -> Any: ...
'''
_TAIL = """
class _StockConfig(Protocol):
    allow_soft_placement: bool
    def SerializeToString(self) -> bytes: ...

SessionConfig = Union[ConfigProto, _StockConfig]
StockConfigProto: Any
StockRunOptions: Any
"""


class _Field(NamedTuple):
    """A field of a message.

    Attributes:
      name: Its name.
      kind: Its type as `help` shows it.
      descriptor: Its own, or that of a field of the same type.
    """

    name: str
    kind: str
    descriptor: Any

    @property
    def is_repeated(self) -> bool:
        """Whether it has any number of values, and no keys."""
        return self.kind.startswith("Sequence[")


def main() -> None:
    """Writes the stubs anew."""
    STUBS.write_text(stubs(), encoding="utf-8")


def stubs() -> str:
    """The text of the stubs, for the installed release of TensorFlow."""
    names = sorted(messages.ConfigProto.DESCRIPTOR.file.message_types_by_name)
    made = [getattr(messages, name) for name in names]
    meanings = _meanings()
    repeated = {
        field.descriptor.message_type for one in made for field in _fields(one) if field.is_repeated
    }
    classes = [
        line
        for name, one in zip(names, made)
        for line in [
            *(_list_class(one) if one.DESCRIPTOR in repeated else ()),
            *_class(one, meanings.get(name, {})),
            "",
        ]
    ]
    head = _HEAD.replace("{imports}", "\n".join(_imports(made)))
    return "\n".join([head, "\n".join(classes), _TAIL])


def _meanings() -> Dict[str, Dict[str, str]]:
    """By message and option, what the page of options says of it."""
    page = (DOCS / "options.md").read_text("utf-8")
    found: Dict[str, Dict[str, str]] = {}
    for message, lines in _TABLE.findall(page):
        for line in lines.splitlines():
            name, _, default, allowed, meaning = re.split(r" ?\| ?", line)[1:-1]
            notes = [_LINK.sub(r"\1", meaning).strip() + "."]
            notes += ["Range: {}.".format(allowed.strip())] if allowed.strip() else []
            notes += ["Default: {}.".format(default.strip())] if default.strip() else []
            found.setdefault(message, {})[name.strip("` ")] = " ".join(notes)
    return found


def _imports(classes: Sequence[Any]) -> List[str]:
    """TensorFlow's messages; those of its libraries are elsewhere in other releases."""
    kinds = {field.message_type for one in _with_nested(classes) for field in one.DESCRIPTOR.fields}
    foreign = {kind for kind in kinds if kind is not None and kind.file.package != _PACKAGE}
    own = [kind for kind in foreign if kind.file.name.startswith("tensorflow/")]
    modules = {kind: kind.file.name[: -len(".proto")].replace("/", ".") + "_pb2" for kind in own}
    imports = ["from {} import {}".format(modules[kind], kind.name) for kind in own]
    return sorted(imports) + sorted("{} = Any".format(kind.name) for kind in foreign - set(own))


def _with_nested(classes: Sequence[Any]) -> Iterator[Any]:
    for message in classes:
        yield message
        yield from _with_nested(_nested(message))


def _list_class(message: Any) -> List[str]:
    """The list that a field has which repeats the message; its `add` takes what fields it has."""
    name = message.DESCRIPTOR.name
    return [
        "class _{}List(_Messages[{}], metaclass=ABCMeta):".format(name, name),
        *_indented(_function("add", _parameters(message), name)),
        "",
    ]


def _class(message: Any, meanings: Dict[str, str]) -> List[str]:
    descriptor = message.DESCRIPTOR
    body: List[str] = []
    for enum in descriptor.enum_types:
        body += ["{}: _Enum".format(enum.name)]
        body += ["{}: int".format(value.name) for value in enum.values]
    for nested in _nested(message):
        body += ["", *_class(nested, {}), ""]
    own_fields = _fields(message)
    for field in own_fields:
        body += _attribute(field, meanings.get(field.name, ""))
    body += _function("__init__", _parameters(message), "None")
    for method, fields, returned in (
        ("HasField", [field for field in own_fields if field.descriptor.has_presence], "bool"),
        ("ClearField", own_fields, "None"),
    ):
        if fields:
            name = "field_name: {}".format(_literals(field.name for field in fields))
            body += _function(method, [name], returned, keyword=False)
    if descriptor.name == _EXPERIMENTAL:
        body += _ANY_FIELD
    return ["class {}(_Message):".format(descriptor.name), *_indented(body)]


def _fields(message: Any) -> List[_Field]:
    kinds = inspect.signature(message).parameters
    found = {
        field.name: _Field(field.name, str(kinds[field.name].annotation), field)
        for field in message.DESCRIPTOR.fields
    }
    for name, alike in _LATER_FIELDS.get(message.DESCRIPTOR.name, {}).items():
        found.setdefault(name, found[alike]._replace(name=name))
    return list(found.values())


def _attribute(field: _Field, meaning: str) -> List[str]:
    doc = textwrap.wrap('"""{}"""'.format(meaning), _WIDTH - 8) if meaning else []
    enum = field.descriptor.enum_type
    if enum is None and field.descriptor.message_type is None and not field.is_repeated:
        return ["{}: {}".format(field.name, field.kind), *doc]
    getter = "def {}(self) -> {}:".format(field.name, _read(field))
    lines = ["@property", getter, *_indented(doc)] if doc else ["@property", getter + " ..."]
    if enum is None:
        return lines
    value = "value: {}".format(_taken(field))
    return [*lines, "@{}.setter".format(field.name), *_function(field.name, [value], "None", False)]


def _read(field: _Field) -> str:
    """The type of a field that is read."""
    if field.kind.startswith("Mapping"):
        return "Mutable" + field.kind
    if not field.is_repeated:
        return field.kind
    message = field.descriptor.message_type
    if message is None:
        return field.kind.replace("Sequence", "_Scalars")
    is_ours = message.file.package == _PACKAGE
    return "_{}List".format(message.name) if is_ours else "_StockMessages"


def _parameters(message: Any) -> List[str]:
    named = [
        "{}: Optional[{}] = ...".format(field.name, _taken(field)) for field in _fields(message)
    ]
    return named + (["**fields: Any"] if message.DESCRIPTOR.name == _EXPERIMENTAL else [])


def _taken(field: _Field) -> str:
    """The type of what a field may be given: values of enums by name, messages as dictionaries."""
    enum = field.descriptor.enum_type
    if enum is not None:
        return "Union[int, {}]".format(_literals(value.name for value in enum.values))
    if field.descriptor.message_type is None or field.kind.startswith("Mapping"):
        return field.kind
    if field.is_repeated:
        repeated = field.kind[len("Sequence[") : -1]
        return "Sequence[Union[{}, Mapping[str, Any]]]".format(repeated)
    return "Union[{}, Mapping[str, Any]]".format(field.kind)


def _literals(names: Iterable[str]) -> str:
    return "Literal[{}]".format(", ".join('"{}"'.format(name) for name in names))


def _function(
    name: str, parameters: Sequence[str], returned: str, keyword: bool = True
) -> List[str]:
    listed = ["self", *(["*"] if keyword and parameters else []), *parameters]
    lines = [
        line
        for one in listed
        for line in textwrap.wrap(one + ",", _WIDTH - 12, subsequent_indent="    ")
    ]
    return ["def {}(".format(name), *_indented(lines), ") -> {}: ...".format(returned)]


def _indented(lines: Sequence[str]) -> List[str]:
    return ["    " + line if line else "" for line in lines]


def _nested(message: Any) -> List[Any]:
    return [
        getattr(message, nested.name)
        for nested in message.DESCRIPTOR.nested_types
        if not nested.GetOptions().map_entry
    ]


if __name__ == "__main__":
    main()
