"""Training in which weights miss the update before: pipelined, and in stock TensorFlow."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple

from graph_opt.compat import tf
from graph_opt.session.session import Session
from tests.optimizer_models import STOCK
from tests.passes.transfers import dense_models
from tests.passes.transfers.dense_models import Trained


class Model(NamedTuple):
    """A model, and what a step of it is made of."""

    loss: Any
    train: Any
    gradients: List[Any]
    dense: List[Any]


def pipelining(staleness: int = 1, **options: Any) -> Any:
    """A config that pipelines dense weights and gradients, and packs them."""
    config = dense_models.packing(**options)
    config.graph_options.optimizer_options.pipeline_dense = True
    config.graph_options.optimizer_options.dense_staleness = staleness
    # TensorFlow's own optimizer rounds otherwise where weights are fed.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def model(optimizer: str, resource: bool, average: bool = True) -> Model:
    """A table, dense layers with a penalty, clipped gradients, a rate that decays, and averages."""
    loss = dense_models.loss_of(resource)
    step = tf.train.get_or_create_global_step()
    chosen = STOCK[optimizer]()
    pairs = chosen.compute_gradients(loss)
    clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 1.0)
    train = chosen.apply_gradients(zip(clipped, [each for _, each in pairs]), step)
    dense = [each for each in tf.trainable_variables() if "rows" not in each.op.name]
    if average:
        averages = tf.train.ExponentialMovingAverage(0.9)
        with tf.control_dependencies([train]):
            train = averages.apply(dense)
    tensors = []
    for each in clipped:
        is_sparse = isinstance(each, tf.IndexedSlices)
        tensors += [each.values, each.indices] if is_sparse else [each]
    return Model(loss, train, tensors, dense)


def pipelined(
    target: str, build: Callable[[], Model], config: Any, steps: int, servers: int
) -> Trained:
    """Trains with graph_opt."""
    return _trained(lambda: Session(target, config=config), target, build, _steps(steps), servers)


def undelayed(target: str, build: Callable[[], Model], steps: int, servers: int) -> Trained:
    """Trains with TensorFlow alone."""
    return _trained(lambda: _stock_session(target), target, build, _steps(steps), servers)


def _steps(number: int) -> Callable[[Any, Model], List[float]]:
    def run(session: Any, made: Model) -> List[float]:
        return [float(session.run([made.loss, made.train])[0]) for _ in range(number)]

    return run


def _stock_session(target: str) -> Any:
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(target, config=config)


def delayed(target: str, build: Callable[[], Model], steps: int, servers: int) -> Trained:
    """Trains with TensorFlow alone; it is fed old weights, then the gradients that come of them."""

    def run(session: Any, made: Model) -> List[float]:
        reads = {each.op.name: _reads_of(each) for each in made.dense}
        losses = []
        old = session.run(made.dense)
        for _ in range(steps):
            now = session.run(made.dense)
            fed = {
                read: value
                for variable, value in zip(made.dense, old)
                for read in reads[variable.op.name]
            }
            loss, *gradients = session.run([made.loss, *made.gradients], fed)
            session.run(made.train, dict(zip(made.gradients, gradients)))
            losses.append(float(loss))
            old = now
        return losses

    return _trained(lambda: _stock_session(target), target, build, run, servers)


def _reads_of(variable: Any) -> List[Any]:
    """What the model reads of a variable: tensors that can be fed."""
    handle = variable.op.outputs[0]
    kinds = ("Identity", "ReadVariableOp")
    return [each.outputs[0] for each in handle.consumers() if each.type in kinds]


def _trained(
    opened: Callable[[], Any],
    target: str,
    build: Callable[[], Model],
    run: Callable[[Any, Model], List[float]],
    servers: int,
) -> Trained:
    device = dense_models.on_servers(servers)
    with tf.Graph().as_default() as graph, tf.device(device):
        tf.set_random_seed(1)
        made = build()
        variables = {each.op.name: each for each in tf.global_variables()}
        initialize = tf.global_variables_initializer()
        tf.Session.reset(target)
        with opened() as session:
            session.run(initialize)
            losses = run(session, made)
            values = session.run(variables)
    return Trained(losses, values, [], graph)
