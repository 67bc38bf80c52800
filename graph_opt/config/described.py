"""Tells `help`, `?` and completion in an interactive Python what fields a message class has.

Protobuf's classes answer for any field, but have no signature, and `dir` lists no field of theirs.
"""

from __future__ import annotations

import inspect
from typing import Any, List

from google.protobuf.descriptor import FieldDescriptor

from graph_opt.compat.config_descriptor import is_map, is_repeated

_SCALARS = {
    FieldDescriptor.CPPTYPE_BOOL: "bool",
    FieldDescriptor.CPPTYPE_DOUBLE: "float",
    FieldDescriptor.CPPTYPE_ENUM: "int",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "int",
    FieldDescriptor.CPPTYPE_STRING: "str",
}


def describe(message: Any, documentation: str) -> None:
    """Gives a message class and those within it docstring, signature, and names to complete.

    Args:
      message: The class.
      documentation: Its docstring.

    Example:
      >>> describe(AsyncEmbeddingOptions, "How lookups run ahead.")
      >>> inspect.signature(AsyncEmbeddingOptions)
      <Signature (*, threads_num: int = None, capacity: int = None, ...)>
    """
    fields = list(message.DESCRIPTOR.fields)
    message.__doc__ = documentation
    message.__signature__ = inspect.Signature([_parameter(field) for field in fields])
    names = [field.name for field in fields]

    def listed(self: Any) -> List[str]:
        return sorted({*object.__dir__(self), *names})

    message.__dir__ = listed
    for nested in message.DESCRIPTOR.nested_types:
        if not nested.GetOptions().map_entry:
            describe(getattr(message, nested.name), "Options of `{}`.".format(message.__name__))


def _parameter(field: Any) -> inspect.Parameter:
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_type_of(field)
    )


def _type_of(field: Any) -> str:
    if is_map(field):
        key, value = (_one_of(one) for one in field.message_type.fields)
        return "Mapping[{}, {}]".format(key, value)
    return "Sequence[{}]".format(_one_of(field)) if is_repeated(field) else _one_of(field)


def _one_of(field: Any) -> str:
    """The type of a field that is no list: of a message, its name within its package."""
    if field.message_type is not None:
        package = field.message_type.file.package
        name: str = field.message_type.full_name[len(package) + 1 :]
        return name
    return _SCALARS[field.cpp_type]
