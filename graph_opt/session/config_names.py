"""What `tf.ConfigProto`, its two parts and `tf.RunOptions` stand for while graph_opt is installed.

Calling one creates an extended message. `isinstance` accepts both extended and stock messages, so
configs created before `install` or through TensorFlow's protobuf modules remain configs.
"""

from __future__ import annotations

from typing import Any

from graph_opt import config as extended
from graph_opt.compat import tf
from graph_opt.config import messages


class _EitherMessage(type):
    """Metaclass of a name that stands for an extended message class and TensorFlow's own."""

    def __init__(cls, name: str, ours: Any, stock: Any) -> None:
        super().__init__(name, (), {})
        cls._ours = ours
        cls._stock = stock

    def __new__(cls, name: str, ours: Any, stock: Any) -> Any:
        return super().__new__(cls, name, (), {"__doc__": ours.__doc__, "__module__": __name__})

    def __call__(cls, **fields: Any) -> Any:
        message = cls._ours()
        given = {name: _extended_part(message, name, part) for name, part in fields.items()}
        return cls._ours(**given)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (cls._ours, cls._stock))

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._ours, name)


def _extended_part(message: Any, name: str, part: Any) -> Any:
    """Converts a stock part of a message to the extended class that its field needs."""
    for stock in (_STOCK_GRAPH_OPTIONS, _STOCK_OPTIMIZER_OPTIONS):
        if isinstance(part, stock):
            return type(getattr(message, name)).FromString(part.SerializeToString())
    return part


_STOCK_GRAPH_OPTIONS = tf.GraphOptions
_STOCK_OPTIMIZER_OPTIONS = tf.OptimizerOptions

ConfigProto: Any = _EitherMessage("ConfigProto", extended.ConfigProto, tf.ConfigProto)
GraphOptions: Any = _EitherMessage("GraphOptions", extended.GraphOptions, tf.GraphOptions)
OptimizerOptions: Any = _EitherMessage(
    "OptimizerOptions", extended.OptimizerOptions, tf.OptimizerOptions
)
RunOptions: Any = _EitherMessage("RunOptions", messages.RunOptions, tf.RunOptions)
