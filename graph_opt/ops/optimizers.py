"""What the library knows about each optimizer: the specs of `ops_src/optimizers`, as data."""

from __future__ import annotations

import ctypes
import functools
import json
from typing import Any, Dict, Mapping, NamedTuple, Tuple

from graph_opt.ops import library


class StockOp(NamedTuple):
    """A TensorFlow op that updates rows as an optimizer does.

    Attributes:
      op: Its op type for references; prefixed with "Resource", the one for resource variables.
      inputs: What each input is: `table`, `gradient`, `rows`, a slot or a hyperparameter.
    """

    op: str
    inputs: Tuple[str, ...]


class OptimizerSpec(NamedTuple):
    """An optimizer.

    Attributes:
      name: The attribute `optimizer` of ops that update.
      stock_ops: Empty if TensorFlow writes the update as several ops.
      slots: Names and initial values, in the order in which ops take them.
      hyperparameters: Names and usual values, in the order in which ops take them.
      flags: Names, and whether they are set if a stock op does not say.
      moves_every_row: Whether TensorFlow's sparse update moves all rows of a table. A fused update
        moves only the rows that were looked up, so it then gives other results; otherwise the same.
      sums_row: Whether the columns of a row depend on each other. Such updates run on CPUs only.
    """

    name: str
    stock_ops: Tuple[StockOp, ...]
    slots: Mapping[str, float]
    hyperparameters: Mapping[str, float]
    flags: Mapping[str, bool]
    moves_every_row: bool
    sums_row: bool


@functools.lru_cache(maxsize=None)
def optimizer_specs() -> Mapping[str, OptimizerSpec]:
    """All optimizers whose updates can be fused, by name.

    Raises:
      ImportError: The library is missing, or was built for another TensorFlow.

    Example:
      >>> optimizer_specs()["Momentum"].stock_ops[0].inputs
      ('table', 'accumulator', 'learning_rate', 'gradient', 'rows', 'momentum')
    """
    library.register_ops()
    describe = ctypes.CDLL(library.LIBRARY_PATH).graph_opt_optimizer_specs
    describe.restype = ctypes.c_char_p
    specs = [_spec(described) for described in json.loads(describe().decode("utf-8"))]
    return {spec.name: spec for spec in specs}


def default_flags(optimizer: str) -> Tuple[str, ...]:
    """The flags of an optimizer that are set by default.

    Raises:
      ValueError: There is no such optimizer.
    """
    specs = optimizer_specs()
    if optimizer not in specs:
        need = ", ".join(specs)
        raise ValueError("optimizer is '{}'; need one of {}".format(optimizer, need))
    return tuple(name for name, is_set in specs[optimizer].flags.items() if is_set)


def _spec(described: Dict[str, Any]) -> OptimizerSpec:
    def numbers(key: str, value: str) -> Dict[str, float]:
        return {one["name"]: float(one[value]) for one in described[key]}

    return OptimizerSpec(
        name=described["name"],
        stock_ops=tuple(_stock_op(drawn) for drawn in described["stock_ops"]),
        slots=numbers("slots", "initial"),
        hyperparameters=numbers("hyperparameters", "usual"),
        flags={flag["name"]: flag["default"] for flag in described["flags"]},
        moves_every_row=described["moves_every_row"],
        sums_row=described["sums_row"],
    )


def _stock_op(drawn: str) -> StockOp:
    """Parses `Op(one, another)`."""
    op, inputs = drawn.rstrip(")").split("(")
    return StockOp(op, tuple(name.strip() for name in inputs.split(",")))
