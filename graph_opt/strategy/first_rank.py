"""What rank 0 does for all, outside of a model, while the others wait."""

from __future__ import annotations

from typing import Callable, List

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.compat.unwatched_sessions import unwatched_sessions
from graph_opt.sharding.agreement import Agreement
from graph_opt.sharding.transport import Transport


def on_first_rank(work: Callable[[], str], transport: Transport) -> str:
    """What a function returns on rank 0, on all ranks. All ranks must call it.

    Args:
      work: Called on rank 0 only.
      transport: How ranks reach each other.

    Raises:
      Exception: What the function raises, on rank 0.
      RuntimeError: The same on the other ranks.
    """
    if transport.size == 1:
        return work()
    text = ""
    errors: List[Exception] = []
    if transport.rank == 0:
        try:
            text = work()
        except Exception as error:
            errors.append(error)
    with tf.Graph().as_default(), unwatched_sessions() as session_class, session_class() as session:
        agreement = Agreement(transport, ArraySteps(session))
        with agreement.noting():
            for failed in errors:
                raise failed
        agreement.agree()
        return bytes(agreement.gather(text.encode("utf-8"))[0]).decode("utf-8")
