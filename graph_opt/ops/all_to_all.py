"""Messages between ranks: all of Horovod's, or threads of one process."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.ops.library import LIBRARY_PATH, load_library, register_ops
from graph_opt.ops.message_names import GRADIENT_SUFFIX, message_name

DEFAULT_TIMEOUT_SECONDS = 300.0

FindCause = Callable[[int, str], Optional[Tuple[int, str]]]
_FIND_CAUSE = ctypes.CFUNCTYPE(
    *(ctypes.c_int32, ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int32)
)
_callbacks: List[Any] = []


class RankOfGroup(NamedTuple):
    """Which rank sends, and to whom.

    Attributes:
      rank: Its number.
      size: N, the number of ranks.
      group: Name of a group of ranks in this process; "" for the ranks of Horovod.
      timeout_seconds: Longest wait for the other ranks of such a group; 0 for no limit.
    """

    rank: int
    size: int
    group: str = ""
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS


class Received(NamedTuple):
    """What a rank receives.

    Attributes:
      rows: Those from rank 0, 1, ..., one after another.
      splits: int32 [N]. How many rows each rank has sent.
    """

    rows: tf.Tensor
    splits: tf.Tensor


def exchange_all_to_all(tensor: Any, splits: Any, message: str, sender: RankOfGroup) -> Received:
    """Sends rows of a tensor to each rank, and receives theirs.

    Waits for the same message of each other rank. In a session it holds no thread meanwhile. The
    gradient with respect to `tensor` travels back in a message whose name ends with
    `GRADIENT_SUFFIX`.

    Args:
      tensor: [K, ...]. The rows, those for rank 0 first; the other dimensions and the dtype must be
        the same on all ranks.
      splits: int32 [N]. How many rows go to each rank.
      message: Name of the message, and of its node. A rank must not send two of the same name at
        once.
      sender: This rank.

    Returns:
      The rows and splits received. If a rank of a group in this process is cancelled or waits too
      long, or if its ranks disagree on dtype or shape, all calls of the group fail, and all later
      ones, with an error that names the rank and the cause.

    Example:
      >>> rows, splits = exchange_all_to_all(tensor, [1, 2], "rows", RankOfGroup(0, 2))
    """
    received, received_splits = load_library().exchange_all_to_all(
        tensor,
        splits,
        message=message,
        rank=sender.rank,
        size=sender.size,
        group=sender.group,
        timeout_millis=round(sender.timeout_seconds * 1000),
        name=message,
    )
    return Received(received, received_splits)


def use_horovod(library: str) -> None:
    """Lets the messages of Horovod's ranks travel through its core.

    Args:
      library: Path of the library that `horovod.tensorflow` has loaded.

    Raises:
      RuntimeError: It is that of a release with another interface.
    """
    wrong = _functions().graph_opt_use_horovod(library.encode("utf-8"))
    if wrong:
        raise RuntimeError(
            "graph_opt sends messages through the core of Horovod 0.28, and {}: install "
            "horovod==0.28.1".format(wrong.decode("utf-8"))
        )


def find_causes(find: Optional[FindCause]) -> None:
    """Lets messages of Horovod's ranks that have failed say why.

    Args:
      find: Called in a thread of its own with the code and the text of an error; returns those of
        its cause, or None if it knows none. None: from now on, errors are those of Horovod.

    Example:
      >>> find_causes(lambda code, text: (tf.errors.UNKNOWN, "rank 1 has ended"))
    """

    def call(code: int, text: bytes, cause: Any, size: int) -> int:
        try:
            found = None if find is None else find(code, text.decode("utf-8", "replace"))
        except Exception as error:  # nobody would catch it
            tf.logging.error("graph_opt: the cause of '%s' is not known: %s", text, error)
            found = None
        if found is None:
            return 0
        # What is too long must not end within a character.
        fits = found[1].encode("utf-8")[: size - 1].decode("utf-8", "ignore").encode("utf-8")
        ctypes.memmove(cause, fits + b"\0", len(fits) + 1)
        return found[0]

    callback = _FIND_CAUSE() if find is None else _FIND_CAUSE(call)
    _callbacks.append(callback)  # a call may be under way
    _functions().graph_opt_find_causes(callback)


def fail_in_process_group(group: str, rank: int, size: int, error: str) -> None:
    """Fails all calls of a group that wait, and all later ones, with UnknownError.

    So does Horovod. After an AbortedError, a monitored session would try again, forever.

    Args:
      group: Name of the group.
      rank: The rank that the error is about.
      size: Number of ranks.
      error: What follows "rank R" in the error that the others get: "failed: ..." or "has ended".
    """
    function = _functions().graph_opt_fail_in_process_group
    function(group.encode("utf-8"), size, rank, error.encode("utf-8"))


def differentiate_all_to_all(op: Any, *gradients: Any) -> List[Any]:
    """The gradient function of `ExchangeAllToAll`, in the form that `tf.RegisterGradient` expects.

    Args:
      op: The op.
      gradients: The gradients of its outputs; that of the splits is not used.

    Returns:
      The gradient of the tensor, and None for the splits.
    """
    if gradients[0] is None:
        return [None, None]
    sender = RankOfGroup(
        op.get_attr("rank"),
        op.get_attr("size"),
        tf.compat.as_str(op.get_attr("group")),
        op.get_attr("timeout_millis") / 1000,
    )
    message = message_name(tf.compat.as_str(op.get_attr("message")) + GRADIENT_SUFFIX)
    sent_back = exchange_all_to_all(
        tf.convert_to_tensor(gradients[0]), op.outputs[1], message, sender
    )
    return [sent_back.rows, None]


@functools.lru_cache(maxsize=None)
def _functions() -> Any:
    register_ops()
    # CDLL: steps that end here may call Python functions, so Python's lock must be free.
    functions = ctypes.CDLL(LIBRARY_PATH)
    functions.graph_opt_fail_in_process_group.argtypes = [
        *(ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_char_p)
    ]
    functions.graph_opt_fail_in_process_group.restype = None
    functions.graph_opt_use_horovod.argtypes = [ctypes.c_char_p]
    functions.graph_opt_use_horovod.restype = ctypes.c_char_p
    functions.graph_opt_find_causes.argtypes = [_FIND_CAUSE]
    functions.graph_opt_find_causes.restype = None
    return functions
