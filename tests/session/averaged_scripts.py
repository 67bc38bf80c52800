"""Scripts that average their tables over time, as people write them for TensorFlow.

They know nothing of graph_opt: `opened` opens their sessions. Processes without graph_opt import
this file, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from tests.session.deferred_model import (
    DeferredModel,
    ModelOptions,
    compared_variables,
    deferred_model,
)

DECAY = 0.9
PROBED = [0, 3, 59, 17]


class Averaged(NamedTuple):
    """A model, the average of its variables, and the op that moves it."""

    model: DeferredModel
    average: Any
    op: Any


def averaged_model(
    options: ModelOptions, order: str = "after", counted: bool = False, first: int = 0
) -> Averaged:
    """Builds it in the default graph.

    Args:
      options: The model's.
      order: Whether the average moves `after` the train op or `before` it.
      counted: Whether its decay depends on the global step.
      first: The step at which the input begins.
    """
    model = deferred_model(options, first=first)
    average = tf.train.ExponentialMovingAverage(DECAY, model.global_step if counted else None)
    with tf.device(options.device or ""):
        if order == "after":
            with tf.control_dependencies([model.train_op]):
                return Averaged(model, average, average.apply(tf.trainable_variables()))
        op = average.apply(tf.trainable_variables())
        return Averaged(model, average, op)


def initialize(session: Any) -> None:
    """Initializes variables, then averages, which begin with their values."""
    averages = tf.moving_average_variables()
    names = {each.op.name + "/ExponentialMovingAverage" for each in averages}
    shadows = [each for each in tf.global_variables() if each.op.name in names]
    session.run(tf.variables_initializer([v for v in tf.global_variables() if v not in shadows]))
    session.run(tf.variables_initializer(shadows))


def values(session: Any) -> Dict[str, Any]:
    """All float variables, by their names."""
    found = compared_variables()
    return {each.op.name: value for each, value in zip(found, session.run(found))}


def in_every_step(opened: Callable[..., Any], options: ModelOptions, counted: bool) -> List[Any]:
    """The usual script; what it sees on the way, of some rows and of all."""
    with tf.Graph().as_default():
        averaged = averaged_model(options, counted=counted)
        shadow = averaged.average.average(averaged.model.users)
        rows = tf.nn.embedding_lookup(shadow, PROBED)
        seen: List[Any] = []
        with opened() as session:
            initialize(session)
            for step in range(36):
                session.run(averaged.op)
                if step % 9 == 4:
                    seen.append(session.run(rows))
                if step % 12 == 11:
                    seen.append(values(session))
            total = tf.reduce_sum(shadow, axis=1)
            seen.append(session.run(total))
        return seen


def now_and_then(opened: Callable[..., Any], options: ModelOptions) -> List[Any]:
    """The average moves in every third step, several times at once, and between assignments."""
    with tf.Graph().as_default():
        averaged = averaged_model(options, order="before")
        shadow = averaged.average.average(averaged.model.users)
        halved = tf.assign(shadow, shadow * 0.5)
        zeroed = tf.scatter_update(averaged.model.users, [2, 5], np.zeros([2, 4], np.float32))
        seen: List[Any] = []
        with opened() as session:
            initialize(session)
            session.run(averaged.op)
            for step in range(30):
                session.run(averaged.model.train_op)
                if step % 3 == 0:
                    session.run(averaged.op)
                if step == 14:
                    for _ in range(25):
                        session.run(averaged.op)
                    session.run(halved)
                if step == 20:
                    session.run(zeroed)
            seen.append(session.run(shadow))
            session.run(averaged.op)
            seen.append(values(session))
        return seen


def save(opened: Callable[..., Any], options: ModelOptions, folder: Path) -> str:
    """A checkpoint of a session that has trained."""
    with tf.Graph().as_default():
        averaged = averaged_model(options)
        saver = tf.train.Saver()
        with opened() as session:
            initialize(session)
            for _ in range(20):
                session.run(averaged.op)
            return str(saver.save(session, str(folder / "model")))


def evaluate(options: Dict[str, Any], checkpoint: str) -> Dict[str, Any]:
    """The variables of a model that restores averages in their place, as evaluation does."""
    deferred_model(ModelOptions(**options))
    average = tf.train.ExponentialMovingAverage(DECAY)
    saver = tf.train.Saver(average.variables_to_restore(tf.trainable_variables()))
    with tf.Session() as session:
        saver.restore(session, checkpoint)
        weights = tf.trainable_variables()
        return dict(zip([each.op.name for each in weights], session.run(weights)))
