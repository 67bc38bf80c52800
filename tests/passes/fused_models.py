"""Small models of several lookups, trained with and without fusion on the same batches."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.config import ConfigProto
from graph_opt.session.live import optimize_graph
from graph_opt.session.session import Session
from tests.optimizer_models import STOCK
from tests.plain_sessions import plain_session

# Names of the train ops that optimizers make.
OPTIMIZER_NAMES = frozenset(str(make().get_name()) for make in STOCK.values())
ROWS = 40
BATCH = 8
VOCABULARY = 23
STEPS = 5


class Trained(NamedTuple):
    """The results of a training run."""

    losses: List[float]
    variables: Dict[str, np.ndarray]
    report: Any
    graph: Any


def config(lazy_adam: bool = False, prefetch: bool = False, **options: Any) -> Any:
    """A config with group embedding on."""
    made = ConfigProto()
    optimizer = made.graph_options.optimizer_options
    optimizer.do_group_embedding = True
    if lazy_adam:
        optimizer.group_embedding_options.lazy_adam = True
    optimizer.group_embedding_options.lookups.extend(options.pop("lookups", []))
    for name, value in options.items():
        setattr(optimizer.group_embedding_options, name, value)
    if prefetch:
        optimizer.do_async_embedding = True
        asynchronous = optimizer.async_embedding_options
        asynchronous.threads_num, asynchronous.capacity = 1, 1
        asynchronous.infer_io_stage = True
    return made


def batches(seed: int = 0) -> Dict[str, Any]:
    """`ids` and `more` [B, 3] (0 is padding, some < 0), `one` [B], `weight`, `dense`, `label`."""
    random = np.random.RandomState(seed)
    ids = random.randint(-2, VOCABULARY, [ROWS, 3])
    ids[random.rand(ROWS) < 0.2] = 0
    data = {
        "ids": ids.astype(np.int64),
        "more": random.randint(0, VOCABULARY, [ROWS, 3]).astype(np.int64),
        "one": random.randint(0, VOCABULARY, [ROWS]).astype(np.int64),
        "weight": random.uniform(-0.2, 1, [ROWS, 3]).astype(np.float32),
        "dense": random.rand(ROWS, 4).astype(np.float32),
        "label": random.randint(0, 2, [ROWS]).astype(np.float32),
    }
    dataset = tf.data.Dataset.from_tensor_slices(data).repeat().batch(BATCH)
    return tf.data.make_one_shot_iterator(dataset).get_next()


def table(name: str, width: int = 4, resource: bool = False, shards: int = 1) -> Any:
    """A variable [VOCABULARY, width], possibly in parts."""
    partitioner = tf.fixed_size_partitioner(shards) if shards > 1 else None
    initializer = tf.random_uniform_initializer(-1, 1, seed=len(name) + width)
    return tf.get_variable(
        name,
        [VOCABULARY, width],
        initializer=initializer,
        use_resource=resource,
        partitioner=partitioner,
    )


def weights_of(sparse: Any, dense: Any) -> Any:
    """The weights beside the ids."""
    return tf.SparseTensor(sparse.indices, tf.gather_nd(dense, sparse.indices), sparse.dense_shape)


def loss_of(pooled: List[Any], inputs: Dict[str, Any]) -> Any:
    """A dense layer over the lookups."""
    hidden = tf.concat(pooled + [inputs["dense"]], axis=1)
    weights = tf.get_variable(
        "dense_weights",
        [int(hidden.shape[1]), 1],
        use_resource=False,
        initializer=tf.random_uniform_initializer(-1, 1, seed=7),
    )
    logits = tf.matmul(hidden, weights)[:, 0]
    return tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=inputs["label"], logits=logits), name="loss"
    )


def train(
    lookups: Callable[[Dict[str, Any]], List[Any]],
    optimizer: str = "adagrad",
    options: Any = None,
    minimize: Optional[Callable[[Any, Any], Any]] = None,
    steps: int = STEPS,
) -> Trained:
    """Trains a model for a few steps.

    Args:
      lookups: Inputs in, pooled embeddings out.
      optimizer: Name in `STOCK`.
      options: Config to optimize the graph with; None leaves it to TensorFlow.
      minimize: (optimizer, loss) -> train op; `optimizer.minimize` if None.
      steps: Steps to train.
    """
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        inputs = batches()
        loss = loss_of(lookups(inputs), inputs)
        made = STOCK[optimizer]()
        step = minimize(made, loss) if minimize else made.minimize(loss)
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        initialize = tf.global_variables_initializer()
        report = None if options is None else optimize_graph(graph, options)
        with plain_session() if options is None else Session(config=options) as session:
            session.run(initialize)
            losses = [float(session.run([loss, step])[0]) for _ in range(steps)]
            return Trained(losses, session.run(variables), report, graph)


def difference(one: Trained, other: Trained) -> Tuple[float, float]:
    """Largest relative difference of the losses, and of any value of any variable."""
    losses = np.max(np.abs(np.array(one.losses) / np.array(other.losses) - 1))
    values = max(
        float(np.max(np.abs(one.variables[name] - value), initial=0))
        for name, value in other.variables.items()
    )
    return float(losses), values


def ran(graph: Any, fetches: List[Any], session: Any) -> List[str]:
    """Op types that a step runs, as RunMetadata tells."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True)
    session.run(fetches, options=options, run_metadata=metadata)
    return [node.op for part in metadata.partition_graphs for node in part.node]
