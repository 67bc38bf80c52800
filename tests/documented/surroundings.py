"""What stands around the code of each page of docs/ that shows Python."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any, Dict, Iterator, Tuple

import graph_opt
import graph_opt.sok
from graph_opt import distributed_embeddings as de
from graph_opt.compat import tf
from graph_opt.rules.lookups.embedding_lookup import rows_of
from graph_opt.rules.match.pattern import op
from graph_opt.rules.op_names import UNIQUES
from tests.session.parameter_servers import free_addresses

Names = Dict[str, Any]
Around = Iterator[str]  # yields before each block: "", or how to run it

FOR_EVER = "forever"  # a block that does not return

ROWS = 64
STEPS = 3


def batches(steps: int = STEPS) -> Any:
    """A dataset of users and items, [8] each."""
    numbers = tf.data.Dataset.range(8 * steps)
    return numbers.map(lambda i: (i % ROWS, i * 7 % ROWS)).batch(8)


def next_batch(steps: int = STEPS) -> Tuple[Any, Any]:
    """Tensors of the next batch."""
    users, items = tf.data.make_one_shot_iterator(batches(steps)).get_next()
    return users, items


def bags(ids: Any) -> Any:
    """A SparseTensor of one id a row."""
    count = tf.size(ids, out_type=tf.int64)
    rows = tf.range(count)
    return tf.SparseTensor(tf.stack([rows, tf.zeros_like(rows)], 1), ids, tf.stack([count, 1]))


def loss_of(pooled: Any) -> Any:
    """Something to minimize."""
    return tf.reduce_mean(tf.square(tf.layers.dense(pooled, 1) - 1.0))


def trained(pooled: Any) -> Tuple[Any, Any]:
    """A loss, and the op that minimizes it."""
    loss = loss_of(pooled)
    step = tf.train.get_or_create_global_step()
    return loss, tf.train.AdagradOptimizer(0.1).minimize(loss, step)


def asynchronous() -> Any:
    """A config that fuses lookups and runs them ahead."""
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = options.do_async_embedding = True
    options.async_embedding_options.threads_num = 1
    options.async_embedding_options.capacity = 2
    options.async_embedding_options.infer_io_stage = True
    return config


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    """An Estimator's model with one table."""
    table = tf.get_variable("table", [ROWS, 4])
    loss, train = trained(tf.nn.embedding_lookup(table, features))
    metrics = {"mean": tf.metrics.mean(loss)}
    scores = {"scores": tf.reduce_sum(tf.nn.embedding_lookup(table, features), 1)}
    return tf.estimator.EstimatorSpec(mode, scores, loss, train, eval_metric_ops=metrics)


def receiver() -> Any:
    """What a model server is sent."""
    ids = tf.placeholder(tf.int64, [None], "ids")
    return tf.estimator.export.TensorServingInputReceiver(ids, {"ids": ids})


def architecture_passes(names: Names) -> Around:
    """A pattern of the language of rules."""
    names.update(op=op, UNIQUES=UNIQUES, rows_of=rows_of, ids=op("Placeholder"))
    names.update(segments=op("Placeholder"))
    yield ""


def command_check(names: Names) -> Around:
    """A check inside a program."""
    names.update(_trained_graph())
    yield ""
    assert names["result"].verdict in ("equal", "rounding")


def graph_page(names: Names) -> Around:
    """The page of a session."""
    names.update(_trained_graph())
    yield ""
    assert "<html" in Path("report.html").read_text("utf-8")


def monitor(names: Names) -> Around:
    """A training that writes summaries."""
    names.update(_trained_graph())
    yield ""
    assert list(Path("model").glob("events.out.tfevents.*"))


def _trained_graph() -> Names:
    user, item = next_batch(100)
    tables = [tf.get_variable(name, [ROWS, 4]) for name in ("users", "items")]
    rows = [tf.nn.embedding_lookup(*pair) for pair in zip(tables, (user, item))]
    loss, train_op = trained(tf.concat(rows, 1))
    names = dict(graph_opt=graph_opt, graph=tf.get_default_graph(), config=asynchronous())
    return dict(names, loss=loss, train_op=train_op)


def distributed_embeddings(names: Names) -> Around:
    """Eager steps of one rank."""
    graph_opt.sok.init("single")
    batch = {name + "_ids": tf.constant([[1, 2]]) for name in ("user", "item", "day")}
    names.update(de=de, **batch)
    yield ""
    layer = names["layer"]
    assert [names[name].shape for name in ("users", "items", "days")] == [(1, 16)] * 3

    class Model:
        trainable_variables = layer.trainable_variables

        def __call__(self, batch: Any) -> Any:
            return tf.concat(layer(batch), 1)

    names.update(model=Model(), batch=list(batch.values()), loss_of=tf.reduce_sum)
    yield ""
    assert len(names["gradients"]) == len(layer.trainable_variables)


def dynamic_tables(names: Names) -> Around:
    """A table, and a lookup of sentences."""
    graph_opt.install()
    users, _ = next_batch()
    names.update(user_ids=bags(users))
    yield ""
    assert names["pooled"].shape[1] == 16
    words = tf.sparse.from_dense([[[1, 2], [3, 0]], [[2, 0], [0, 0]]])  # of sentences
    names.update(table=tf.get_variable("words", [ROWS, 4]), words=words)
    yield ""
    assert names["rows"].shape.as_list() == [2, 4]


def dynamic_columns(names: Names) -> Around:
    """A column of a dynamic table."""
    graph_opt.install()
    users, _ = next_batch()
    names.update(option=graph_opt.EmbeddingVariableOption(), features={"user": users})
    yield ""
    assert names["layer"].shape[1] == 16


def dynamic_checkpoints(names: Names) -> Around:
    """Increments between checkpoints, and a process that follows them."""
    graph_opt.install()
    users, _ = next_batch()
    table = graph_opt.get_embedding_variable("users", 16)
    trained(tf.nn.embedding_lookup_sparse(table, bags(users), None))
    names.update(graph_opt=graph_opt)
    yield ""
    assert tf.train.latest_checkpoint("model")
    estimator = tf.estimator.Estimator(model_fn, "counted")
    names.update(estimator=estimator, input_fn=lambda: batches().map(lambda user, item: user))
    yield ""
    assert estimator.get_variable_value("global_step") == STEPS
    with tf.Graph().as_default():
        _save_with_increment()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_default_graph()._unsafe_unfinalize()
        names.update(session=session)
        yield ""
        assert session.run("steps:0") == 1200


def _save_with_increment() -> None:
    steps = tf.get_variable("steps", initializer=1000)
    saver = tf.train.Saver()
    incremental = graph_opt.train.IncrementalSaver(saver)
    with tf.Session() as session:
        session.run(steps.initializer)
        saver.save(session, "model.ckpt", 1000)
        session.run(steps.assign(1200))
        incremental.save_in(session, "model", 1200)


def errors(names: Names) -> Around:
    """A dataset whose second batch is bad."""
    users, _ = next_batch()
    users = tf.where(tf.equal(users, 9), tf.fill([8], tf.constant(ROWS, tf.int64)), users)
    _, train_op = trained(tf.nn.embedding_lookup(tf.get_variable("users", [ROWS, 4]), users))
    with graph_opt.Session(config=asynchronous()) as session:
        session.run(tf.global_variables_initializer())
        names.update(session=session, train_op=train_op)
        yield ""
        assert session.run(tf.train.get_global_step()) == STEPS - 1


def group_lookups(names: Names) -> Around:
    """A server, and a model that calls the op."""
    (address,) = free_addresses(1)
    names.update(graph_opt=graph_opt, cluster=tf.train.ClusterSpec({"ps": [address]}))
    yield FOR_EVER
    with tf.Session("grpc://" + address) as session:
        assert session.run(tf.constant(1)) == 1
    users, items = next_batch()
    for name in ("user", "item"):
        names[name + "_table"] = tf.get_variable(name, [ROWS, 4])
    names.update(user_ids=bags(users), item_ids=bags(items))
    column = tf.feature_column.categorical_column_with_identity
    names["categories"] = [column(name, ROWS) for name in ("user", "item")]
    yield ""
    pooled = tf.feature_column.input_layer({"user": users, "item": items}, names["columns"])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(pooled).shape == (8, 32)


def options(names: Names) -> Around:
    """A config that a session takes."""
    names.update(graph_opt=graph_opt)
    yield ""
    with graph_opt.Session(config=names["config"]) as session:
        assert session.run(tf.constant(1)) == 1


def served_model(features: Any) -> Any:
    """What a server computes."""
    user = tf.get_variable("user", [ROWS, 4])
    return tf.reduce_sum(tf.nn.embedding_lookup(user, features["user"]), 1)


def _checkpoint(name: str, step: int) -> str:
    """Saves such a model with initial values of its own."""
    with tf.Graph().as_default(), tf.Session() as session:
        served_model({"user": tf.constant([1])})
        session.run(tf.global_variables_initializer())
        return str(tf.train.Saver().save(session, name, step))


def serving(names: Names) -> Around:
    """A model that is loaded into a session."""
    with tf.Graph().as_default(), tf.Session() as session:
        users = tf.placeholder(tf.int64, [None])
        scores = served_model({"user": users})
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, "export/1", {"user": users}, {"scores": scores})
    yield ""
    assert "serving_default" in names["model"].signature_def


def serving_tables(names: Names) -> Around:
    """A server that gets an update."""
    with tf.Graph().as_default(), tf.Session() as session:
        users = tf.placeholder(tf.int64, [None])
        scores = served_model({"user": users})
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, "export", {"user": users}, {"scores": scores})
    graph_opt.export_fused("export", "served/1", map_tables=True)
    graph_opt.update_served("served/1", [_checkpoint("model/later.ckpt", 2)])
    graph_opt.load_op_library()
    with tf.Graph().as_default(), tf.Session() as session:
        names.update(session=session)
        yield ""
        update = names["update"]
        asked = {update.inputs["path"].name: ""}
        assert session.run(update.outputs["version"].name, asked) == 2


def exporting(names: Names) -> Around:
    """A model that was trained, and one of a rank."""
    _checkpoint("model/model.ckpt", 1)
    names.update(model=served_model)
    yield ""
    graph_opt.sok.init("single")
    ids = tf.placeholder(tf.int64, [None])
    table = graph_opt.sok.Variable(shape=[ROWS, 4], initializer="ones", name="users")
    scores = tf.reduce_sum(tf.nn.embedding_lookup(table, ids), 1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        names.update(sok=graph_opt.sok, session=session, user_ids=ids, scores=scores)
        yield ""
    for folder in ("export", "export/1"):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.saved_model.loader.load(session, ["serve"], folder)


def sharding(names: Names) -> Around:
    """One rank of Horovod."""
    users, items = next_batch(50)
    names.update(user_ids=bags(users), item_ids=bags(items))
    yield ""
    assert names["pooled_users"].shape[1] == 16
    yield ""
    names.update(loss=loss_of(tf.concat([names["pooled_users"], names["pooled_items"]], 1)))
    names.update(average=lambda gradients: gradients)
    yield ""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(names["train"])


def _sharded_tables() -> Names:
    """A rank of Horovod that trains two tables."""
    import horovod.tensorflow as hvd

    hvd.init()
    graph_opt.sok.init()
    tf.train.get_or_create_global_step()
    users, items = (
        graph_opt.sok.Variable(shape=[ROWS, 16], initializer="uniform", name=name)
        for name in ("users", "items")
    )
    ids = [bags(one) for one in next_batch(50)]
    pooled = graph_opt.sok.lookup_sparse([users, items], ids, combiners=["sum", "mean"])
    optimizer = graph_opt.sok.OptimizerWrapper(tf.train.AdamOptimizer(0.001))
    gradients = tf.gradients(loss_of(tf.concat(pooled, 1)), [users, items])
    train = optimizer.apply_gradients(zip(gradients, [users, items]))
    names = dict(hvd=hvd, sok=graph_opt.sok, users=users, items=items, pooled_users=pooled[0])
    return dict(names, train=train, table_optimizer=optimizer)


def sharding_checkpoints(names: Names) -> Around:
    """A training that saves in each way."""
    names.update(_sharded_tables(), datetime=datetime)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(names["train"])
        yield ""
        yield ""
    yield ""
    yield ""
    assert tf.train.latest_checkpoint("model")


def sharding_failures(names: Names) -> Around:
    """A dataset that ranks end together, and a collective of the script."""
    names.update(_sharded_tables(), dataset=tf.data.Dataset.range(8), labels=tf.ones([50]))
    yield ""
    yield ""
    assert names["all_examples"].shape == ()


def sok(names: Names) -> Around:
    """A layer of release 1."""
    keys = bags(tf.range(26 * 8, dtype=tf.int64))
    names.update(sok=graph_opt.sok, keys=keys, loss_of=loss_of)
    yield ""


def strategies(names: Names) -> Around:
    """One rank."""
    graph_opt.install()
    users, _ = next_batch()
    names.update(ids=bags(users), loss_of=loss_of)
    yield ""
    assert tf.train.latest_checkpoint("model").endswith("-{}".format(STEPS))
    shutil.rmtree("model")

    def items() -> Any:
        return batches().map(lambda user, item: item)

    def signature() -> Any:
        ids = receiver().features
        scores = model_fn(ids, None, "infer").predictions
        return tf.saved_model.predict_signature_def({"ids": ids}, scores)

    names.update(model_fn=model_fn, run_config=None, serving_input_receiver_fn=receiver)
    names.update(train_spec=tf.estimator.TrainSpec(items), eval_spec=tf.estimator.EvalSpec(items))
    names.update(signature=signature)
    yield ""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], "served/1")
