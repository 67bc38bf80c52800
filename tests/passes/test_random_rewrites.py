"""Random small models and options: what passes make of them is legal, repeatable, told once."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.config import ConfigProto
from graph_opt.config.options import SessionOptions
from graph_opt.runtime.staged import staged
from tests.control_flow import control_flow_v2
from tests.passes import models
from tests.passes.legal_rewrites import require_legal_rewrite
from tests.passes.one_pass import options_of
from tests.passes.pass_models import SERVERS, on_servers

Change = Callable[[Any], Any]


class Model(NamedTuple):
    """A model: its lookups by kind, what is done to ids and numbers before them, where it is."""

    lookups: List[str]
    ids: str
    dense: str
    resource: bool
    shards: int
    optimizer: str
    servers: int
    staged: bool
    several_steps: bool


class Asked(NamedTuple):
    """Options, by the name of what they turn on."""

    group: bool
    ahead: str
    smart: bool
    batches: str
    pipeline: bool
    adam: str


def _looped(tensor: Any) -> Any:
    total = tf.reduce_sum(tensor, 0, keepdims=True)
    with control_flow_v2(False):
        return tf.while_loop(
            lambda step, _: step < 2,
            lambda step, turned: (step + 1, turned + total),
            [tf.constant(0), tensor * 0],
            shape_invariants=[tf.TensorShape([]), tensor.shape],
        )[1]


def _branched(tensor: Any, functions: bool) -> Any:
    with control_flow_v2(functions):
        chosen = tf.cond(tf.reduce_sum(tensor) > 3, lambda: tensor * 1, lambda: tensor * 0)
    chosen.set_shape(tensor.shape)
    return chosen


def _waiting(tensor: Any) -> Any:
    with tf.control_dependencies([tf.debugging.assert_non_negative(tf.reduce_sum(tensor))]):
        return tf.identity(tensor)


def _counted(tensor: Any) -> Any:
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        name = "seen_{}".format(tensor.dtype.name)
        seen = tf.get_variable(name, [], tensor.dtype, tf.zeros_initializer(), trainable=False)
    with tf.control_dependencies([tf.assign_add(seen, tf.reduce_sum(tensor))]):
        return tf.identity(tensor)


CHANGES: Dict[str, Change] = {
    "as they are": lambda tensor: tensor,
    "in a branch": lambda tensor: _branched(tensor, False),
    "in a function": lambda tensor: _branched(tensor, True),
    "in a loop": _looped,
    "behind a check": _waiting,
    "counted": _counted,
    "with a fed number": lambda tensor: tensor + tf.placeholder(tensor.dtype, []) * 0,
    "by python": lambda tensor: tf.ensure_shape(
        tf.py_func(lambda value: value, [tensor], tensor.dtype), tensor.shape
    ),
}
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
}
_LOOKUPS = ("rows", "rows again", "bags", "safe bags", "weighted bags", "unused")
_MODELS = st.builds(
    Model,
    lookups=st.lists(st.sampled_from(_LOOKUPS), max_size=3),
    ids=st.sampled_from(sorted(CHANGES)),
    dense=st.sampled_from(sorted(CHANGES)),
    resource=st.booleans(),
    shards=st.sampled_from([1, 1, 2]),
    optimizer=st.sampled_from(sorted(OPTIMIZERS)),
    servers=st.sampled_from([0, 0, 1, 2]),
    staged=st.booleans(),
    several_steps=st.sampled_from([False, False, True]),
)
_ASKED = st.builds(
    Asked,
    group=st.booleans(),
    ahead=st.sampled_from(["", "ahead", "exact", "limited", "sampled"]),
    smart=st.booleans(),
    batches=st.sampled_from(["", "", "batches", "parts"]),
    pipeline=st.booleans(),
    adam=st.sampled_from(["deferred", "lazy", "stock"]),
)


def _lookup(kind: str, number: int, inputs: Any, model: Model) -> Any:
    name = "table_{}".format(0 if kind == "rows again" else number)
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        table = models.table(name, model.resource, model.shards)
    ids = CHANGES[model.ids](inputs["other"])
    if kind in ("rows", "rows again", "unused"):
        rows = tf.nn.embedding_lookup(table, ids)
        return None if kind == "unused" else rows
    bags = tf.sparse.from_dense(tf.stack([ids, inputs["ids"][:, 0]], 1))
    weights = None
    if kind == "weighted bags":
        weights = tf.SparseTensor(bags.indices, tf.cast(bags.values, tf.float32), bags.dense_shape)
    if kind == "bags":
        return tf.nn.embedding_lookup_sparse(table, bags, None, combiner="sum")
    return tf.nn.safe_embedding_lookup_sparse(table, bags, weights, combiner="mean")


def build(model: Model) -> Any:
    """The GraphDef of a model."""
    with tf.Graph().as_default():
        with tf.device(on_servers(model.servers) if model.servers else None):
            inputs = models.features()
            inputs = staged(inputs) if model.staged else inputs
            found = [_lookup(kind, i, inputs, model) for i, kind in enumerate(model.lookups)]
            pooled = [tf.reshape(rows, [-1, models.WIDTH]) for rows in found if rows is not None]
            hidden = tf.concat([*pooled, CHANGES[model.dense](inputs["dense"])], 1)
            with tf.variable_scope("layer", use_resource=model.resource):
                kernel = tf.get_variable("kernel", [int(hidden.shape[1]), 1])
            logits = tf.matmul(hidden, kernel)[:, 0]
            loss = tf.reduce_mean(tf.square(logits - inputs["label"]), name="loss")
            step = tf.train.get_or_create_global_step()
            OPTIMIZERS[model.optimizer]().minimize(loss, step)
            if model.several_steps:
                tf.train.GradientDescentOptimizer(0.1).minimize(
                    tf.reduce_sum(tf.square(kernel)), var_list=[kernel]
                )
        return running_graph_def(add_shapes=True)


def options(asked: Asked, servers: int) -> SessionOptions:
    """The options that ask for this."""
    made = ConfigProto()
    optimizer = made.graph_options.optimizer_options
    optimizer.do_group_embedding = asked.group or asked.ahead == "exact"
    optimizer.group_embedding_options.adam = asked.adam
    optimizer.do_smart_stage = asked.smart
    if asked.batches:
        optimizer.micro_batch_num, optimizer.micro_batch_rule = 2, asked.batches
    if asked.pipeline:
        optimizer.pipeline_dense, optimizer.dense_staleness = True, 1
    known: Dict[str, Any] = {"servers_with_ops": SERVERS if servers else frozenset()}
    if asked.ahead:
        optimizer.do_async_embedding = True
        ahead = optimizer.async_embedding_options
        ahead.threads_num, ahead.capacity, ahead.infer_io_stage = 2, 3, True
        ahead.exact = asked.ahead == "exact"
        if asked.ahead == "limited":
            limit = ahead.staleness_limit.add()
            limit.table, limit.updates = "table_0", 1
        if asked.ahead == "sampled":
            ahead.staleness_sample_steps = 1
            known["async_embedding"] = {"is_sampled": True}
    return options_of(made, **known)


def check(model: Model, asked: Asked) -> Optional[str]:
    """Fails unless what passes make is legal; returns the error if they refuse the options."""
    try:
        chosen = options(asked, model.servers)
    except tf.errors.InvalidArgumentError as error:
        return str(error)
    require_legal_rewrite(build(model), chosen)
    return None


@pytest.mark.slow
@given(_MODELS, _ASKED)
def test_what_passes_make_of_random_models_is_legal(model: Model, asked: Asked) -> None:
    check(model, asked)
