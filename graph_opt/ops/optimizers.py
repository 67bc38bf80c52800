"""What the library knows of each optimizer: the specs of `ops_src/optimizers`, as data."""

from __future__ import annotations

import ctypes
import functools
import json
from typing import Any, Dict, Mapping, NamedTuple, Tuple

from graph_opt.ops import library


class StockOp(NamedTuple):
    """An op of TensorFlow's that updates rows as an optimizer does.

    Attributes:
      op: Its type for references; with "Resource" before it, the one for resource variables.
      inputs: What each input is: `table`, `gradient`, `rows`, a slot or a hyperparameter.
    """

    op: str
    inputs: Tuple[str, ...]


class OptimizerSpec(NamedTuple):
    """An optimizer.

    Attributes:
      name: The attribute `optimizer` of ops that update.
      stock_ops: None where TensorFlow writes it as several ops.
      slots: Names and values before training, in the order in which ops take them.
      hyperparameters: Names and usual values, in the order in which ops take them.
      flags: Names, and whether they are set where a stock op does not say.
      moves_every_row: Whether TensorFlow's sparse update moves all rows of a table. The fused one,
        which moves only those looked up, then is another one; else both are the same.
    """

    name: str
    stock_ops: Tuple[StockOp, ...]
    slots: Mapping[str, float]
    hyperparameters: Mapping[str, float]
    flags: Mapping[str, bool]
    moves_every_row: bool


@functools.lru_cache(maxsize=None)
def optimizer_specs() -> Mapping[str, OptimizerSpec]:
    """All optimizers whose updates can be fused, by name.

    Raises:
      ImportError: The library is missing, or was built for another TensorFlow.

    Example:
      >>> optimizer_specs()["Momentum"].stock_ops[0].inputs
      ('table', 'accumulator', 'learning_rate', 'gradient', 'rows', 'momentum')
    """
    library.load_library()
    describe = ctypes.CDLL(library.LIBRARY_PATH).graph_opt_optimizer_specs
    describe.restype = ctypes.c_char_p
    specs = [_spec(described) for described in json.loads(describe().decode("utf-8"))]
    return {spec.name: spec for spec in specs}


def default_flags(optimizer: str) -> Tuple[str, ...]:
    """The flags of an optimizer that are set where nobody says.

    Raises:
      ValueError: There is no such optimizer.
    """
    specs = optimizer_specs()
    if optimizer not in specs:
        need = ", ".join(specs)
        raise ValueError("optimizer is '{}'; need one of {}".format(optimizer, need))
    return tuple(name for name, is_set in specs[optimizer].flags.items() if is_set)


def _spec(described: Dict[str, Any]) -> OptimizerSpec:
    def named(key: str, value: str) -> Dict[str, Any]:
        return {one["name"]: one[value] for one in described[key]}

    return OptimizerSpec(
        name=described["name"],
        stock_ops=tuple(_stock_op(drawn) for drawn in described["stock_ops"]),
        slots=named("slots", "initial"),
        hyperparameters=named("hyperparameters", "usual"),
        flags=named("flags", "default"),
        moves_every_row=described["moves_every_row"],
    )


def _stock_op(drawn: str) -> StockOp:
    """`Op(one, another)` taken apart."""
    op, inputs = drawn.rstrip(")").split("(")
    return StockOp(op, tuple(name.strip() for name in inputs.split(",")))
