"""The graph of a random model, and trainings of copies of it.

A graph is built once, since Python takes most of the time of a small model, and each training runs
a copy of its GraphDef.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.embedding.group_lookup import LookupRequest, lookup_group
from graph_opt.export.users_graph import has_our_ops
from tests.optimizer_models import STOCK
from tests.random_models.choices import VOCABULARY, Input, Lookup, Model, Stage, Table

_containers = itertools.count()
_OPTIMIZERS = {
    **STOCK,
    "sgd_still": lambda: tf.train.GradientDescentOptimizer(0.0),
    "adagrad_still": lambda: tf.train.AdagradOptimizer(0.0),
}


class Script(NamedTuple):
    """The graph of a model.

    Attributes:
      graph_def: Its nodes.
      steps: How many there are.
      starts: Operations that initialize it, to be run one after the other.
      loss, step: The names of a step's fetches.
      variables: Names of tensors by names of variables.
      inputs: Names of the batch's tensors.
      rows: Names of what lookups return, those that nothing reads included.
      hidden: The name of what the last layer reads.
    """

    graph_def: Any
    steps: int
    starts: List[str]
    loss: str
    step: str
    variables: Dict[str, str]
    inputs: Dict[str, str]
    rows: List[str]
    hidden: str


class Trained(NamedTuple):
    """A training: the loss of each step, variables at the end, and what became of the graph."""

    losses: List[float]
    variables: Dict[str, np.ndarray]
    report: Any


def script_of(model: Model, servers: int = 0) -> Script:
    """Builds a model, with variables on `servers` tasks of job ps if there are any."""
    device = tf.train.replica_device_setter(servers, worker_device="/job:worker/task:0")
    with tf.Graph().as_default() as graph, tf.device(device):
        tf.set_random_seed(11)
        inputs, start = _batches(model.inputs)
        if model.inputs.staged:
            inputs = graph_opt.staged(inputs, capacity=2)
        tables = [_table(number, one) for number, one in enumerate(model.tables)]
        rows = _all_rows(model, tables, inputs)
        hidden = _hidden(model, rows, inputs["dense"])
        loss = _loss(model, hidden, inputs["label"])
        step = _step(model, loss)
        starts = [tf.global_variables_initializer(), *start]
        return Script(
            running_graph_def(graph, add_shapes=True),  # with ops of ours
            model.inputs.steps,
            [one.name for one in starts],
            loss.name,
            step.name,
            {each.op.name: graph.as_graph_element(each).name for each in tf.global_variables()},
            {name: one.name for name, one in inputs.items()},
            [one.name for one in rows],
            hidden.name,
        )


def config(
    group: bool = False, stage: Optional[Stage] = None, exact: bool = False, staged: bool = False
) -> Any:
    """What is asked for.

    Args:
      group: Whether lookups are fused.
      stage: Where they run ahead; None: they do not.
      exact: Whether the rows of these are exact.
      staged: Whether the script itself says where the IO stage is.
    """
    made = graph_opt.ConfigProto()
    optimizer = made.graph_options.optimizer_options
    optimizer.do_group_embedding = group
    if exact:
        optimizer.group_embedding_options.adam = "lazy"
    if stage is not None:
        optimizer.do_async_embedding = True
        optimizer.do_smart_stage = stage.smart
        options = optimizer.async_embedding_options
        options.threads_num, options.capacity = stage.threads, stage.capacity
        options.infer_io_stage, options.exact = not staged, exact
    return made


def train(script: Script, options: Any, target: str = "") -> Trained:
    """Trains a copy of a graph to the end of its input, without graph_opt if `options` is None.

    Variables are read before the step that meets the end, where TensorFlow's Adam decays moments.
    """
    with tf.Graph().as_default() as graph:
        import_copy(script, bool(target))
        with open_session(options, target) as session:
            for start in script.starts:
                session.run(start)
            fetches = [script.loss, script.step]
            losses = [float(session.run(fetches)[0]) for _ in range(script.steps)]
            variables = session.run(script.variables)
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(fetches)
        return Trained(losses, variables, graph_opt.report(graph))


def import_copy(script: Script, is_served: bool = False) -> None:
    """Puts a copy into the default graph.

    Servers keep resources from one session to the next, so that each copy gets names of its own.
    """
    graph_def = script.graph_def
    if is_served:
        graph_def = tf.GraphDef.FromString(graph_def.SerializeToString())
        container = "copy{}".format(next(_containers)).encode("utf-8")
        for node in graph_def.node:
            if "container" in node.attr:
                node.attr["container"].s = container
    tf.import_graph_def(graph_def, name="")


def open_session(options: Any, target: str = "") -> Any:
    """A session on the default graph; without options TensorFlow's own, if that can run it."""
    if options is None and not has_our_ops(tf.get_default_graph()):
        return tf.Session(target)
    return graph_opt.Session(target, config=options)


def _batches(choice: Input) -> Tuple[Dict[str, Any], List[Any]]:
    """A batch, and what starts its source.

    `bags` [B, 3] with padding -1 and some of them empty, `full` [B, 2], `weights` [B, 3],
    `one` [B], `dense` [B, 2] and `label` [B, 1].
    """
    random = np.random.RandomState(choice.seed)
    taken = 2 if choice.is_shared else 1
    count = choice.batch * choice.steps * taken - (choice.odd and choice.batch > 1)
    bags = random.randint(0, VOCABULARY, [count, 3])
    bags[random.rand(count, 3) < 0.4] = -1
    data: Dict[str, np.ndarray] = {
        "bags": bags.astype(np.int64),
        "full": random.randint(0, VOCABULARY, [count, 2]).astype(np.int64),
        "weights": random.uniform(0.1, 1, [count, 3]).astype(np.float32),
        "one": random.randint(0, VOCABULARY, [count]).astype(np.int64),
        "dense": random.rand(count, 2).astype(np.float32),
        "label": random.randint(0, 2, [count, 1]).astype(np.float32),
    }
    take, start = _source(choice, data)
    inputs = take()
    if choice.is_shared:
        with tf.control_dependencies(list(inputs.values())):
            other = tf.reduce_mean(take()["dense"], 0)
        inputs["dense"] = tf.maximum(inputs["dense"], other)
    return inputs, start


def _source(choice: Input, data: Dict[str, np.ndarray]) -> Tuple[Callable[[], Any], List[Any]]:
    """What makes a node that takes a batch, and what starts the source."""
    if choice.source == "queue":
        return _queue(data, choice.batch)
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(choice.batch)
    if choice.source == "one_shot":
        iterator, start = tf.data.make_one_shot_iterator(dataset), []
    elif choice.source == "initializable":
        iterator = tf.data.make_initializable_iterator(dataset)
        start = [iterator.initializer]
    else:
        types, shapes = tf.data.get_output_types(dataset), tf.data.get_output_shapes(dataset)
        iterator = tf.data.Iterator.from_structure(types, shapes)
        start = [iterator.make_initializer(dataset)]
    return lambda: dict(iterator.get_next()), start


def _queue(data: Dict[str, np.ndarray], batch: int) -> Tuple[Callable[[], Any], List[Any]]:
    names = sorted(data)
    types = [tf.as_dtype(data[name].dtype) for name in names]
    queue = tf.FIFOQueue(-1, types, [data[name].shape[1:] for name in names])
    start = [queue.enqueue_many([data[n] for n in names]), queue.close()]
    return lambda: dict(zip(names, queue.dequeue_up_to(batch))), start


def _table(number: int, choice: Table) -> Any:
    return tf.get_variable(
        "table_{}".format(number),
        [VOCABULARY, choice.width],
        initializer=tf.random_uniform_initializer(-1, 1, seed=number + choice.width),
        use_resource=choice.resource,
        partitioner=tf.fixed_size_partitioner(choice.shards) if choice.shards > 1 else None,
    )


def _all_rows(model: Model, tables: List[Any], inputs: Dict[str, Any]) -> List[Any]:
    found: Dict[int, Any] = {}
    for strategy in ("div", "mod") if model.grouped else ():
        group = [
            place
            for place, one in enumerate(model.lookups)
            if one.api == "safe" and _kind(model, one).strategy == strategy
        ]
        requests = [_request(model.lookups[place], tables, inputs) for place in group]
        if requests:
            found.update(zip(group, lookup_group(requests, strategy)))
    return [
        found[place] if place in found else _rows(one, tables, _kind(model, one).strategy, inputs)
        for place, one in enumerate(model.lookups)
    ]


def _kind(model: Model, lookup: Lookup) -> Table:
    return model.tables[lookup.table % len(model.tables)]


def _request(choice: Lookup, tables: List[Any], inputs: Dict[str, Any]) -> LookupRequest:
    ids, weights = _sparse(choice, inputs)
    table = tables[choice.table % len(tables)]
    return LookupRequest(table, ids, choice.combiner, weights, choice.default_id)


def _rows(choice: Lookup, tables: List[Any], strategy: str, inputs: Dict[str, Any]) -> Any:
    """What a lookup returns: [B, width], but for single rows without a known width."""
    table = tables[choice.table % len(tables)]
    if choice.api == "rows":
        ids = tf.cast(inputs["one"], tf.int32 if choice.short else tf.int64)
        return tf.nn.embedding_lookup(table, ids, strategy)
    if choice.api == "fed":
        ids = tf.placeholder_with_default(inputs["one"], [None], name="fed")
        return tf.nn.embedding_lookup(table, ids, strategy)
    sparse, weights = _sparse(choice, inputs)
    if choice.api == "sparse":
        return tf.nn.embedding_lookup_sparse(
            table, sparse, weights, strategy, combiner=choice.combiner
        )
    return tf.nn.safe_embedding_lookup_sparse(
        table, sparse, weights, choice.combiner, choice.default_id, partition_strategy=strategy
    )


def _sparse(choice: Lookup, inputs: Dict[str, Any]) -> Tuple[Any, Any]:
    """Ids, and weights or None."""
    bags = inputs["bags" if choice.api == "safe" and choice.empty else "full"]
    places = tf.where(bags >= 0)
    shape = tf.shape(bags, out_type=tf.int64)
    ids = tf.cast(tf.gather_nd(bags, places), tf.int32 if choice.short else tf.int64)
    weights = None
    if choice.weighted:
        weights = tf.SparseTensor(places, tf.gather_nd(inputs["weights"], places), shape)
    return tf.SparseTensor(places, ids, shape), weights


def _looped(dense: Any) -> Any:
    """Each row in a turn of a loop, which has a gradient."""
    by = tf.get_variable("looped", initializer=0.5)
    return tf.map_fn(lambda row: tf.sin(row * by), dense)


def _called(dense: Any) -> Any:
    """The same for all rows, in a function."""
    # Without Grappler, which these sessions lack, functions cannot read variables of other tasks.
    with tf.device(dense.device):
        by = tf.get_variable("called", initializer=0.5, use_resource=True)
    return tf.function(lambda rows: tf.sin(rows * by))(dense)


# What scripts make of numbers before the layers; some of it depends on a variable.
_DENSE: Dict[str, Callable[[Any], Any]] = {
    "log": tf.log1p,
    "parse": lambda dense: tf.strings.to_number(tf.strings.as_string(dense, precision=4)),
    "join": lambda dense: tf.concat([dense, tf.cast(dense > 0.5, tf.float32)], 1),
    "draw": lambda dense: dense + tf.random_uniform(tf.shape(dense), seed=3),
    "check": lambda dense: tf.debugging.check_numerics(dense, "not a number"),
    "weigh": lambda dense: dense * tf.get_variable("factor", initializer=1.5),
    "scale": lambda dense: dense * tf.placeholder_with_default(1.0, [], name="by"),
    "choose": lambda dense: tf.cond(tf.reduce_sum(dense) > 4, lambda: dense, lambda: 0.5 * dense),
    "loop": _looped,
    "call": _called,
}


def _hidden(model: Model, rows: List[Any], dense: Any) -> Any:
    for name in model.dense:
        with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
            dense = _DENSE[name](dense)
    read = [
        (one.joined, tf.reshape(tensor, [-1, model.tables[one.table % len(model.tables)].width]))
        for one, tensor in zip(model.lookups, rows)
        if one.read
    ]
    joined = [tensor for is_joined, tensor in read if is_joined]
    alone = [tf.tanh(tensor) for is_joined, tensor in read if not is_joined]
    return tf.concat(([tf.concat(joined, 1)] if joined else []) + alone + [dense], 1)


def _loss(model: Model, hidden: Any, label: Any) -> Any:
    kernel = tf.get_variable(
        "kernel",
        [int(hidden.shape[1]), 1],
        initializer=tf.random_uniform_initializer(-1, 1, seed=7),
        use_resource=model.tables[0].resource,
    )
    logits = tf.matmul(hidden, kernel)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logits))


def _step(model: Model, loss: Any) -> Any:
    optimizer, count = _OPTIMIZERS[model.optimizer](), tf.train.get_or_create_global_step()
    if not model.clipped:
        return optimizer.minimize(loss, count)
    pairs = [pair for pair in optimizer.compute_gradients(loss) if pair[0] is not None]
    gradients, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 0.1)
    return optimizer.apply_gradients(zip(gradients, [each for _, each in pairs]), count)


def difference(one: Trained, other: Trained) -> float:
    """The largest difference of losses, which are near 1, and of values of variables."""
    assert len(one.losses) == len(other.losses)
    pairs: List[Tuple[Any, Any]] = [(one.losses, other.losses)]
    pairs += [(one.variables[name], value) for name, value in other.variables.items()]
    return max(float(np.max(np.abs(np.subtract(*pair)))) for pair in pairs)


def assert_same(one: Trained, other: Trained) -> None:
    """Both have the same bits."""
    np.testing.assert_array_equal(one.losses, other.losses)
    for name, value in other.variables.items():
        np.testing.assert_array_equal(one.variables[name], value, err_msg=name)


def assert_moved(model: Model, report: Any) -> None:
    """The lookups run ahead whose rows the training needs; one op may do others as well.

    None do where two nodes take batches from the source.
    """
    moved = sum(one.count for one in report.lookups if one.outcome == "moved")
    if model.inputs.is_shared:
        assert moved == 0
        return
    read = sum(one.read for one in model.lookups)
    assert read <= moved <= (len(model.lookups) if model.grouped else read)
