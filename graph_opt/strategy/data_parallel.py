"""Training on all ranks alike: optimizers apply the average of all ranks' gradients."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Iterable, Iterator, List, Optional, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.optimizer_calls import Pairs, gradients_go_through
from graph_opt.compat.table_training import is_dynamic_table
from graph_opt.reporting.stderr import say_for_all_ranks
from graph_opt.sharding.divided_gradients import divided_by
from graph_opt.sharding.horovod_transport import HorovodTransport, horovod
from graph_opt.sharding.own_rows import without_own_rows
from graph_opt.sharding.reducing_optimizers import is_reduced_elsewhere, note_reduced
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.transport_in_use import transport_in_use
from graph_opt.strategy.data_parallel_graph import averages_in, note_data_parallel
from graph_opt.strategy.reduced_gradients import averaged, is_reduced, operation_of

_WRAPPER = "DistributedOptimizer"


class _Scopes:
    """How many scopes are open in the process, and how to undo what the first one changed."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.open = 0
        self.undo: List[Callable[[], None]] = []
        self.has_said = False


_scopes = _Scopes()


@contextlib.contextmanager
def data_parallel() -> Iterator[None]:
    """In this block, optimizers of `tf.train` apply gradients that are averaged over ranks.

    Gradients that the script has reduced itself, by Horovod's functions or its
    `DistributedOptimizer`, are left as they are. With one rank, nothing changes.
    """
    begin()
    try:
        yield
    finally:
        end()


def begin() -> None:
    """Begins what `data_parallel` does in a block."""
    with _scopes.lock:
        _scopes.open += 1
        if _scopes.open > 1:
            return
        _scopes.undo.append(gradients_go_through(_computed, _applied))
        if isinstance(transport_in_use(), HorovodTransport):
            _scopes.undo.append(_note_wrapped(horovod()))


def end() -> None:
    """Ends what `begin` began."""
    with _scopes.lock:
        _scopes.open -= 1
        while _scopes.open == 0 and _scopes.undo:
            _scopes.undo.pop()()


def _computed(optimizer: Any, pairs: Iterable[Tuple[Any, Any]]) -> Pairs:
    """Gradients are reduced before scripts clip them, so that all ranks clip alike."""
    transport = transport_in_use()
    if transport.size == 1 or is_reduced_elsewhere(optimizer) or tf.executing_eagerly():
        return list(pairs)
    return _reduced(pairs, transport, are_new=True)


def _applied(optimizer: Any, pairs: Iterable[Tuple[Any, Any]]) -> Pairs:
    """Scripts may compute gradients by other means."""
    transport = transport_in_use()
    if transport.size == 1:
        return list(pairs)
    eager = tf.executing_eagerly()
    reduced = (
        list(pairs)
        if is_reduced_elsewhere(optimizer)
        else _reduced(pairs, transport, are_new=eager)
    )
    if not eager:
        operations = [operation_of(gradient) for gradient, _ in reduced if gradient is not None]
        note_data_parallel(tf.get_default_graph(), transport, operations)
    return reduced


def _reduced(pairs: Iterable[Tuple[Any, Any]], transport: Transport, are_new: bool) -> Pairs:
    """Nobody can have reduced new gradients, only what they are computed from."""
    given = list(pairs)
    shared = {id(one) for one in without_own_rows([variable for _, variable in given])}
    for _, variable in given:
        if id(variable) in shared and is_dynamic_table(variable):
            raise _of_one_rank(variable, transport.size)
    _say_once(transport.size)
    return [
        (_reduced_one(gradient, variable, id(variable) in shared, transport, are_new), variable)
        for gradient, variable in given
    ]


def _reduced_one(
    gradient: Optional[Any], variable: Any, is_shared: bool, transport: Transport, is_new: bool
) -> Any:
    if gradient is None:
        return None
    averages: Set[Any] = set()
    if not tf.executing_eagerly():
        averages = averages_in(tf.get_default_graph())
    if not is_new and is_reduced(gradient, averages):
        return gradient
    with tf.name_scope("average_gradients"):
        if not is_shared:
            average = divided_by(gradient, transport.size)  # Already the sum over all ranks.
            if not tf.executing_eagerly():
                averages.add(operation_of(average))
            return average
        return averaged(gradient, variable, transport)


def _of_one_rank(table: Any, ranks: int) -> NotImplementedError:
    return NotImplementedError(
        "EmbeddingVariable '{}' cannot be trained by {} ranks: each would have rows for the keys "
        "of its own batches only. Use columns with hash buckets (the zoo's scripts without --ev), "
        "or sok.DynamicVariable, whose rows are sharded across ranks by key".format(
            table.name.split(":")[0], ranks
        )
    )


def _note_wrapped(module: Any) -> Callable[[], None]:
    stock = getattr(module, _WRAPPER)

    def wrap(optimizer: Any, *arguments: Any, **named: Any) -> Any:
        # Horovod's would do the same, but TensorFlow 2's `cond` hides its messages, under names
        # that differ where only one rank fetches summaries.
        if isinstance(optimizer, tf.train.Optimizer) and not (arguments or named):
            return optimizer
        note_reduced(optimizer)
        return stock(optimizer, *arguments, **named)

    setattr(module, _WRAPPER, wrap)
    return lambda: setattr(module, _WRAPPER, stock)


def _say_once(ranks: int) -> None:
    if not _scopes.has_said:
        _scopes.has_said = True
        say_for_all_ranks(
            "gradients are averaged over {} ranks; the learning rate stays as the script has it "
            "(DeepRec multiplies it by the number of ranks)".format(ranks)
        )
