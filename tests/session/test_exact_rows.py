"""Lookups that run ahead with exact rows: trainings are those in which none does, to the bit."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.optimizer_models import STOCK

BATCH = 16
VOCABULARY = 40
_trainings = itertools.count()


class Run(NamedTuple):
    """A training.

    Attributes:
      losses: Of each step.
      variables: At the end, slots included.
      report: What was done to the graph.
    """

    losses: List[float]
    variables: Dict[str, np.ndarray]
    report: Any


Acts = Dict[int, Callable[[Any], None]]
Lookups = Callable[[Dict[str, Any]], List[Any]]


def config(threads: int = 0, capacity: int = 1, exact: bool = True) -> Any:
    """A config that fuses, and with threads also prefetches."""
    made = graph_opt.ConfigProto()
    optimizer = made.graph_options.optimizer_options
    optimizer.do_group_embedding = True
    optimizer.group_embedding_options.adam = "lazy"
    if threads:
        optimizer.do_async_embedding = True
        options = optimizer.async_embedding_options
        options.threads_num, options.capacity = threads, capacity
        options.infer_io_stage, options.exact = True, exact
    return made


def batches(steps: int, seed: int = 0) -> Dict[str, Any]:
    """`bags` [B, 4] with padding -1, `weights` alike, `one` [B], `label` [B, 1]."""
    random = np.random.RandomState(seed)
    rows = BATCH * steps - 3  # the last batch is smaller
    bags = random.zipf(1.3, [rows, 4]) % VOCABULARY
    bags[random.rand(rows, 4) < 0.4] = -1
    data = {
        "bags": bags.astype(np.int64),
        "weights": random.uniform(0.1, 1, [rows, 4]).astype(np.float32),
        "one": (random.zipf(1.3, [rows]) % VOCABULARY).astype(np.int32),
        "label": random.rand(rows, 1).astype(np.float32),
    }
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(BATCH)
    return dict(tf.data.make_one_shot_iterator(dataset).get_next())


def table(name: str, width: int, resource: bool = False, shards: int = 1) -> Any:
    """A variable, possibly in parts."""
    return tf.get_variable(
        name,
        [VOCABULARY, width],
        initializer=tf.random_uniform_initializer(-1, 1, seed=width),
        use_resource=resource,
        partitioner=tf.fixed_size_partitioner(shards) if shards > 1 else None,
    )


def sparse(inputs: Dict[str, Any]) -> Any:
    """The bags without their padding."""
    places = tf.where(inputs["bags"] >= 0)
    return tf.SparseTensor(
        places, tf.gather_nd(inputs["bags"], places), tf.shape(inputs["bags"], out_type=tf.int64)
    )


def weights_of(inputs: Dict[str, Any]) -> Any:
    """The weights of the bags."""
    bags = sparse(inputs)
    values = tf.gather_nd(inputs["weights"], bags.indices)
    return tf.SparseTensor(bags.indices, values, bags.dense_shape)


def every_kind(resource: bool) -> Lookups:
    """Several lookups of one table, weights, parts, bags without ids with and without a row."""

    def lookups(inputs: Dict[str, Any]) -> List[Any]:
        shared, parts = table("shared", 4, resource), table("parts", 3, resource, shards=3)
        bags, weights = sparse(inputs), weights_of(inputs)
        safe = tf.nn.safe_embedding_lookup_sparse
        return [
            safe(shared, bags, combiner="mean"),
            safe(shared, bags, weights, combiner="sqrtn", default_id=2),
            tf.nn.embedding_lookup(shared, inputs["one"]),
            safe(parts, bags, combiner="sum"),
            safe(parts, bags, weights, combiner="sum"),
        ]

    return lookups


def train(
    lookups: Lookups,
    options: Any,
    optimizer: str = "adagrad",
    steps: int = 12,
    acts: Optional[Callable[[], Acts]] = None,
    seed: int = 0,
    target: str = "",
    servers: int = 0,
) -> Run:
    """Trains to the end of the input, with what `acts` does after some steps.

    Variables are on `servers` tasks of job ps, if there are any.
    """
    device = tf.train.replica_device_setter(servers, worker_device="/job:worker/task:0")
    # Servers keep variables of the same name, which may have another shape.
    container = "training{}".format(next(_trainings)) if servers else ""
    with tf.Graph().as_default(), tf.device(device), tf.container(container):
        tf.set_random_seed(1)
        inputs = batches(steps, seed)
        hidden = tf.concat(lookups(inputs), 1)
        logits = tf.layers.dense(hidden, 1, kernel_initializer=tf.ones_initializer())
        loss = tf.losses.mean_squared_error(inputs["label"], logits)
        step = STOCK[optimizer]().minimize(loss, tf.train.get_or_create_global_step())
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        after = acts() if acts else {}
        losses: List[float] = []
        with graph_opt.Session(target, config=options) as session:
            session.run(tf.global_variables_initializer())
            while True:
                try:
                    losses.append(session.run([loss, step])[0])
                except tf.errors.OutOfRangeError:
                    break
                after.get(len(losses), lambda session: None)(session)
            report = graph_opt.report()
            return Run(losses, session.run(variables), report)


def assert_same(one: Run, other: Run) -> None:
    """Both have the same bits."""
    np.testing.assert_array_equal(one.losses, other.losses)
    for name, value in other.variables.items():
        np.testing.assert_array_equal(one.variables[name], value, err_msg=name)


def moved(run: Run) -> int:
    """How many lookups ran ahead."""
    return sum(one.count for one in run.report.lookups if one.outcome == "moved")


def shared_table(inputs: Dict[str, Any]) -> List[Any]:
    """Bags, some of them without ids, and single rows of one table."""
    rows = table("shared", 4)
    return [
        tf.nn.safe_embedding_lookup_sparse(rows, sparse(inputs), combiner="mean"),
        tf.nn.embedding_lookup(rows, inputs["one"]),
    ]


def trained_sum(sums: Callable[[List[Any]], Any], is_optimized: bool) -> List[Run]:
    """Fused trainings of a sum of rows, without and with lookups that run ahead.

    Args:
      sums: Adds three terms.
      is_optimized: Whether TensorFlow's own graph optimizer is on, which orders terms by name.
    """

    def lookups(inputs: Dict[str, Any]) -> List[Any]:
        rows = shared_table(inputs)
        # A name between those of rows that are exact (`exact_rows`) and fused (`group_embedding`).
        return [sums([*rows, tf.tanh(rows[0], name="further")])]

    found = []
    for options in (config(), config(threads=1)):
        options.graph_options.rewrite_options.disable_meta_optimizer = not is_optimized
        found.append(train(lookups, options, steps=8))
    assert moved(found[1]) == 2
    return found


def test_long_sums_are_exact_in_the_order_of_the_script() -> None:
    fused, exact = trained_sum(sum, is_optimized=False)
    assert_same(exact, fused)


def test_long_sums_in_the_order_of_tensorflow_are_exact_within_rounding() -> None:
    fused, exact = trained_sum(tf.add_n, is_optimized=True)
    np.testing.assert_allclose(exact.losses, fused.losses, rtol=1e-5)


def test_lookups_are_exact() -> None:
    fused = train(shared_table, config(), steps=8)
    exact = train(shared_table, config(threads=2, capacity=3), steps=8)
    assert moved(exact) == 2
    assert {one.most_missed for one in exact.report.lookups} == {0}
    assert len(exact.losses) == 8
    assert_same(exact, fused)


def test_lookups_that_the_model_grouped_itself_are_exact() -> None:
    def lookups(inputs: Dict[str, Any]) -> List[Any]:
        tables, bags = [table("t", 4), table("u", 3)], sparse(inputs)
        return list(graph_opt.group_embedding_lookup_sparse(tables, [bags, bags], ["sum", "mean"]))

    exact = train(lookups, config(threads=2, capacity=3), steps=8)
    assert moved(exact) == 2
    assert_same(exact, train(lookups, config(), steps=8))


@pytest.mark.slow
def test_ids_of_the_first_lookup_are_constant() -> None:
    def lookups(inputs: Dict[str, Any]) -> List[Any]:
        rows = table("rows", 4)
        places = tf.constant([[i, 0] for i in range(8)], tf.int64)
        ids = tf.SparseTensor(places, tf.constant([1, 2, 3, 1, 2, 3, 4, 5], tf.int64), [8, 1])
        weights = tf.SparseTensor(places, inputs["weights"][:8, 0], [8, 1])
        same = tf.nn.safe_embedding_lookup_sparse(rows, ids, weights, "sum")
        bags = tf.nn.safe_embedding_lookup_sparse(rows, sparse(inputs), combiner="sum")
        return [bags + tf.reduce_mean(same, 0, keepdims=True)]

    exact = train(lookups, config(threads=2, capacity=3))
    assert moved(exact) == 2
    assert_same(exact, train(lookups, config()))


@pytest.mark.slow
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("threads, capacity", [(1, 1), (1, 4), (4, 1), (4, 4), (-1, -1)])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adagrad", "ftrl", "adam"])
def test_optimizers_threads_and_capacities(
    optimizer: str, threads: int, capacity: int, resource: bool
) -> None:
    lookups = every_kind(resource)
    fused = train(lookups, config(), optimizer, steps=200)
    exact = train(lookups, config(threads, capacity), optimizer, steps=200)
    assert moved(exact) == 5
    assert_same(exact, fused)


@pytest.mark.slow
def test_without_exact_rows_are_old() -> None:
    lookups = every_kind(False)
    fused = train(lookups, config())
    ahead = config(threads=1, capacity=4, exact=False)
    options = ahead.graph_options.optimizer_options.async_embedding_options
    options.prefetch_priority = 0  # Or it may look rows up so late that they miss nothing.
    assert train(lookups, ahead).losses != fused.losses


def one_table(resource: bool) -> Lookups:
    return lambda inputs: [
        tf.nn.safe_embedding_lookup_sparse(table("t", 4, resource), sparse(inputs))
    ]


def _written(how: str) -> Callable[[], Acts]:
    """What writes the table between steps other than its update."""

    def acts() -> Acts:
        (variable,) = [each for each in tf.trainable_variables() if each.op.name == "t"]
        ones = np.ones(variable.shape.as_list(), np.float32)
        return {
            "load": {4: lambda s: variable.load(ones, s)},
            "assign_built_later": {4: lambda s: s.run(variable.assign(ones))},
            "scatter_built_later": {
                4: lambda s: s.run(tf.scatter_update(variable, [0, 1], ones[:2]))
            },
            "initialized_again": {5: lambda s: s.run(variable.initializer)},
        }[how]  # fmt: skip

    return acts


@pytest.mark.slow
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize(
    "how", ["load", "assign_built_later", "scatter_built_later", "initialized_again"]
)
def test_what_is_written_between_steps_is_seen(how: str, resource: bool) -> None:
    lookups = one_table(resource)
    fused = train(lookups, config(), acts=_written(how))
    exact = train(lookups, config(threads=2, capacity=3), acts=_written(how))
    assert moved(exact) == 1
    assert_same(exact, fused)


@pytest.mark.slow
def test_checkpoints_and_evaluation_in_between(tmp_path: Any) -> None:
    def acts() -> Acts:
        saver = tf.train.Saver()
        path = str(tmp_path / "model")
        norm = tf.norm(tf.trainable_variables()[0])
        return {
            2: lambda s: saver.save(s, path),
            4: lambda s: s.run(norm),
            7: lambda s: saver.restore(s, path),
            9: lambda s: tf.train.Saver().restore(s, path),
        }

    fused = train(every_kind(False), config(), acts=acts)
    assert_same(train(every_kind(False), config(threads=1, capacity=4), acts=acts), fused)


def _report(lookups: Lookups, options: Any, optimizer: str, target: str = "") -> Any:
    with tf.Graph().as_default() as graph:
        hidden = tf.concat(lookups(batches(2)), 1)
        STOCK[optimizer]().minimize(tf.reduce_mean(tf.square(hidden)))
        return graph_opt.optimize_graph(graph, options, target)


def test_lookups_that_cannot_be_exact_stay() -> None:
    adam = config(threads=1)
    adam.graph_options.optimizer_options.group_embedding_options.adam = "deferred"
    elsewhere = _report(one_table(False), config(threads=1), "adagrad", "grpc://localhost:1")
    for report, code in (
        (_report(one_table(True), adam, "adam"), "exact_table_written"),
        (elsewhere, "exact_elsewhere"),
    ):
        assert [one.outcome for one in report.lookups] == ["left in main"]
        assert [one.refusal["code"] for one in report.lookups] == [code]
