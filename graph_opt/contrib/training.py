"""`tf.contrib.training`: hyperparameters by name, and what places variables on servers."""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, List, Optional

from graph_opt.compat.contrib_parts import checkpoints_iterator, wait_for_new_checkpoint
from graph_opt.contrib.device_strategies import GreedyLoadBalancingStrategy, byte_size_load_fn
from graph_opt.contrib.files import missing_from

__all__ = [
    "GreedyLoadBalancingStrategy",
    "HParams",
    "byte_size_load_fn",
    "checkpoints_iterator",
    "wait_for_new_checkpoint",
]

# `name=value`, or `name=[value, value]`, then a comma or the end.
_SETTING = re.compile(r"\s*(?P<name>[a-zA-Z][\w.]*)\s*=\s*(\[(?P<list>[^\]]*)\]|(?P<value>[^,]*))")


class HParams:
    """Hyperparameters as attributes, each with the type of its first value.

    Args:
      **kwargs: Names and values: numbers, bools, strings, or lists of one of these.

    Example:
      >>> hparams = HParams(learning_rate=0.1, hidden=[64, 32])
      >>> hparams.parse("learning_rate=0.01,hidden=[128,64]").hidden
      [128, 64]
    """

    def __init__(self, **kwargs: Any) -> None:
        self._names: List[str] = []
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds one.

        Raises:
          ValueError: There is an attribute of that name, or the value is an empty list.
        """
        if getattr(self, name, None) is not None:
            raise ValueError("hyperparameter name is reserved: {}".format(name))
        if isinstance(value, (list, tuple)) and not value:
            raise ValueError("hyperparameter {!r} is an empty list, which has no type".format(name))
        self._names.append(name)
        setattr(self, name, list(value) if isinstance(value, tuple) else value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Sets one that exists, as its type.

        Raises:
          KeyError: There is none of that name.
          ValueError: The value is of another type.
        """
        if name not in self._names:
            raise KeyError("no hyperparameter {!r}; there are {}".format(name, self._listed()))
        old = getattr(self, name)
        if isinstance(old, list) != isinstance(value, (list, tuple)):
            need = "a list" if isinstance(old, list) else "no list"
            raise ValueError("hyperparameter {!r} is {!r}; need {}".format(name, value, need))
        if isinstance(old, list):
            setattr(self, name, [_as_type_of(old[0], one, name) for one in value])
        else:
            setattr(self, name, _as_type_of(old, value, name))

    def del_hparam(self, name: str) -> None:
        """Removes one, if there is one."""
        if name in self._names:
            self._names.remove(name)
            delattr(self, name)

    def parse(self, values: str) -> HParams:
        """Sets some from text, `name=value,name=[value,value]`; returns these hyperparameters.

        Raises:
          ValueError: The text is not of that form, a name is unknown, or a value has another type.
        """
        place = 0
        while place < len(values):
            found = _SETTING.match(values, place)
            if found is None:
                raise ValueError("cannot parse hyperparameters at {!r}".format(values[place:]))
            name, listed = found.group("name"), found.group("list")
            if name not in self._names:
                raise ValueError("unknown hyperparameter {!r}".format(name))
            texts = [found.group("value")] if listed is None else listed.split(",")
            parsed = [_from_text(getattr(self, name), text.strip(), name) for text in texts if text]
            if not parsed:
                raise ValueError("hyperparameter {!r} has no value".format(name))
            self.set_hparam(name, parsed[0] if listed is None else parsed)
            place = found.end()
            if place < len(values) and values[place] != ",":
                raise ValueError("cannot parse hyperparameters at {!r}".format(values[place:]))
            place += 1
        return self

    def override_from_dict(self, values_dict: Dict[str, Any]) -> HParams:
        """Sets some; returns these hyperparameters."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Sets some from the text of a JSON object; returns these hyperparameters."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(
        self,
        indent: Optional[int] = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        """All of them as a JSON object; functions are left out."""
        values = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def values(self) -> Dict[str, Any]:
        """All of them by name."""
        return {name: getattr(self, name) for name in self._names}

    def get(self, key: str, default: Any = None) -> Any:
        """One of them, or the default if there is none of that name."""
        return getattr(self, key) if key in self._names else default

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copy and pickle ask for such before there are any names
            raise AttributeError(name)
        raise AttributeError("no hyperparameter {!r}; there are {}".format(name, self._listed()))

    def __contains__(self, key: str) -> bool:
        return key in self._names

    def __repr__(self) -> str:
        return "HParams({})".format(
            ", ".join("{}={!r}".format(name, value) for name, value in self.values().items())
        )

    def _listed(self) -> str:
        return ", ".join(sorted(self._names)) or "none"


def _as_type_of(old: Any, value: Any, name: str) -> Any:
    if old is None or callable(old) or isinstance(value, type(old)):
        return _checked_bool(old, value, name)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(old, float) and is_whole:
        return float(value)
    raise ValueError("hyperparameter {!r} is {!r}; need {}".format(name, value, type(old).__name__))


def _checked_bool(old: Any, value: Any, name: str) -> Any:
    """The value, unless it is True for a number: bool is a kind of int."""
    if isinstance(value, bool) and isinstance(old, int) and not isinstance(old, bool):
        raise ValueError("hyperparameter {!r} is {!r}; need int".format(name, value))
    return value


def _from_text(old: Any, text: str, name: str) -> Any:
    first = old[0] if isinstance(old, list) else old
    kinds: Dict[type, Callable[[str], Any]] = {bool: _bool, int: int, float: float}
    try:
        return kinds.get(type(first), str)(text)
    except ValueError:
        raise ValueError(
            "hyperparameter {!r} is {!r}; need {}".format(name, text, type(first).__name__)
        ) from None


def _bool(text: str) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in known:
        raise ValueError(text)
    return known[text.lower()]


__getattr__ = missing_from(
    __name__,
    {
        "bucket*": "tf.data.experimental.bucket_by_sequence_length",
        "clip_gradient_norms": "tf.clip_by_norm",
        "create_train_op": "the optimizer's minimize()",
        "stratified_sample": "tf.data.experimental.rejection_resample",
        "*": "tf.train",
    },
)
