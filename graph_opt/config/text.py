"""Reads text protos, with errors that name file, line and the option that was probably meant."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterator, List, Tuple, Union

from google.protobuf import text_format

from graph_opt.compat import tf
from graph_opt.compat.config_descriptor import is_map, is_repeated
from graph_opt.compat.text_nesting import MOST_LEVELS, too_deep
from graph_opt.config.messages import ConfigProto
from graph_opt.config.option_names import near_matches

_UNKNOWN_FIELD = re.compile(r'Message type "([\w.]+)" has no field named "([^"]+)"')
_UNKNOWN_VALUE = re.compile(r'Enum type "([\w.]+)" has no value named (\S+?)\.?$')
_POSITION = re.compile(r"^\d+:\d+ : ")


def load_config(path: Union[str, os.PathLike[str]]) -> ConfigProto:
    """Reads a session config from a text proto file.

    Args:
      path: The file; `configs/` has ready-made ones.

    Returns:
      A `graph_opt.ConfigProto`.

    Raises:
      tf.errors.NotFoundError: There is no such file.
      tf.errors.InvalidArgumentError: The file is not a text proto of a ConfigProto. The message
        gives file, line and column, and for an unknown name lists similar ones.

    Example:
      >>> load_config("configs/async_embedding.pbtxt").allow_soft_placement
      True
    """
    name = os.fspath(path)
    return parse_config(_read_text(name), source=name)


def parse_config(text: str, source: str = "config") -> ConfigProto:
    """Parses the text of a config; errors call it `source`. Returns and raises as `load_config`."""
    config = ConfigProto()
    line = too_deep(text.encode("utf-8"))
    if line is not None:
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "{}:{}: messages are nested deeper than {} levels".format(source, line, MOST_LEVELS),
        )
    try:
        text_format.Parse(text, config)
    except text_format.ParseError as error:
        message = _describe(str(error))
        position = _position(error)
        raise tf.errors.InvalidArgumentError(
            None, None, "{}{}: {}".format(source, position, message)
        ) from error
    return config


def option_paths(descriptor: Any = None, prefix: str = "") -> Dict[str, Tuple[str, ...]]:
    """Dotted paths of all scalar options and lists of scalars, by their last name.

    Example:
      >>> option_paths()["threads_num"]
      ('graph_options.optimizer_options.async_embedding_options.threads_num',)
    """
    if descriptor is None:
        descriptor = ConfigProto.DESCRIPTOR
    paths: Dict[str, Tuple[str, ...]] = {}
    for path in _scalar_paths(descriptor, prefix, ()):
        name = path.rsplit(".", 1)[-1]
        paths[name] = paths.get(name, ()) + (path,)
    return paths


def _scalar_paths(descriptor: Any, prefix: str, above: Tuple[str, ...]) -> Iterator[str]:
    for field in descriptor.fields:
        path = prefix + field.name
        nested = field.message_type
        if is_map(field):
            continue
        if nested is None:
            yield path
        elif is_repeated(field):
            continue
        elif nested.full_name not in above:  # A message may contain itself.
            yield from _scalar_paths(nested, path + ".", above + (nested.full_name,))


def _read_text(name: str) -> str:
    try:
        with open(name, "rb") as file:
            return file.read().decode("utf-8")
    except FileNotFoundError as error:
        raise tf.errors.NotFoundError(
            None, None, "{}: there is no such config file".format(name)
        ) from error
    except OSError as error:
        raise tf.errors.InvalidArgumentError(
            None, None, "{}: cannot be read: {}".format(name, error.strerror)
        ) from error
    except UnicodeDecodeError as error:
        raise tf.errors.InvalidArgumentError(
            None, None, "{}: not a text proto (byte {} is not UTF-8)".format(name, error.start)
        ) from error


def _position(error: Any) -> str:
    if error.GetLine() is None:
        return ""
    if error.GetColumn() is None:
        return ":{}".format(error.GetLine())
    return ":{}:{}".format(error.GetLine(), error.GetColumn())


def _describe(error: str) -> str:
    """The parser's message in the user's terms: similar names instead of message types."""
    message = _POSITION.sub("", error)
    field = _UNKNOWN_FIELD.search(message)
    if field:
        return _unknown_field(field.group(1), field.group(2))
    value = _UNKNOWN_VALUE.search(message)
    if value:
        return _unknown_value(value.group(1), value.group(2))
    return message


def _unknown_field(type_name: str, name: str) -> str:
    short = type_name.rsplit(".", 1)[-1]
    here = [field.name for field in _message(type_name).fields]
    near = near_matches(name, here)
    message = "{} has no option '{}'".format(short, name)
    if near:
        return "{}; did you mean {}?".format(message, _either(near))
    elsewhere = option_paths().get(name)
    if elsewhere:
        return "{}; it belongs in {}".format(message, _either(list(elsewhere)))
    everywhere = near_matches(name, sorted(option_paths()))
    if everywhere:
        paths = [path for match in everywhere for path in option_paths()[match]]
        return "{}; did you mean {}?".format(message, _either(paths))
    return "{}; it has {}".format(message, ", ".join(here))


def _unknown_value(type_name: str, name: str) -> str:
    values = [value.name for value in _enum(type_name).values]
    return "'{}' is not a value of {}; use {}".format(
        name.strip("\"'"), type_name.rsplit(".", 1)[-1], _either(values)
    )


def _either(names: List[str]) -> str:
    quoted = ["'{}'".format(name) for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]


def _message(type_name: str) -> Any:
    return ConfigProto.DESCRIPTOR.file.pool.FindMessageTypeByName(type_name)


def _enum(type_name: str) -> Any:
    return ConfigProto.DESCRIPTOR.file.pool.FindEnumTypeByName(type_name)
