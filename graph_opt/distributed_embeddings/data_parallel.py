"""What ranks share beside sharded tables: averages of its gradients, and its first values."""

from __future__ import annotations

import functools
from typing import Any, Dict, Iterable, List, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.keras_optimizers import calls_of_eager_fit
from graph_opt.distributed_embeddings.reduced_gradients import reduced_gradients
from graph_opt.sharding.horovod_transport import HorovodTransport, horovod
from graph_opt.sharding.own_rows import without_own_rows
from graph_opt.sharding.reducing_optimizers import note_reduced
from graph_opt.sharding.transport import AVERAGE, SUM, Transport, check_root
from graph_opt.sharding.transport_in_use import transport_or_init

# Of Horovod's functions. Gradients are always made dense, and one message is sent for a dtype.
_WITHOUT_EFFECT = frozenset(
    ["device_dense", "device_sparse", "sparse_as_dense", "use_locking", "scale_local_gradients"]
)
_OP_NAMES = {AVERAGE: "Average", SUM: "Sum"}


@tf.autograph.experimental.do_not_convert
def broadcast_variables(model_vars: Iterable[Any], root_rank: int = 0) -> Optional[Any]:
    """Gives all ranks the values that one has; parts of sharded tables and their slots stay.

    Args:
      model_vars: Variables, the same on all ranks.
      root_rank: The rank whose values the others take.

    Returns:
      In graphs the op.

    Raises:
      ValueError: There is no such rank.

    Example:
      >>> broadcast_variables(model.variables, root_rank=0)
    """
    transport = transport_or_init()
    check_root(root_rank, transport.size)
    shared = without_own_rows(model_vars)
    if transport.size == 1 or not shared:
        return None if tf.executing_eagerly() else tf.no_op()
    if isinstance(transport, HorovodTransport):
        return horovod().broadcast_variables(shared, root_rank)
    name = transport.message_name("graph_opt_broadcast")
    assigned = [
        variable.assign(transport.broadcast(variable, root_rank, "{}_{}".format(name, place)))
        for place, variable in enumerate(shared)
    ]
    return None if tf.executing_eagerly() else tf.group(*[one.op for one in assigned])


@tf.autograph.experimental.do_not_convert
def DistributedGradientTape(  # noqa: N802 (distributed-embeddings' name)
    gradtape: Any, op: Any = None, **horovod_arguments: Any
) -> Any:
    """A tape whose gradients are those of all ranks: averages, for sharded tables as well.

    Args:
      gradtape: A `tf.GradientTape`.
      op: None, `average` or `hvd.Average`; `sum` or `hvd.Sum`.
      **horovod_arguments: Others of `hvd.DistributedGradientTape`, which is then used:
        `compression`, `groups` and so on. All but gradients of sharded tables are made dense.

    Returns:
      A tape of the same class, with the same records.

    Raises:
      ValueError: There is no such operation, or only Horovod has such an argument.

    Example:
      >>> with tf.GradientTape() as tape:
      ...     loss = model(batch)
      >>> tape = DistributedGradientTape(tape)
      >>> gradients = tape.gradient(loss, model.trainable_variables)
    """
    transport = transport_or_init()
    operation = _operation(op)
    if transport.size == 1:
        return gradtape
    asked = _asked_of_horovod(transport, operation, horovod_arguments)
    if asked:
        return horovod().DistributedGradientTape(gradtape, **asked)

    class Reducing(gradtape.__class__):
        @tf.autograph.experimental.do_not_convert
        def gradient(self, target: Any, sources: Any, *arguments: Any, **named: Any) -> Any:
            named.pop("use_generic_names", None)  # Horovod's; names are always the same on ranks
            gradients = super().gradient(target, sources, *arguments, **named)
            flat, variables = tf.nest.flatten(gradients), tf.nest.flatten(sources)
            reduced = reduced_gradients(flat, variables, transport, operation)
            return tf.nest.pack_sequence_as(sources, reduced)

    Reducing.__name__ = gradtape.__class__.__name__
    tape = Reducing.__new__(Reducing)
    tape.__dict__ = gradtape.__dict__
    return tape


@tf.autograph.experimental.do_not_convert
def DistributedOptimizer(  # noqa: N802 (distributed-embeddings' name)
    optimizer: Any, name: Optional[str] = None, op: Any = None, **horovod_arguments: Any
) -> Any:
    """An optimizer that updates with the gradients of all ranks: averages, also of sharded tables.

    `minimize`, `compute_gradients`, `get_gradients` and so `model.fit` give these gradients.
    `apply_gradients` takes gradients as they are: get them from a `DistributedGradientTape`.

    Args:
      optimizer: Of `tf.train` or Keras, new or legacy; without state yet.
      name: Of the optimizer; its own by default.
      op: None, `average` or `hvd.Average`; `sum` or `hvd.Sum`.
      **horovod_arguments: Others of `hvd.DistributedOptimizer`, which is then used:
        `backward_passes_per_step`, `compression` and so on.

    Raises:
      ValueError: There is no such operation, or only Horovod has such an argument.

    Example:
      >>> train_op = DistributedOptimizer(tf.train.AdagradOptimizer(0.01)).minimize(loss)
    """
    transport = transport_or_init()
    operation = _operation(op)
    if transport.size == 1:
        return optimizer
    asked = _asked_of_horovod(transport, operation, horovod_arguments)
    if asked:
        return horovod().DistributedOptimizer(optimizer, name, **asked)
    reduce = functools.partial(_reduced_pairs, transport=transport, operation=operation)
    if isinstance(optimizer, tf.train.Optimizer):
        return _OfTrain(optimizer, name, reduce)
    return _of_keras(optimizer, name, reduce)


class _OfTrain(tf.train.Optimizer):
    """An optimizer of `tf.train`; all but the gradients is that of the one inside."""

    def __init__(self, optimizer: Any, name: Optional[str], reduce: Any) -> None:
        super().__init__(False, name or "Distributed" + type(optimizer).__name__)
        note_reduced(optimizer)
        self._optimizer = optimizer
        self._reduce = reduce

    def compute_gradients(self, *arguments: Any, **named: Any) -> List[Tuple[Any, Any]]:
        """See `tf.train.Optimizer`."""
        return self._reduce(self._optimizer.compute_gradients(*arguments, **named))

    def apply_gradients(self, *arguments: Any, **named: Any) -> Any:
        """See `tf.train.Optimizer`."""
        return self._optimizer.apply_gradients(*arguments, **named)

    def get_slot(self, *arguments: Any, **named: Any) -> Any:
        """See `tf.train.Optimizer`."""
        return self._optimizer.get_slot(*arguments, **named)

    def get_slot_names(self, *arguments: Any, **named: Any) -> Any:
        """See `tf.train.Optimizer`."""
        return self._optimizer.get_slot_names(*arguments, **named)

    def variables(self, *arguments: Any, **named: Any) -> Any:
        """See `tf.train.Optimizer`."""
        return self._optimizer.variables(*arguments, **named)


def _of_keras(optimizer: Any, name: Optional[str], reduce: Any) -> Any:
    """An optimizer of the same class name, so that models are saved with the one of Keras."""

    class Reducing(optimizer.__class__):
        def get_gradients(self, loss: Any, params: Any) -> Any:
            gradients = super().get_gradients(loss, params)
            return [gradient for gradient, _ in reduce(zip(gradients, params))]

        def apply_gradients(self, grads_and_vars: Any, *arguments: Any, **named: Any) -> Any:
            pairs = list(grads_and_vars)
            if calls_of_eager_fit():
                pairs = reduce(pairs)
            return super().apply_gradients(pairs, *arguments, **named)

    def reducing(compute: str) -> Any:
        def computed(self: Any, *arguments: Any, **named: Any) -> List[Tuple[Any, Any]]:
            return reduce(getattr(super(Reducing, self), compute)(*arguments, **named))

        return computed

    # What `minimize` calls: in the new optimizers the first, in the legacy ones the second.
    for compute in ("compute_gradients", "_compute_gradients"):
        if hasattr(optimizer, compute):
            setattr(Reducing, compute, reducing(compute))
    Reducing.__name__ = optimizer.__class__.__name__
    config = optimizer.get_config()
    return Reducing.from_config(config if name is None else dict(config, name=name))


def _reduced_pairs(pairs: Iterable[Any], transport: Transport, operation: str) -> List[Any]:
    given = list(pairs)
    variables = [variable for _, variable in given]
    gradients = reduced_gradients(
        [gradient for gradient, _ in given], variables, transport, operation
    )
    return list(zip(gradients, variables))


def _operation(op: Any) -> str:
    if op is None:
        return AVERAGE
    for operation, name in _OP_NAMES.items():
        if op == operation or (not isinstance(op, str) and op == getattr(horovod(), name)):
            return operation
    raise ValueError(
        "op is {!r}; gradients of sharded tables are sums: choose 'average' or 'sum' (hvd.Average "
        "or hvd.Sum)".format(op)
    )


def _asked_of_horovod(
    transport: Transport, operation: str, arguments: Dict[str, Any]
) -> Dict[str, Any]:
    """What to call Horovod's own function with; nothing if none of the arguments needs it."""
    asked = {name: one for name, one in arguments.items() if name not in _WITHOUT_EFFECT}
    if not asked:
        return {}
    if not isinstance(transport, HorovodTransport):
        raise ValueError("only Horovod has {}".format(", ".join(sorted(asked))))
    return dict(sparse_as_dense=True, op=getattr(horovod(), _OP_NAMES[operation]), **asked)
