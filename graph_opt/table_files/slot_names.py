"""What the slots of a table are called in checkpoints.

Optimizers of `tf.train` name them TABLE/Adam and TABLE/Adam_1, in the order in which they make
them; Keras' legacy ones Adam/TABLE/m, and its new ones Adam/m/TABLE.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Match, NamedTuple, Optional, Tuple

# By an optimizer's name and how many slots it has.
_OF_TRAIN: Dict[Tuple[str, int], Tuple[str, ...]] = {
    ("Adam", 2): ("m", "v"),
    ("Adagrad", 1): ("accumulator",),
    ("AdagradDA", 2): ("gradient_accumulator", "gradient_squared_accumulator"),
    ("Adadelta", 2): ("accum", "accum_update"),
    ("Ftrl", 2): ("accum", "linear"),
    ("Momentum", 1): ("momentum",),
    ("ProximalAdagrad", 1): ("accumulator",),
    ("RMSProp", 2): ("rms", "momentum"),
    ("RMSProp", 3): ("rms", "mg", "momentum"),
}
# By optimizer and slot: what TensorFlow's begin with, if that is not zero.
_INITIAL = {
    ("Adagrad", "accumulator"): 0.1,
    ("AdagradDA", "gradient_squared_accumulator"): 0.1,
    ("Ftrl", "accum"): 0.1,
    ("Ftrl", "accumulator"): 0.1,
    ("ProximalAdagrad", "accumulator"): 0.1,
    ("RMSProp", "rms"): 1.0,
}
# What a slot of an optimizer that is not known is called.
UNKNOWN = "slot"
_NAMES = {name for name, _ in _OF_TRAIN}
# Those that all come together, by optimizer; one may have several such sets.
_WHOLE = [(name, frozenset(slots)) for (name, _), slots in _OF_TRAIN.items()] + [
    ("Adadelta", frozenset({"accum_grad", "accum_var"})),
    ("Adadelta", frozenset({"accumulated_grad", "accumulated_delta_var"})),
    ("AdamW", frozenset({"m", "v"})),
    ("Adamax", frozenset({"m", "v"})),
    ("Adamax", frozenset({"m", "u"})),
    ("Ftrl", frozenset({"accumulator", "linear"})),
    ("Nadam", frozenset({"m", "v"})),
]
_KERAS = "Adam|Adamax|Adagrad|Adadelta|Ftrl|Nadam|RMSprop|SGD|AdamW|Lion|Adafactor"


class SlotName(NamedTuple):
    """A slot, and the pattern of its tensor's name with {} for the table's."""

    optimizer: str
    slot: str
    pattern: str


def slots_of(table: str, tensors: Iterable[str]) -> List[SlotName]:
    """The slots of a table among the tensors of its shape.

    Args:
      table: Name of its tensor.
      tensors: Names of tensors that may be slots.
    """
    below: Dict[str, List[int]] = {}
    found = []
    matches = _Matches(table)
    for name in sorted(tensors):
        match = matches.of_train(name)
        if match is not None:
            below.setdefault(match[1], []).append(int(match[2] or 0))
        for matched in matches.of_keras(name):
            start = name.index(table, matched.start(2) + len(matched[2]))
            pattern = name[:start] + "{}" + name[start + len(table) :]
            found.append(SlotName(matched[2], matched[3], pattern))
    for optimizer, numbers in below.items():
        slots = _OF_TRAIN.get((optimizer, len(numbers)), ())
        if sorted(numbers) == list(range(len(slots))):
            found.extend(_named_by_train(optimizer, slots))
    return sorted(found)


def named_like_slots(table: str, tensors: Iterable[str]) -> List[str]:
    """Those of the tensors that are called like slots of a table, whether or not they are whole."""
    matches = _Matches(table)
    return sorted(name for name in tensors if matches.of_train(name) or matches.of_keras(name))


def lacking_slots(optimizer: str, slots: Iterable[str]) -> List[str]:
    """Other slots that an optimizer has; none if these are all, or if it is not known."""
    there = frozenset(slots)
    known = [one for name, one in _WHOLE if name == optimizer]
    more = [sorted(one - there) for one in known if there < one]
    return [] if there in known or not more else min(more, key=len)


class _Matches:
    """How a table's slots are called."""

    def __init__(self, table: str) -> None:
        escaped = re.escape(table)
        self._of_train = re.compile(escaped + r"/([A-Za-z]+)(?:_([1-9]))?\Z")
        self._of_keras = [
            re.compile(r"(?:(.+)/)?({})/{}/([a-z_]+)\Z".format(_KERAS, escaped)),
            re.compile(r"(?:(.+)/)?({})/([a-z_]+)/{}\Z".format(_KERAS, escaped)),
        ]

    def of_train(self, name: str) -> Optional[Match[str]]:
        """If an optimizer of `tf.train` calls a slot so: its name, and which slot it is."""
        match = self._of_train.match(name)
        return match if match is not None and match[1] in _NAMES else None

    def of_keras(self, name: str) -> List[Match[str]]:
        """If one of Keras' does: what is before, its name, and that of the slot."""
        return [match for match in (one.match(name) for one in self._of_keras) if match]


def initial_value(optimizer: str, slot: str) -> float:
    """What a slot of a new row begins with, unless its optimizer was told another value."""
    return _INITIAL.get((optimizer, slot), 0.0)


def pattern_of(optimizer: str, slot: str, all_slots: Iterable[str]) -> str:
    """The pattern of a slot that comes from no checkpoint: as `tf.train` names it if it has such.

    Args:
      optimizer: Name of the optimizer.
      slot: Name of the slot.
      all_slots: Names of all slots that the optimizer has for the table.
    """
    if slot == UNKNOWN:
        return "{}/" + optimizer
    known = set(all_slots)
    for (name, _), slots in _OF_TRAIN.items():
        if name == optimizer and set(slots) == known:
            return _named_by_train(name, slots)[slots.index(slot)].pattern
    return "{}/{{}}/{}".format(optimizer, slot)


def _named_by_train(optimizer: str, slots: Tuple[str, ...]) -> List[SlotName]:
    return [
        SlotName(optimizer, slot, "{}/" + optimizer + ("_{}".format(place) if place else ""))
        for place, slot in enumerate(slots)
    ]
