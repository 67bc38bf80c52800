"""Train ops of users' models in which something stands between the gradients and the update."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

from graph_opt.compat import tf
from tests.passes import fused_models as models
from tests.passes.refused_models import ControlFlowV1

Inputs = Dict[str, Any]
Gradients = List[Tuple[Any, Any]]
# (inputs, optimizer, whether variables are resources) -> (loss, train op)
Model = Callable[[Inputs, Any, bool], Tuple[Any, Any]]

MODELS: Dict[str, Model] = {}


def changing(change: Callable[[Gradients], Gradients]) -> Callable[[Gradients], Gradients]:
    """Registers a model of three lookups whose gradients are changed before they are applied."""

    def model(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
        loss = loss_of(inputs, resource)
        gradients = optimizer.compute_gradients(loss)
        return loss, optimizer.apply_gradients(change(gradients))

    MODELS[change.__name__] = model
    return change


def whole(model: Model) -> Model:
    """Registers a model."""
    MODELS[model.__name__] = model
    return model


def loss_of(inputs: Inputs, resource: bool, parts: int = 1) -> Any:
    """A loss over a combined lookup, one of a partitioned table, and one with a row for each id."""
    ids, more = (tf.sparse.from_dense(inputs[name]) for name in ("ids", "more"))
    rows = tf.nn.embedding_lookup(models.table("rows", 3, resource), inputs["more"])
    pooled = [
        tf.nn.safe_embedding_lookup_sparse(models.table("one", 4, resource), ids),
        tf.nn.embedding_lookup_sparse(models.table("parted", 5, resource, 2), more, None),
        tf.reduce_sum(rows, axis=1),
    ]
    return models.loss_of(pooled, inputs) * 10.0


def scaled(gradient: Any, factor: Any) -> Any:
    """A gradient times a number."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor


def parts_of(inputs: Inputs, count: int) -> List[Inputs]:
    """The batch in equal parts."""
    split = {name: tf.split(tensor, count) for name, tensor in inputs.items()}
    return [{name: parts[i] for name, parts in split.items()} for i in range(count)]


@changing
def clipped_by_global_norm(gradients: Gradients) -> Gradients:
    values, variables = zip(*gradients)
    return list(zip(tf.clip_by_global_norm(values, 0.05)[0], variables))


@changing
def clipped_by_norm(gradients: Gradients) -> Gradients:
    return [(tf.clip_by_norm(gradient, 0.03), variable) for gradient, variable in gradients]


@changing
def clipped_by_value(gradients: Gradients) -> Gradients:
    return [(tf.clip_by_value(gradient, -0.01, 0.01), var) for gradient, var in gradients]


@changing
def multiplied_by_variable(gradients: Gradients) -> Gradients:
    factors = {"one": 0.5, "rows": 2.0}
    return [(scaled(g, factors.get(v.op.name, 1.0)), v) for g, v in gradients]


@changing
def some_clipped_and_some_not(gradients: Gradients) -> Gradients:
    return [(tf.clip_by_norm(g, 0.03) if v.op.name == "one" else g, v) for g, v in gradients]


@whole
def scaled_loss(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
    """Loss scaling: the loss is large while gradients are computed, and they are scaled back."""
    loss = loss_of(inputs, resource)
    gradients = optimizer.compute_gradients(loss * 128.0)
    return loss, optimizer.apply_gradients([(scaled(g, 1 / 128), v) for g, v in gradients])


@whole
def colocated(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
    loss = loss_of(inputs, resource)
    gradients = optimizer.compute_gradients(loss, colocate_gradients_with_ops=True)
    values, variables = zip(*gradients)
    clipped, _ = tf.clip_by_global_norm(values, 0.05)
    return loss, optimizer.apply_gradients(zip(clipped, variables))


def towers(count: int, average: Callable[[List[Any]], Any]) -> Model:
    """A model whose batch is split among towers that share variables."""

    def model(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
        losses, gradients = [], []
        for number, part in enumerate(parts_of(inputs, count)):
            with tf.variable_scope("", reuse=number > 0 or None), tf.name_scope("tower"):
                losses.append(loss_of(part, resource))
                gradients.append(optimizer.compute_gradients(losses[-1]))
        averaged = [(average([g for g, _ in each]), each[0][1]) for each in zip(*gradients)]
        return tf.add_n(losses), optimizer.apply_gradients(averaged)

    return model


def slices_over(gradients: List[Any]) -> Any:
    """Joined and divided by their number, dense ones as in TensorFlow's multi-tower tutorials."""
    if not isinstance(gradients[0], tf.IndexedSlices):
        return tf.reduce_mean(tf.concat([tf.expand_dims(g, 0) for g in gradients], 0), 0)
    values = tf.concat([gradient.values for gradient in gradients], 0)
    indices = tf.concat([gradient.indices for gradient in gradients], 0)
    return tf.IndexedSlices(tf.truediv(values, float(len(gradients))), indices)


def slices_divided_first(gradients: List[Any]) -> Any:
    """Each tower's share, then joined."""
    return slices_summed([scaled(gradient, 1 / len(gradients)) for gradient in gradients])


def slices_summed(gradients: List[Any]) -> Any:
    """Summed: joined, if sparse."""
    if not isinstance(gradients[0], tf.IndexedSlices):
        return tf.add_n(gradients)
    values = tf.concat([gradient.values for gradient in gradients], 0)
    return tf.IndexedSlices(values, tf.concat([gradient.indices for gradient in gradients], 0))


MODELS["two_towers"] = towers(2, slices_over)
MODELS["two_towers_divided_first"] = towers(2, slices_divided_first)
MODELS["four_towers_summed"] = towers(4, slices_summed)


def dense_averages(gradients: List[Any]) -> Any:
    """As in TensorFlow's multi-tower tutorial: stacked, which makes slices as large as tables."""
    stacked = tf.concat([tf.expand_dims(gradient, 0) for gradient in gradients], axis=0)
    return tf.reduce_mean(stacked, 0)


def dense_stacks(gradients: List[Any]) -> Any:
    """The same with less to write, and finite."""
    return tf.debugging.check_numerics(tf.reduce_mean(tf.stack(gradients), axis=0), "gradient")


def dense_sums_divided(gradients: List[Any]) -> Any:
    """A sum over towers, divided as a tensor."""
    return tf.add_n(gradients) / float(len(gradients))


def dense_averages_of_halves(gradients: List[Any]) -> Any:
    """Each tower's share as a tensor, then summed with signs of all kinds."""
    first, *others = [tf.multiply(0.5, gradient) for gradient in gradients]
    for other in others:
        first = -(-first - other)
    return first


MODELS["two_towers_stacked"] = towers(2, dense_averages)
MODELS["four_towers_stacked"] = towers(4, dense_stacks)
MODELS["four_towers_divided_as_tensors"] = towers(4, dense_sums_divided)
MODELS["two_towers_halved_as_tensors"] = towers(2, dense_averages_of_halves)


def as_tensors(gradients: Gradients) -> Gradients:
    """The gradients as large as the variables."""
    return [(tf.convert_to_tensor(gradient), variable) for gradient, variable in gradients]


@changing
def dense_and_clipped_by_global_norm(gradients: Gradients) -> Gradients:
    return clipped_by_global_norm(as_tensors(gradients))


@changing
def dense_and_clipped_by_norm(gradients: Gradients) -> Gradients:
    return clipped_by_norm(as_tensors(gradients))


@changing
def dense_and_clipped_by_value(gradients: Gradients) -> Gradients:
    return clipped_by_value(as_tensors(gradients))


@changing
def dense_and_scaled_by_row(gradients: Gradients) -> Gradients:
    factors = [tf.linspace(0.5, 1.5, variable.shape[-1]) for _, variable in gradients]
    return [(g * by, v) for (g, v), by in zip(as_tensors(gradients), factors)]


@whole
def towers_clipped_together(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
    """Averages over towers, then the norm of all of them; the norm is fetched, too."""

    class Clipping:
        def compute_gradients(self, loss: Any) -> Gradients:
            return optimizer.compute_gradients(loss)

        def apply_gradients(self, gradients: Gradients) -> Any:
            values, variables = zip(*gradients)
            clipped, norm = tf.clip_by_global_norm(values, 0.05)
            self.norm = norm
            return optimizer.apply_gradients(zip(clipped, variables))

    clipping = Clipping()
    loss, step = towers(2, dense_averages)(inputs, clipping, resource)
    return loss + 0.0 * clipping.norm, step


@whole
def slices_applied_if_finite(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
    """Slices that become as large as their tables only to see whether they are finite."""
    loss = loss_of(inputs, resource)
    gradients = optimizer.compute_gradients(loss)
    tensors = as_tensors(gradients)
    finite = [tf.reduce_all(tf.is_finite(gradient)) for gradient, _ in tensors]
    norm = tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(gradient)) for gradient, _ in tensors]))
    with ControlFlowV1(), tf.control_dependencies([norm]):
        applied = tf.cond(
            tf.reduce_all(finite), lambda: optimizer.apply_gradients(gradients), tf.no_op
        )
    return loss + 0.0 * norm, applied


@whole
def dense_and_applied_if_finite(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
    """Loss scaling: scaled back as tensors, and applied where all of them are finite."""
    loss = loss_of(inputs, resource)
    gradients = [(tf.multiply(g, 0.125), v) for g, v in optimizer.compute_gradients(loss * 8.0)]
    finite = [tf.reduce_all(tf.is_finite(gradient)) for gradient, _ in gradients]
    with ControlFlowV1():
        applied = tf.cond(
            tf.reduce_all(finite), lambda: optimizer.apply_gradients(gradients), tf.no_op
        )
    return loss, applied


@whole
def two_losses_of_one_table(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
    """A table with lookups of two kinds."""
    table = models.table("shared", 4, resource)
    other = models.table("other", 3, resource)
    ids = tf.sparse.from_dense(inputs["ids"])
    pooled = [
        tf.nn.safe_embedding_lookup_sparse(table, ids),
        tf.nn.embedding_lookup(table, inputs["one"]),
        tf.nn.safe_embedding_lookup_sparse(other, ids),
    ]
    loss = models.loss_of(pooled, inputs)
    return loss, optimizer.minimize(loss)


@whole
def a_second_lookup_refused(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
    """A table of which one lookup clips its rows."""
    table = models.table("shared", 4, resource)
    pooled = [
        tf.nn.safe_embedding_lookup_sparse(table, tf.sparse.from_dense(inputs["ids"])),
        tf.nn.embedding_lookup(table, inputs["one"], max_norm=1.0),
    ]
    loss = models.loss_of(pooled, inputs)
    return loss, optimizer.minimize(loss)


@whole
def only_lookups_refused(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
    """Tables whose lookups all clip their rows."""
    pooled = [
        tf.nn.embedding_lookup(models.table(name, 4, resource), inputs["one"], max_norm=1.0)
        for name in ("first", "second")
    ]
    loss = models.loss_of(pooled, inputs)
    return loss, optimizer.minimize(loss)


@whole
def applied_if_finite(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
    """Gradients that are not applied where their norm is too large."""
    loss = loss_of(inputs, resource)
    gradients = optimizer.compute_gradients(loss)
    norm = tf.global_norm([gradient for gradient, _ in gradients])
    with ControlFlowV1():
        applied = tf.cond(norm < 5.0, lambda: optimizer.apply_gradients(gradients), tf.no_op)
    return loss, applied
