"""Arguments of variables, which `help` and `inspect` do not find behind TensorFlow's metaclass."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=Any)


def with_signature(variable_class: _Class) -> _Class:
    """Gives a class of variables the signature of its `__init__`; a decorator.

    Example:
      >>> @with_signature
      ... class Table(tf.Variable):
      ...     def __init__(self, dimension): ...
      >>> inspect.signature(Table)
      <Signature (dimension)>
    """
    signature = inspect.signature(variable_class.__init__)
    arguments = list(signature.parameters.values())[1:]
    variable_class.__signature__ = signature.replace(
        parameters=arguments, return_annotation=inspect.Signature.empty
    )
    return variable_class
