"""Train ops of users' models that accumulate gradients before they apply them."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence, Tuple

from graph_opt.compat import tf
from tests.passes.fusion.changed_gradients import (
    MODELS,
    Inputs,
    Model,
    as_tensors,
    loss_of,
    scaled,
    whole,
)
from tests.passes.refused_models import ControlFlowV1


@whole
def sparse_accumulators(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
    """Conditional accumulators, of which each step takes the mean of two gradients."""
    loss = loss_of(inputs, resource)
    puts, means = [], []
    for gradient, variable in optimizer.compute_gradients(loss):
        if isinstance(gradient, tf.IndexedSlices):
            held = tf.SparseConditionalAccumulator(tf.float32, variable.shape)
            step = tf.int64.max  # Accumulators drop gradients of steps before their own.
            puts.append(held.apply_indexed_slices_grad(gradient, step))
            puts.append(held.apply_indexed_slices_grad(scaled(gradient, 0.5), step))
            means.append((held.take_indexed_slices_grad(2), variable))
        else:
            means.append((gradient, variable))
    return loss, tf.group(*puts, optimizer.apply_gradients(means))


@whole
def applied_every_other_step(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
    """Gradients summed in accumulators, and applied in a tf.cond."""
    loss = loss_of(inputs, resource)
    step = tf.train.get_or_create_global_step()
    puts, holders = [], []
    for gradient, variable in optimizer.compute_gradients(loss):
        if isinstance(gradient, tf.IndexedSlices):
            held = tf.SparseConditionalAccumulator(tf.float32, variable.shape)
            puts.append(held.apply_indexed_slices_grad(gradient, local_step=step))
        else:
            held = tf.ConditionalAccumulator(tf.float32, variable.shape)
            puts.append(held.apply_grad(gradient, local_step=step))
        holders.append((held, variable))

    def applied() -> Any:
        means = []
        for held, variable in holders:
            sparse = isinstance(held, tf.SparseConditionalAccumulator)
            mean = held.take_indexed_slices_grad(2) if sparse else held.take_grad(2)
            means.append((mean, variable))
        return optimizer.apply_gradients(means)

    with tf.control_dependencies(puts):
        count = tf.assign_add(step, 1)
    with ControlFlowV1(), tf.control_dependencies([count]):
        return loss, tf.cond(tf.equal(count % 2, 0), applied, tf.no_op)


def accumulators(variables: Sequence[Any], resource: bool) -> List[Any]:
    """Variables for the sums of their gradients."""
    return [
        tf.get_variable(
            "accumulated/" + one.op.name,
            one.shape,
            initializer=tf.zeros_initializer(),
            trainable=False,
            use_resource=resource,
        )
        for one in variables
    ]


def accumulated(value: Callable[[Any], Any]) -> Model:
    """Gradients of two steps summed in variables, their mean clipped, applied, and set to 0."""

    def model(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
        loss = loss_of(inputs, resource)
        step = tf.train.get_or_create_global_step()
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        held = accumulators(variables, resource)
        adds = [sums.assign_add(gradient) for sums, gradient in zip(held, gradients)]
        with tf.control_dependencies(adds):
            count = tf.assign_add(step, 1)

        def applied() -> Any:
            clipped, _ = tf.clip_by_global_norm([value(sums) / 2.0 for sums in held], 0.05)
            with tf.control_dependencies([optimizer.apply_gradients(zip(clipped, variables))]):
                return tf.group(*[sums.assign(tf.zeros_like(sums)) for sums in held])

        with ControlFlowV1(), tf.control_dependencies([count]):
            return loss, tf.cond(tf.equal(count % 2, 0), applied, tf.no_op)

    return model


# Without a read of its own, a reference variable is read before the branch and used within.
MODELS["accumulated_in_variables"] = accumulated(lambda sums: sums.read_value())
MODELS["accumulated_and_used_in_a_branch"] = accumulated(lambda sums: sums)


@whole
def averaged_over_steps(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
    """The mean of all gradients so far: nothing but its divisor waits for what is added."""
    loss = loss_of(inputs, resource)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    held = accumulators(variables, resource)
    adds = [sums.assign_add(gradient) for sums, gradient in zip(held, gradients)]
    with tf.control_dependencies(adds):
        count = tf.cast(tf.assign_add(tf.train.get_or_create_global_step(), 1), tf.float32)
    with tf.control_dependencies([count] if resource else []):
        means = [sums / count for sums in held]
    return loss, optimizer.apply_gradients(zip(means, variables))


@whole
def added_in_a_branch(inputs: Inputs, optimizer: Any, resource: bool) -> Tuple[Any, Any]:
    """Gradients of every other step are added, and each step applies the sum."""
    loss = loss_of(inputs, resource)
    gradients, variables = zip(*as_tensors(optimizer.compute_gradients(loss)))
    held = accumulators(variables, resource)
    count = tf.assign_add(tf.train.get_or_create_global_step(), 1)

    def added() -> Any:
        with tf.control_dependencies([sums.assign_add(g) for sums, g in zip(held, gradients)]):
            return tf.constant(2.0)

    with ControlFlowV1():
        divisor = tf.cond(tf.equal(count % 2, 1), added, lambda: tf.constant(4.0))
    with tf.control_dependencies([divisor, loss]):
        return loss, optimizer.apply_gradients(zip([one / divisor for one in held], variables))
