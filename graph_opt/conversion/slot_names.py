"""What the slots of a table are called in checkpoints.

Optimizers of `tf.train` name them TABLE/Adam and TABLE/Adam_1, in the order in which they make
them; Keras' legacy ones Adam/TABLE/m, and its new ones Adam/m/TABLE.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, NamedTuple, Tuple

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
    escaped = re.escape(table)
    of_train = re.compile(escaped + r"/([A-Za-z]+)(?:_([1-9]))?\Z")
    legacy = re.compile(r"(?:(.+)/)?({})/{}/([a-z_]+)\Z".format(_KERAS, escaped))
    keras = re.compile(r"(?:(.+)/)?({})/([a-z_]+)/{}\Z".format(_KERAS, escaped))
    for name in sorted(tensors):
        match = of_train.match(name)
        if match is not None and match[1] in _NAMES:
            below.setdefault(match[1], []).append(int(match[2] or 0))
        for matched in (legacy.match(name), keras.match(name)):
            if matched is not None:
                start = name.index(table, matched.start(2) + len(matched[2]))
                pattern = name[:start] + "{}" + name[start + len(table) :]
                found.append(SlotName(matched[2], matched[3], pattern))
    for optimizer, numbers in below.items():
        slots = _OF_TRAIN.get((optimizer, len(numbers)), ())
        if sorted(numbers) == list(range(len(slots))):
            found.extend(_named_by_train(optimizer, slots))
    return sorted(found)


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
