"""Messages between ranks that are threads of one process."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, List, NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.ops.library import LIBRARY_PATH, load_library, register_ops
from graph_opt.ops.message_names import GRADIENT_SUFFIX, message_name

DEFAULT_TIMEOUT_SECONDS = 300.0


class Received(NamedTuple):
    """What a rank receives.

    Attributes:
      rows: Those from rank 0, 1, ..., one after another.
      splits: int32 [N]. How many rows each rank has sent.
    """

    rows: tf.Tensor
    splits: tf.Tensor


def in_process_all_to_all(
    tensor: Any,
    splits: Any,
    message: str,
    group: str,
    rank: int,
    size: int,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    name: Optional[str] = None,
) -> Received:
    """Sends rows of a tensor to each rank of a group, and receives theirs.

    Waits for the same message of each other rank. In a session it holds no thread meanwhile. The
    gradient with respect to `tensor` travels back in a message whose name ends with
    `GRADIENT_SUFFIX`.

    Args:
      tensor: [K, ...]. The rows, those for rank 0 first; the other dimensions and the dtype must be
        the same on all ranks.
      splits: int32 [N]. How many rows go to each rank.
      message: Name of the message. A rank must not send two of the same name at once.
      group: Name of the group, unique in the process.
      rank: Number of this rank.
      size: N, the number of ranks.
      timeout_seconds: Longest wait for the other ranks; 0 for no limit.
      name: Name of the node.

    Returns:
      The rows and splits received. If a rank is cancelled or waits too long, or if ranks disagree
      on dtype or shape, all calls of the group fail, and all later ones, with an error that names
      the rank and the cause.
    """
    received, received_splits = load_library().in_process_all_to_all(
        tensor,
        splits,
        group=group,
        message=message,
        rank=rank,
        size=size,
        timeout_millis=round(timeout_seconds * 1000),
        name=name,
    )
    return Received(received, received_splits)


def fail_in_process_group(group: str, rank: int, size: int, error: str) -> None:
    """Fails all calls of a group that wait, and all later ones, with UnknownError.

    So does Horovod. After an AbortedError, a monitored session would try again, for ever.

    Args:
      group: Name of the group.
      rank: The rank that the error is about.
      size: Number of ranks.
      error: What follows "rank R" in the error that the others get: "failed: ..." or "has ended".
    """
    function = _functions().graph_opt_fail_in_process_group
    function(group.encode("utf-8"), size, rank, error.encode("utf-8"))


def differentiate_all_to_all(op: Any, *gradients: Any) -> List[Any]:
    """The gradient function of `InProcessAllToAll`, in the form that `tf.RegisterGradient` expects.

    Args:
      op: The op.
      gradients: The gradients of its outputs; that of the splits is not used.

    Returns:
      The gradient of the tensor, and None for the splits.
    """
    if gradients[0] is None:
        return [None, None]
    sent_back = load_library().in_process_all_to_all(
        tf.convert_to_tensor(gradients[0]),
        op.outputs[1],
        group=op.get_attr("group"),
        message=message_name(tf.compat.as_str(op.get_attr("message")) + GRADIENT_SUFFIX),
        rank=op.get_attr("rank"),
        size=op.get_attr("size"),
        timeout_millis=op.get_attr("timeout_millis"),
    )
    return [sent_back[0], None]


@functools.lru_cache(maxsize=None)
def _functions() -> Any:
    register_ops()
    # CDLL: steps that end here may call Python functions, so Python's lock must be free.
    functions = ctypes.CDLL(LIBRARY_PATH)
    functions.graph_opt_fail_in_process_group.argtypes = [
        *(ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_char_p)
    ]
    functions.graph_opt_fail_in_process_group.restype = None
    return functions
