"""Random models of variables on servers, with several readers, waits and updates each."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Sequence, Tuple

import numpy as np
from hypothesis import strategies as st

from graph_opt.compat import tf
from tests.passes.transfers.dense_models import WORKER

SERVERS = 2


class Weight(NamedTuple):
    """One variable, and what the model does with it."""

    shape: Tuple[int, ...]
    server: int
    resource: bool
    readers: int
    on_server: bool
    after: bool
    averaged: bool
    trained: bool


class Model(NamedTuple):
    """Variables, and what becomes of their gradients."""

    weights: List[Weight]
    clips: bool
    optimizer: str
    max_bytes: int


WEIGHTS = st.builds(
    Weight,
    shape=st.sampled_from([(), (1,), (16,), (3, 5), (2, 2, 4), (64, 3)]),
    server=st.integers(0, SERVERS - 1),
    resource=st.booleans(),
    readers=st.integers(1, 3),
    on_server=st.booleans(),
    after=st.booleans(),
    averaged=st.booleans(),
    trained=st.booleans(),
)
MODELS = st.builds(
    Model,
    weights=st.lists(WEIGHTS, min_size=2, max_size=7),
    clips=st.booleans(),
    optimizer=st.sampled_from(["sgd", "adam", "momentum"]),
    max_bytes=st.sampled_from([64, 1 << 20]),
)


def build(model: Model, optimizer: Any) -> Sequence[Any]:
    """The loss, the step and other results of a random model."""
    counter = _variable("counter", Weight((), 0, True, 1, False, False, False, False))
    count = tf.assign_add(counter, 1.0)
    weights = [_variable("w{}".format(i), each) for i, each in enumerate(model.weights)]
    terms = []
    for number, (weight, made) in enumerate(zip(model.weights, weights)):
        with tf.control_dependencies([count] if weight.after else []):
            for reader in range(weight.readers):
                terms.append(_term(made, weight, number + 0.3 * reader))
    loss = tf.add_n(terms)
    trained = [each for weight, each in zip(model.weights, weights) if weight.trained]
    pairs = [(g, v) for g, v in zip(tf.gradients(loss, trained or weights), trained or weights)]
    if model.clips:
        clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 0.5)
        pairs = list(zip(clipped, [variable for _, variable in pairs]))
    step = optimizer.apply_gradients(pairs)
    # A reference's value after the update is whatever the server has when it sends it.
    averaged = [v for w, v in zip(model.weights, weights) if w.averaged and w.resource]
    with tf.control_dependencies([step]):
        done = tf.train.ExponentialMovingAverage(0.9).apply(averaged) if averaged else step
    return loss, done


def _variable(name: str, weight: Weight) -> Any:
    values = np.random.RandomState(len(name) + sum(weight.shape)).rand(*weight.shape)
    with tf.device("/job:ps/task:{}".format(weight.server)):
        return tf.get_variable(
            name,
            initializer=tf.constant(values, tf.float32),
            use_resource=weight.resource,
        )


def _term(variable: Any, weight: Weight, shift: float) -> Any:
    on_server = "/job:ps/task:{}".format(weight.server)
    with tf.device(on_server if weight.on_server else WORKER):
        return tf.reduce_sum(tf.square(variable - shift))
