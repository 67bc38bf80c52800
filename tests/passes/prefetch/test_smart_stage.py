"""SmartStage: what stands before the variables runs ahead, and nothing else changes."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.runtime.mark import mark_target_node
from tests.control_flow import control_flow_v2
from tests.passes import models
from tests.passes.one_pass import ran_pass

ROWS = 40
BATCH = 8
WORDS = ("red", "green", "blue")


def _config(capacity: int = 2, threads: int = 1) -> Any:
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_smart_stage = True
    options.smart_stage_options.capacity = capacity
    options.smart_stage_options.num_threads = threads
    return config


def _lines(bad: int = -1) -> List[str]:
    random = np.random.RandomState(0)
    lines = []
    for row in range(ROWS):
        word = WORDS[random.randint(len(WORDS))]
        price = "much" if row == bad else "{:.3f}".format(random.rand() * 9)
        lines.append("{},{},{}".format(random.randint(2), price, word))
    return lines


def _model(bad: int = -1, stage: bool = False) -> Dict[str, Any]:
    """A model without lookups, which decodes its lines in the graph."""
    dataset = tf.data.Dataset.from_tensor_slices(_lines(bad)).batch(BATCH)
    lines = tf.data.make_initializable_iterator(dataset).get_next()
    if stage:
        lines = graph_opt.staged(lines, capacity=4)
    label, price, word = tf.decode_csv(lines, [[0.0], [0.0], [""]])
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(list(WORDS), np.arange(3, dtype=np.int64)), -1
    )
    kind = tf.one_hot(table.lookup(word), 3, name="kind")
    noise = tf.random_uniform(tf.shape(price), seed=7)
    scaled = tf.log1p(price) + 0.01 * noise
    features = tf.concat([scaled[:, None], kind], axis=1, name="features")
    weights = tf.get_variable("weights", [4, 1], initializer=tf.ones_initializer())
    logits = tf.matmul(features, weights)[:, 0]
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logits)
    loss = tf.reduce_mean(losses, name="loss")
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdagradOptimizer(0.5).minimize(loss, global_step=step)
    return {
        "loss": loss,
        "train": train,
        "label": label,
        "word": word,
        "mean": tf.reduce_mean(label),
    }


def _initializers() -> List[Any]:
    return [
        tf.global_variables_initializer(),
        tf.tables_initializer(),
        *tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS),
        *(op for op in tf.get_default_graph().get_operations() if op.type == "MakeIterator"),
    ]


def _run(config: Any, **options: Any) -> Tuple[List[Any], str]:
    """What a script sees: the values of each step, and the error that ends them."""
    session_class = graph_opt.Session if config is not None else tf.Session
    with tf.Graph().as_default():
        model = _model(**options)
        seen: List[Any] = []
        with session_class(config=config) as session:
            session.run(_initializers())
            while True:
                try:
                    seen.append(session.run([model[key] for key in ("loss", "mean", "label")]))
                    session.run(model["train"])
                except tf.errors.OutOfRangeError:
                    return seen, "the end"
                except tf.errors.OpError as error:
                    return seen, "{}: {}".format(type(error).__name__, error.message[:40])


@pytest.mark.parametrize(
    "options, capacity, threads",
    [({}, 2, 1), ({"stage": True}, 3, 1), ({"bad": 19}, 2, 1)],
    ids=["iterator", "staged", "bad line"],
)
def test_values_order_and_end_are_those_of_tensorflow(
    options: Dict[str, Any], capacity: int, threads: int
) -> None:
    wanted, wanted_end = _run(None, **dict(options, stage=False))
    seen, end = _run(_config(capacity, threads), **options)
    assert end == wanted_end
    assert len(seen) == len(wanted)
    for mine, stock in zip(seen, wanted):
        for one, other in zip(mine, stock):
            np.testing.assert_array_equal(one, other)


def test_several_threads_keep_the_order_of_batches() -> None:
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensor_slices(_lines()).batch(2)
        lines = tf.data.make_one_shot_iterator(dataset).get_next()
        price = tf.decode_csv(lines, [[0.0], [0.0], [""]])[1]
        scale = tf.get_variable("scale", initializer=2.0)
        scaled = tf.log1p(price) * scale
        with graph_opt.Session(config=_config(3, threads=3)) as session:
            session.run(tf.global_variables_initializer())
            steps = [session.run([scaled, price]) for _ in range(ROWS // 2)]
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(scaled)
    seen, prices = (np.concatenate(each) for each in zip(*steps))
    wanted = np.array([line.split(",")[1] for line in _lines()], np.float32)
    np.testing.assert_array_equal(prices, wanted)
    np.testing.assert_allclose(seen, 2.0 * np.log1p(wanted), rtol=1e-6)


def _staged(config: Any) -> Tuple[List[str], Any]:
    """The nodes of the default graph that run ahead, and the report."""
    graph_def = graph_opt.running_graph_def(add_shapes=True)
    result = optimize_graph_def(graph_def, config)
    known = {node.name for node in graph_def.node}
    clones = [node.name.partition("/")[2] for node in result.graph_def.node]
    return sorted(name for name in clones if name in known), result


def test_only_what_never_changes_runs_ahead() -> None:
    inputs = models.features()
    size = tf.placeholder_with_default(1.0, [], name="size")
    changing = tf.get_variable("changing", initializer=1.0)
    counts = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, 0, -1, -2)
    dense = tf.exp(inputs["dense"], name="exp")
    for name, other in (
        ("fed", dense * size),
        ("trained", dense * changing),
        ("counted", tf.cast(counts.lookup(inputs["other"]), tf.float32)[:, None]),
        ("chosen", tf.cond(tf.reduce_sum(dense) > 0, lambda: dense, lambda: -dense)),
        ("target", tf.identity(tf.sqrt(dense, name="sqrt"), name="target_input")),
        ("free", tf.sin(dense, name="sin")),
    ):
        result = tf.tanh(other, name=name)
        if name == "target":
            mark_target_node([result])
        tf.multiply(result, changing)
    ahead, _ = _staged(_config())
    assert {"exp", "sqrt", "sin", "free"} <= set(ahead)
    assert not {"fed", "trained", "counted", "chosen", "target"} & set(ahead)


def _with_async(on_cpu: bool = False) -> Any:
    config = models.config()
    options = config.graph_options.optimizer_options
    options.do_smart_stage = True
    options.stage_subgraph_on_cpu = on_cpu
    return config


def test_a_model_without_lookups_has_a_smart_stage_beside_async_embedding() -> None:
    inputs = models.features()
    models.train([tf.exp(inputs["dense"])], inputs)
    _, result = _staged(_with_async())
    assert [stage.name for stage in result.stages] == ["smart_stage"]
    assert "moved ahead" in result.report.smart_stage
    assert "no embedding lookup" not in str(result.report)


def test_what_stands_beside_lookups_runs_ahead_with_them() -> None:
    inputs = models.features()
    rows = tf.nn.embedding_lookup(models.table(), inputs["other"])
    free = tf.exp(inputs["dense"], name="free")
    target = tf.sqrt(inputs["dense"], name="target")
    mark_target_node([target])
    scale = tf.get_variable("scale", initializer=1.0)
    trained = tf.multiply(tf.sin(inputs["dense"], name="sin"), scale, name="trained")
    models.train([rows, free, target, trained], inputs)
    tf.cos(inputs["dense"], name="unread")
    ahead, result = _staged(_with_async())
    assert [stage.name for stage in result.stages] == ["async_embedding"]
    assert {"free", "sin"} <= set(ahead) and not {"target", "trained", "unread"} & set(ahead)
    assert {"free:0", "sin:0"} <= set(models.boundary_names(result))
    assert "nodes more moved ahead of the step with the lookups" in str(result.report)
    assert "no smart stage" not in str(result.report)
    assert "no effect" not in result.report.smart_stage


def test_where_nothing_stands_beside_lookups_the_report_says_so() -> None:
    inputs = models.features()
    tf.nn.embedding_lookup(models.table(), inputs["other"])
    _, result = _staged(_with_async())
    assert "do_async_embedding runs the lookups ahead" in result.report.left_alone[0]


@pytest.mark.parametrize("on_cpu", [False, True])
def test_lookups_keep_their_device_where_the_rest_runs_on_the_cpu(on_cpu: bool) -> None:
    with tf.device("/device:GPU:0"):
        inputs = models.features()
        rows = tf.nn.embedding_lookup(models.table(), inputs["other"])
        models.train([rows, tf.exp(inputs["dense"], name="free")], inputs)
    config = _with_async(on_cpu)
    config.graph_options.optimizer_options.smart_stage_options.capacity = 5
    _, result = _staged(config)
    assert "smart_stage_options have no effect" in result.report.smart_stage
    devices = {node.name: node.device for node in result.graph_def.node}
    assert devices["async_embedding/free"] == "/device:{}:0".format("CPU" if on_cpu else "GPU")
    assert devices["async_embedding/embedding_lookup"] == "/device:GPU:0"


def test_the_stage_is_made_as_its_options_say() -> None:
    config = _config(capacity=3)
    options = config.graph_options.optimizer_options
    options.stage_subgraph_on_cpu = True
    options.smart_stage_options.name = "ahead"
    options.smart_stage_options.num_clients = 2
    options.smart_stage_options.ignored_exceptions.append(tf.errors.DATA_LOSS)
    with tf.device("/job:worker/task:1/device:GPU:0"):
        inputs = models.features()
        models.train([tf.exp(inputs["dense"])], inputs)
    _, result = _staged(config)
    (stage,) = result.stages
    assert stage.name == "ahead" and stage.io_stage == "ahead_io" and stage.inferred
    nodes = [node for node in result.graph_def.node if node.name.startswith("ahead")]
    assert nodes
    assert {node.device for node in nodes} == {"/job:worker/task:1/device:CPU:0"}
    (put,) = [node for node in nodes if node.name == "ahead/TensorBufferPut"]
    assert put.attr["shared_capacity"].i == 6
    assert list(put.attr["_stage_ignored_codes"].list.i) == [tf.errors.DATA_LOSS]


@pytest.mark.parametrize("sources", [0, 1, 2])
def test_where_nothing_can_run_ahead_the_report_says_why(sources: int) -> None:
    weights = tf.get_variable("weights", [4])
    for seed in range(sources):
        dense = models.features(seed=seed)["dense"]
        tf.multiply(dense if sources == 1 else tf.exp(dense), weights)
    reason = (
        "the graph has no IO stage, iterator or queue",
        "nothing but variables and state reads the batch of 'IteratorGetNext'",
        "several iterators or queues (IteratorGetNext, IteratorGetNext_1); wrap",
    )[sources]
    _, result = _staged(_config())
    assert result.stages == ()
    assert reason in result.report.left_alone[0]
    assert reason in str(result.report)


def test_graphs_that_train_nothing_stay_as_they_are_in_monitored_sessions() -> None:
    with tf.Graph().as_default() as graph:
        inputs = models.features()
        mean = tf.reduce_mean(tf.exp(inputs["dense"]) * tf.get_variable("scale", [4]))
        tf.train.get_or_create_global_step()
        with graph_opt.install(_config()), tf.train.MonitoredSession() as session:
            session.run(mean)
        assert not any(op.type == "TensorBufferPut" for op in graph.get_operations())
        assert "there is no smart stage" in str(graph_opt.report(graph))


def test_a_loop_that_reads_the_batch_stays_in_the_step_with_what_reads_it() -> None:
    inputs = models.features()
    dense = tf.log1p(inputs["dense"], name="moves")
    with control_flow_v2(False):
        _, total = tf.while_loop(
            lambda step, _: step < 2,
            lambda step, total: (step + 1, total + tf.reduce_sum(inputs["dense"], 0)),
            [tf.constant(0), tf.zeros([4])],
        )
    shifted = tf.add(dense, total, name="stays")
    loss = tf.reduce_sum(shifted * tf.get_variable("scale", [4]))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    passed = ran_pass("smart_stage", _config())
    assert "smart_stage/moves" in passed.view and "smart_stage/stays" not in passed.view
    assert "smart_stage/TensorBufferTake" not in passed.view.ancestors(
        ["smart_stage/TensorBufferPut"]
    )


def _losses_of_loop(config: Any) -> List[float]:
    session_class = graph_opt.Session if config is not None else tf.Session
    with tf.Graph().as_default(), control_flow_v2(True):
        dataset = tf.data.Dataset.range(4 * BATCH).batch(BATCH, drop_remainder=False)
        numbers = tf.cast(tf.data.make_one_shot_iterator(dataset).get_next(), tf.float32)
        scale = tf.get_variable("scale", initializer=0.01)
        waves = tf.map_fn(lambda number: tf.sin(number * scale), tf.log1p(numbers))
        loss = tf.reduce_mean(waves)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with session_class(config=config) as session:
            session.run(tf.global_variables_initializer())
            return [session.run([loss, train])[0] for _ in range(4)]


def test_lists_that_a_loop_fills_for_its_gradient_stay_with_the_loop() -> None:
    assert _losses_of_loop(_config()) == _losses_of_loop(None)
