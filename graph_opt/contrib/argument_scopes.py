"""`tf.contrib.framework.arg_scope`: defaults of arguments within a block."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Callable, Dict, Iterator, List, Sequence, TypeVar, Union

_Function = TypeVar("_Function", bound=Callable[..., Any])
Defaults = Dict[Any, Dict[str, Any]]


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.open: List[Defaults] = [{}]


_scopes = _Scopes()


def add_arg_scope(function: _Function) -> _Function:
    """A decorator of functions that take defaults of their arguments from `arg_scope`."""

    @functools.wraps(function)
    def with_defaults(*arguments: Any, **named: Any) -> Any:
        defaults = _scopes.open[-1].get(with_defaults, {})
        return function(*arguments, **dict(defaults, **named))

    with_defaults.takes_arg_scope = True  # type: ignore[attr-defined]
    return with_defaults  # type: ignore[return-value]


def has_arg_scope(function: Any) -> bool:
    """Whether a function has `add_arg_scope`."""
    return hasattr(getattr(function, "func", function), "takes_arg_scope")


@contextlib.contextmanager
def arg_scope(
    list_ops_or_scope: Union[Defaults, Sequence[Callable[..., Any]]], **kwargs: Any
) -> Iterator[Defaults]:
    """Gives arguments of functions another default within a block.

    Args:
      list_ops_or_scope: Functions with `add_arg_scope`; or a scope that this has given before,
        which is entered again.
      **kwargs: The arguments.

    Raises:
      ValueError: A function does not have `add_arg_scope`, or a scope comes with arguments.

    Example:
      >>> with arg_scope([layers.fully_connected], activation_fn=tf.nn.tanh):
      ...     net = layers.fully_connected(net, 16)
    """
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError("arg_scope: a scope that is entered again takes no arguments")
        scope = list_ops_or_scope
    else:
        scope = dict(_scopes.open[-1])
        for function in list_ops_or_scope:
            function = getattr(function, "func", function)
            if not has_arg_scope(function):
                name = getattr(function, "__name__", repr(function))
                raise ValueError("arg_scope: {} is not decorated with add_arg_scope".format(name))
            scope[function] = dict(scope.get(function, {}), **kwargs)
    _scopes.open.append(scope)
    try:
        yield scope
    finally:
        _scopes.open.pop()
