"""Splits a user's exception classes into error codes, kept in the graph, and other classes."""

from __future__ import annotations

from typing import Any, Iterable, List, Tuple, Type

from graph_opt.compat import tf

_FIRST_CODE = tf.errors.CANCELLED
_LAST_CODE = tf.errors.UNAUTHENTICATED
_CODES = {
    tf.errors.exception_type_from_error_code(code): code
    for code in range(_FIRST_CODE, _LAST_CODE + 1)
}


def split_exception_types(
    given: Any, option: str
) -> Tuple[Tuple[int, ...], Tuple[Type[BaseException], ...]]:
    """Separates TensorFlow's error classes from other exception classes.

    Args:
      given: One class or code, or several: classes of `tf.errors`, their integer codes (such as
        `tf.errors.OUT_OF_RANGE`), or any exception class of Python.
      option: Name of the option, for the message.

    Returns:
      Error codes (`tf.errors.OpError` itself gives all of them), and the other classes.

    Raises:
      tf.errors.InvalidArgumentError: one of them is something else.
    """
    codes: List[int] = []
    types: List[Type[BaseException]] = []
    for item in _listed(given):
        if isinstance(item, int) and _FIRST_CODE <= item <= _LAST_CODE:
            codes.append(item)
        elif not isinstance(item, type) or not issubclass(item, BaseException):
            raise tf.errors.InvalidArgumentError(
                None, None, "{}: {!r} is no exception class and no error code".format(option, item)
            )
        elif item is tf.errors.OpError:
            codes.extend(range(_FIRST_CODE, _LAST_CODE + 1))
        elif item in _CODES:
            codes.append(_CODES[item])
        else:
            types.append(item)
    return tuple(sorted(set(codes))), tuple(types)


def _listed(given: Any) -> Iterable[Any]:
    if given is None:
        return ()
    return given if isinstance(given, (tuple, list, set, frozenset)) else (given,)
