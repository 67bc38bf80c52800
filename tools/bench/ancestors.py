"""What operations of a graph need."""

from __future__ import annotations

from typing import Dict, Iterable

import tensorflow.compat.v1 as tf


def ancestors(operations: Iterable[tf.Operation]) -> Dict[tf.Operation, None]:
    """The operations, and all that must run before them; an ordered set."""
    waiting = list(operations)
    found = dict.fromkeys(waiting)
    while waiting:
        operation = waiting.pop()
        before = [tensor.op for tensor in operation.inputs] + operation.control_inputs
        waiting += [each for each in before if each not in found]
        found.update(dict.fromkeys(before))
    return found
