"""`key=value` settings, as given on the command line."""

from __future__ import annotations

import json
import re
from typing import Any, Iterable, List

from google.protobuf import text_format

from graph_opt.compat import tf
from graph_opt.compat.config_descriptor import is_repeated
from graph_opt.config.messages import ConfigProto
from graph_opt.config.option_names import near_matches, no_such_option
from graph_opt.config.text import option_paths

# Their options have names of others, which are the ones that the short names are for.
_REPEATED = (".smart_stage_options.", ".pluggable_device_options.")
_PLAIN_VALUE = re.compile(r"^[\w.+-]+$")


def settings_config(settings: Iterable[str]) -> Any:
    """A config that holds only `settings`; apply it to another one with `merge`.

    Args:
      settings: Texts like `do_async_embedding=true`, `threads_num=2`, or with the full path
        `graph_options.optimizer_options.opt_level=L0`. The last one for an option wins; if the
        option is a list, each one adds a value.

    Returns:
      A `graph_opt.ConfigProto`.

    Raises:
      tf.errors.InvalidArgumentError: A setting has no `=`, an unknown key (the message lists
        similar ones), or a value that the option cannot take.

    Example:
      >>> settings_config(["threads_num=2"]).graph_options.optimizer_options
      async_embedding_options { threads_num: 2 }
    """
    config = ConfigProto()
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator:
            raise _invalid("'{}' is not a setting: write key=value".format(setting))
        _set(config, _full_path(key.strip()), value.strip(), setting)
    return config


def without_effect(settings: Iterable[str]) -> List[str]:
    """Those of the (valid) settings that cannot override a config which sets the option.

    They set one of TensorFlow's own options to its default, which proto3 cannot tell from an option
    that is not set. graph_opt's options and DeepRec's can.

    Example:
      >>> without_effect(["allow_soft_placement=false", "do_async_embedding=false"])
      ['allow_soft_placement=false']
    """
    found = []
    for setting in settings:
        key, _, value = setting.partition("=")
        names = _full_path(key.strip()).split(".")
        field = _field(names)
        parsed = _parse(names, value.strip(), setting)
        for name in names:
            parsed = getattr(parsed, name)
        is_default = not is_repeated(field) and parsed == field.default_value
        if field.containing_oneof is None and is_default:
            found.append(setting)
    return found


def _full_path(key: str) -> str:
    by_name = option_paths()
    known = [path for paths in by_name.values() for path in paths]
    if key in known:
        return key
    name = key.rsplit(".", 1)[-1]
    ends = [path for path in by_name.get(name, ()) if path.endswith("." + key)]
    ends = [path for path in ends if not any(part in "." + path for part in _REPEATED)] or ends
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise _invalid("'{}' is ambiguous: write {}".format(key, " or ".join(_preferred(ends))))
    near = near_matches(name, sorted(by_name)) if "." not in key else near_matches(key, known)
    raise _invalid(no_such_option(key, near or near_matches(name, sorted(by_name))))


def _preferred(paths: List[str]) -> List[str]:
    return sorted(paths, key=lambda path: (path.count("."), path))[:4]


def _set(config: Any, path: str, value: str, setting: str) -> None:
    names = path.split(".")
    parsed = _parse(names, value, setting)
    for name in names[:-1]:
        config, parsed = getattr(config, name), getattr(parsed, name)
    value_of_option = getattr(parsed, names[-1])
    if is_repeated(_field(names)):
        getattr(config, names[-1]).extend(value_of_option)
    else:
        setattr(config, names[-1], value_of_option)


def _parse(names: List[str], value: str, setting: str) -> Any:
    """A config with just this option; the text format checks the range of its type."""
    field = _field(names)
    is_string = field.type == field.TYPE_STRING
    if not is_string and not _PLAIN_VALUE.match(value):
        raise _invalid("{}: need {}".format(setting, _expected(field)))
    text = "{}: {}".format(names[-1], json.dumps(value) if is_string else value)
    for name in reversed(names[:-1]):
        text = "{} {{ {} }}".format(name, text)
    try:
        return text_format.Parse(text, ConfigProto())
    except text_format.ParseError as error:
        raise _invalid("{}: need {}".format(setting, _expected(field))) from error


def _field(names: List[str]) -> Any:
    descriptor = ConfigProto.DESCRIPTOR
    for name in names[:-1]:
        descriptor = descriptor.fields_by_name[name].message_type
    return descriptor.fields_by_name[names[-1]]


def _expected(field: Any) -> str:
    if field.enum_type is not None:
        return "one of " + ", ".join(value.name for value in field.enum_type.values)
    if field.type == field.TYPE_BOOL:
        return "true or false"
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return "a number"
    bits = 64 if field.cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else 32
    return "a whole number of at most {} bits".format(bits)


def _invalid(message: str) -> Exception:
    return tf.errors.InvalidArgumentError(None, None, message)
