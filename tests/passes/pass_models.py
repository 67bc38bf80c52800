"""For each pass, small models that it changes.

A function builds its model in the default graph; it returns a GraphDef only if it has to change
one by hand.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.config import ConfigProto
from graph_opt.config.options import Ranks
from graph_opt.dynamic.options import DynamicTableOptions
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.runtime.staged import staged
from graph_opt.sharding.in_process import InProcessGroup
from graph_opt.sharding.initializers import Constant
from graph_opt.sok.communication import communicating_through
from tests.control_flow import control_flow_v2
from tests.passes import fused_models, models
from tests.passes.micro_batches import test_micro_batches as parts
from tests.passes.one_pass import Passed, ran_pass
from tests.passes.pipeline.delayed_training import pipelining
from tests.passes.refused_tables import sent_through_horovod
from tests.passes.summed_batches import batch_models
from tests.passes.transfers import dense_models
from tests.session import test_exact_rows as exact
from tests.sharding import exact_ranks

WORKER = "/job:worker/task:0"
SERVERS = frozenset("/job:ps/task:{}/device:CPU:0".format(number) for number in range(2))


class Model(NamedTuple):
    """A model that a pass changes.

    Attributes:
      pass_name: The pass.
      build: Builds it; returns its GraphDef or None, which means the default graph.
      config: The ConfigProto with which the pass changes it.
      known: What else sessions know; see `ran_pass`.
    """

    pass_name: str
    build: Callable[[], Optional[Any]]
    config: Any
    known: Dict[str, Any]

    def ran(self, **known: Any) -> Passed:
        """The pass on the model."""
        graph_def = self.build()
        return ran_pass(self.pass_name, self.config, graph_def, **{**self.known, **known})


MODELS: Dict[str, Model] = {}


def changed_by(pass_name: str, config: Any, **known: Any) -> Callable[[Any], Any]:
    """Registers a model that a pass changes."""

    def register(build: Any) -> Any:
        key = "{}: {}".format(pass_name, build.__name__)
        MODELS[key + "'" * (key in MODELS)] = Model(pass_name, build, config, known)
        return build

    return register


def batch() -> Any:
    """One batch of `models.features`."""
    return models.features()


def smart() -> Any:
    """A config with a smart stage."""
    made = ConfigProto()
    made.graph_options.optimizer_options.do_smart_stage = True
    made.graph_options.optimizer_options.smart_stage_options.capacity = 2
    return made


def sharding() -> Any:
    """A config that shards all tables across ranks."""
    made = ConfigProto()
    options = made.graph_options.optimizer_options
    options.shard_tables = True
    options.shard_tables_options.min_table_bytes = 1
    return made


def sampling() -> Any:
    """A config whose fused lookups run ahead, and of which some steps are sampled."""
    made = exact.config(1, 2, exact=False)
    ahead = made.graph_options.optimizer_options.async_embedding_options
    ahead.staleness_sample_steps = 1
    return made


def limiting() -> Any:
    """A config in which rows of one table may miss one update."""
    made = exact.config(1, 8, exact=False)
    ahead = made.graph_options.optimizer_options.async_embedding_options
    limit = ahead.staleness_limit.add()
    limit.table, limit.updates = "shared", 1
    return made


def trained(pooled: Any, optimizer: Any = None) -> Any:
    """A step on rows."""
    loss = tf.reduce_mean(tf.square(tf.concat(pooled, 1)), name="loss")
    return (optimizer or tf.train.AdagradOptimizer(0.1)).minimize(loss)


def on_servers(servers: int) -> Any:
    """The device function of tables on servers."""
    return tf.train.replica_device_setter(servers, worker_device=WORKER)


# Several batches in a step.


@changed_by("summed_batches", batch_models.config(2))
@changed_by("take_turns", batch_models.config(3))
def two_tables() -> None:
    features = tf.data.make_one_shot_iterator(batch_models.dataset(4)).get_next()
    tf.train.AdagradOptimizer(0.1).minimize(batch_models.with_tables(features))


@changed_by("summed_batches", batch_models.config(2, ahead=True))
def frozen_tables_ahead() -> None:
    features = tf.data.make_one_shot_iterator(batch_models.dataset(4)).get_next()
    tf.train.AdamOptimizer(0.1).minimize(batch_models.frozen(features))


@changed_by("summed_batches", batch_models.config(2))
@changed_by("take_turns", batch_models.config(2))
def a_loop_of_layers() -> None:
    dense = batch()["dense"]
    weights = tf.get_variable("weights", [4, 4])
    with control_flow_v2(False):
        _, hidden = tf.while_loop(
            lambda step, _: step < 2,
            lambda step, hidden: (step + 1, tf.matmul(hidden, weights)),
            [tf.constant(0), dense],
        )
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(hidden))


@changed_by("summed_batches", batch_models.config(2))
def branches_in_functions() -> None:
    features = tf.data.make_one_shot_iterator(batch_models.dataset(4)).get_next()
    with control_flow_v2(True):
        tf.train.GradientDescentOptimizer(0.1).minimize(batch_models.branches(features))


# Tables sharded across ranks.


@changed_by("shard_tables", sharding(), ranks=Ranks(0, 2, "group"))
def a_table_sent_through_horovod() -> Any:
    table = models.table()
    rows = tf.nn.embedding_lookup(table, batch()["other"])
    return sent_through_horovod(rows, table)


# Fusion.


@changed_by("compact_gradients", fused_models.config())
def gradients_as_large_as_tables() -> None:
    rows = tf.nn.embedding_lookup(fused_models.table("one"), fused_models.batches()["one"])
    optimizer = tf.train.AdamOptimizer(0.1)
    ((gradient, table),) = optimizer.compute_gradients(tf.reduce_sum(tf.square(rows)))
    halves = tf.convert_to_tensor(gradient) * tf.linspace(0.5, 1.5, 4)
    optimizer.apply_gradients([(halves, table)])


@changed_by("read_unknown_keys", fused_models.config(fuse_inference=True))
def a_dynamic_table_that_serves() -> None:
    table = DynamicTableVariable("table", 2, DynamicTableOptions(Constant(1.0)))
    tf.nn.embedding_lookup(table, fused_models.batches()["one"])


def _fused(resource: bool, shards: int, optimizer: Any) -> None:
    inputs = fused_models.batches()
    ids = tf.sparse.from_dense(inputs["ids"])
    pooled = [
        tf.nn.safe_embedding_lookup_sparse(fused_models.table("one", 4, resource, shards), ids),
        tf.nn.safe_embedding_lookup_sparse(fused_models.table("two", 3, resource), ids),
        tf.nn.embedding_lookup(fused_models.table("three", 2, resource), inputs["one"]),
    ]
    optimizer.minimize(fused_models.loss_of(pooled, inputs))


@changed_by("fuse_group_embedding", fused_models.config())
def reference_tables() -> None:
    _fused(False, 2, tf.train.AdagradOptimizer(0.1))


@changed_by("fuse_group_embedding", fused_models.config())
def resource_tables_and_adam() -> None:
    _fused(True, 1, tf.train.AdamOptimizer(0.1))


@changed_by("fuse_group_embedding", fused_models.config(), servers_with_ops=SERVERS)
def tables_on_servers() -> None:
    with tf.device(on_servers(2)):
        _fused(False, 2, tf.train.AdagradOptimizer(0.1))


@changed_by("fuse_group_embedding", fused_models.config())
def averaged_tables_and_adam() -> None:
    rows = tf.nn.embedding_lookup(fused_models.table("one"), fused_models.batches()["one"])
    step = trained([rows], tf.train.AdamOptimizer(0.1))
    with tf.control_dependencies([step]):
        tf.train.ExponentialMovingAverage(0.9).apply(tf.trainable_variables())


# Lookups ahead.


def _bags(name: str, inputs: Any) -> Any:
    table = exact.table(name, 4)
    return tf.nn.safe_embedding_lookup_sparse(table, exact.sparse(inputs), combiner="sum")


@changed_by("exact_rows", exact.config(1, 1))
@changed_by("exact_rows", limiting())
@changed_by("note_updates", sampling(), async_embedding={"is_sampled": True})
@changed_by("sample_lookups", sampling(), async_embedding={"is_sampled": True})
def shared_tables() -> None:
    inputs = exact.batches(2)
    trained([*exact.shared_table(inputs), _bags("own", inputs)])


@changed_by("exact_rows", exact.config(1, 1), servers_with_ops=SERVERS)
@changed_by(
    "note_updates",
    sampling(),
    servers_with_ops=SERVERS,
    async_embedding={"is_sampled": True},
)
def shared_tables_on_servers() -> None:
    with tf.device(on_servers(2)):
        shared_tables()


@changed_by("exact_rows", exact.config(1, 1))
def a_table_sharded_across_ranks() -> None:
    with communicating_through(InProcessGroup(2).transport(0)):
        inputs = exact.batches(2)
        table = exact_ranks.table("t", 4)
        ids = [exact.sparse(inputs)]
        trained(list(sok.lookup_sparse([table], ids, [None], combiners=["mean"])))


@changed_by("meet_other_ranks", fused_models.config(), ranks=Ranks(0, 2, "group"))
def a_message_in_a_conditional() -> None:
    rows = tf.nn.embedding_lookup(models.table(), batch()["other"])
    transport = InProcessGroup(2).transport(0)
    with control_flow_v2(True):
        total = tf.reduce_sum(rows)
        sent = tf.cond(
            tf.constant(True), lambda: transport.all_reduce(total, "sum", "n"), lambda: total
        )
    tf.identity(sent, name="all")


@changed_by("sample_lookups", models.config(staleness_sample_steps=1),
            async_embedding={"is_sampled": True})  # fmt: skip
@changed_by("async_embedding", models.config())
def a_safe_lookup() -> None:
    models.safe_model(resource=True)


@changed_by("async_embedding", models.config(threads_num=3, infer_io_stage=False))
def a_staged_batch() -> None:
    inputs = staged(batch())
    rows = tf.nn.embedding_lookup(models.table(), inputs["other"])
    models.train([rows], inputs)


@changed_by("async_embedding", models.config())
def a_branch_before_the_lookup() -> None:
    inputs = batch()
    with control_flow_v2(False):
        some = tf.reduce_sum(inputs["other"]) > 0
        ids = tf.cond(some, lambda: inputs["other"] + 0, lambda: inputs["other"] * 0)
    models.train([tf.nn.embedding_lookup(models.table(), ids)], inputs)


@changed_by("async_embedding", models.config())
def one_of_two_inputs() -> None:
    dataset = tf.data.Dataset.range(9).batch(3)
    handle = tf.placeholder(tf.string, [])
    tf.data.make_one_shot_iterator(dataset).string_handle()
    tf.data.make_initializable_iterator(dataset).string_handle()
    ids = tf.data.Iterator.from_string_handle(handle, tf.int64, [None]).get_next()
    trained([tf.nn.embedding_lookup(models.table(), ids)])


@changed_by("async_embedding", models.config())
def a_condition_that_chooses_the_input() -> None:
    dataset = tf.data.Dataset.range(9).batch(3)
    with control_flow_v2(False):
        inputs = [tf.data.make_one_shot_iterator(dataset) for _ in range(2)]
        ids = tf.cond(
            tf.placeholder(tf.bool, []), lambda: inputs[0].get_next(), lambda: inputs[1].get_next()
        )
    trained([tf.nn.embedding_lookup(models.table(), ids)])


@changed_by("smart_stage", smart())
def decoded_words() -> None:
    words = tf.data.Dataset.from_tensor_slices([["1.0,0.5"] * 8]).batch(4)
    texts = tf.data.make_one_shot_iterator(words).get_next()
    label, price = tf.decode_csv(texts, [[0.0], [0.0]])
    weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.log1p(price) * weight - label))
    tf.train.AdagradOptimizer(0.1).minimize(loss)


# Batches in parts.


@changed_by("micro_batches", parts.config(3))
def fed_to_layers() -> None:
    inputs = tf.placeholder(tf.float32, [None, 6])
    labels = tf.placeholder(tf.float32, [None, 1])
    loss = parts.mean_of_rows(parts.layers(inputs, (4, 1)), labels)
    tf.train.AdamOptimizer(0.1).minimize(loss)


@changed_by("micro_batches", parts.config(2, grouped=True))
def looked_up_by_one_op() -> None:
    inputs = batch()
    rows = tf.nn.embedding_lookup(models.table(), inputs["other"])
    models.train([rows], inputs)


# Messages of dense layers.


def _layers(resource: bool, optimizer: Any) -> None:
    inputs = batch()
    logits = dense_models.layers(inputs["dense"], resource, (3, 1))[:, 0]
    loss = tf.reduce_mean(tf.square(logits - inputs["label"]))
    optimizer.minimize(loss, tf.train.get_or_create_global_step())


@changed_by("pack_dense", dense_models.packing())
@changed_by("pipeline_dense", pipelining(1))
def layers_on_two_servers() -> None:
    with tf.device(on_servers(2)):
        _layers(True, tf.train.AdamOptimizer(0.1))


@changed_by("pack_dense", dense_models.packing())
@changed_by("pipeline_dense", pipelining(0))
def reference_layers_on_a_server() -> None:
    with tf.device(on_servers(1)):
        _layers(False, tf.train.AdagradOptimizer(0.1))


# Gathers that stay TensorFlow's.


@changed_by("protect_gathers", models.config())
def a_lookup_behind_a_variable() -> None:
    inputs = batch()
    ids = tf.sparse.from_dense(inputs["ids"])
    shift = tf.get_variable("shift", [], tf.int64, tf.zeros_initializer(), use_resource=False)
    ids = tf.SparseTensor(ids.indices, ids.values + shift, ids.dense_shape)
    pooled = tf.nn.safe_embedding_lookup_sparse(models.table(resource=True), ids, combiner="mean")
    models.train([pooled], inputs)


@changed_by("parse_examples", fused_models.config())
def lookups_of_examples() -> None:
    names = ["feature_{}".format(number) for number in range(8)]
    wanted: Dict[str, Any] = {name: tf.VarLenFeature(tf.int64) for name in names}
    wanted["price"] = tf.FixedLenFeature([1], tf.float32, [0.5])
    parsed = tf.io.parse_example(tf.placeholder(tf.string, [None]), wanted)
    pooled = [
        tf.nn.safe_embedding_lookup_sparse(fused_models.table(name), parsed[name], combiner="sum")
        for name in names
    ]
    tf.multiply(parsed["price"], tf.add_n(pooled), name="scores")


@changed_by("dense_categories", fused_models.config(), served=(frozenset(["scores"]),))
def lookups_of_dense_strings() -> None:
    names = ["feature_{}".format(number) for number in range(2)]
    hashed = [tf.feature_column.categorical_column_with_hash_bucket(name, 10) for name in names]
    columns = [tf.feature_column.embedding_column(one, 4) for one in hashed]
    features = {name: tf.placeholder(tf.string, [None, 2]) for name in names}
    tf.reduce_sum(tf.feature_column.input_layer(features, columns), 1, name="scores")
