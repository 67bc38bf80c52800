"""The specs of optimizers, checked against TensorFlow's ops, the documentation and test models."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds, group_embedding_apply
from graph_opt.ops.optimizers import OptimizerSpec, StockOp, optimizer_specs
from graph_opt.rules.optimizers.sparse_update import sparse_updates
from tests.dense_optimizers import DENSE
from tests.optimizer_models import KERAS, MOVING_EVERY_ROW, STOCK
from tests.optimizers.deeprec_models import CASES as DEEPREC
from tests.plain_sessions import plain_session
from tests.quick_cases import slow_but
from tests.release_features import keras_optimizers

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "optimizers.md"
SPECS = optimizer_specs()
STOCK_OPS = {stock.op: (spec, stock) for spec in SPECS.values() for stock in spec.stock_ops}
# What these take as one op has a dense gradient.
ALSO_SEVERAL_OPS = ("GradientDescent", "Adam", "AMSGrad")
# DeepRec's, whose updates are ops of graph_opt's own; the latter two are those of dynamic tables.
OWN = ("AdagradDecay", "LazyAdamW", "GroupLassoFtrl")
# TensorFlow's names for the inputs that all apply ops have.
COMMON = {"table": ("var",), "gradient": ("grad", "delta"), "rows": ("indices",)}


@pytest.mark.parametrize("name", SPECS)
def test_names_within_a_spec_are_distinct(name: str) -> None:
    spec = SPECS[name]
    names = [*COMMON, "values", "indices", *spec.slots, *spec.hyperparameters, *spec.flags]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("spec", "stock"), STOCK_OPS.values(), ids=list(STOCK_OPS))
def test_an_op_is_drawn_with_the_inputs_that_tensorflow_gives_it(
    spec: OptimizerSpec, stock: StockOp
) -> None:
    arguments = inspect.signature(getattr(tf.raw_ops, "Resource" + stock.op)).parameters
    inputs = [name for name, one in arguments.items() if one.default is one.empty]
    assert len(inputs) == len(stock.inputs)
    for drawn, name in zip(stock.inputs, inputs):
        known = drawn in spec.slots or drawn in spec.hyperparameters
        assert name in COMMON[drawn] if drawn in COMMON else known
    assert set(spec.slots) <= set(stock.inputs)
    flags = {name: one.default for name, one in arguments.items() if one.default is not one.empty}
    # What TensorFlow 1 cannot be told, it does not do.
    assert {name: flags.get(name, False) for name in spec.flags} == spec.flags


def minimize_by(model: str, loss: Any) -> None:
    """Updates by a model of TensorFlow's optimizers, or by one of Keras'."""
    if model in STOCK or model in DENSE:
        {**STOCK, **DENSE}[model]().minimize(loss)
        return
    if model in DEEPREC:
        DEEPREC[model].make(tf.train.get_or_create_global_step()).minimize(loss)
        return
    legacy = keras_optimizers()
    name, options = KERAS[model[len("keras_") :]]
    getattr(legacy, name)(learning_rate=0.1, **options).get_updates(loss, tf.trainable_variables())


def test_every_optimizer_has_a_model_by_which_it_is_tested() -> None:
    tested = set()
    for model in [*STOCK, *DENSE, *DEEPREC, *("keras_" + name for name in KERAS)]:
        with tf.Graph().as_default() as graph:
            table = tf.get_variable("table", [4, 2], use_resource=True)
            minimize_by(model, tf.reduce_sum(tf.nn.embedding_lookup(table, [0, 1, 1])))
            view = GraphView(graph.as_graph_def(add_shapes=True))
        found = sparse_updates(view, ["table"]).found["table"]
        tested.add(found.optimizer)
        assert len(found.slots) == len(SPECS[found.optimizer].slots)
        assert found.moves_every_row == model.endswith(MOVING_EVERY_ROW)
    assert tested == set(SPECS) - set(OWN[1:])


def row_of(spec: OptimizerSpec) -> str:
    ops = ", ".join("`{}`".format(stock.op) for stock in spec.stock_ops)
    if spec.name in ALSO_SEVERAL_OPS:
        ops += ", or several ops"
    ops = ops or ("graph_opt's own" if spec.name in OWN else "several ops")
    slots, numbers, flags = (
        ", ".join("`{}`".format(name) for name in names)
        for names in (spec.slots, spec.hyperparameters, spec.flags)
    )
    numbers += "; flag {}".format(flags) if flags else ""
    return "| {} |".format(" | ".join([spec.name, ops, slots or "-", numbers]))


def test_the_documentation_describes_each_optimizer_correctly() -> None:
    text = DOCUMENT.read_text(encoding="utf-8").splitlines()
    table: List[str] = [line for line in text if line.startswith("|")][2:]
    assert table == [row_of(spec) for spec in SPECS.values()]


def ops_with(spec: OptimizerSpec, hyperparameters: Dict[str, float]) -> Tuple[Any, Any]:
    """An update by TensorFlow's op and by ours, of variables of their own."""

    def variables(kind: str) -> Dict[str, Any]:
        ones = tf.ones_initializer()
        return {
            name: tf.get_variable(kind + name, [3, 2], use_resource=True, initializer=ones).handle
            for name in ["table", *spec.slots]
        }

    stock = spec.stock_ops[-1]
    op = getattr(tf.raw_ops, "Resource" + stock.op)
    arguments = inspect.signature(op).parameters
    scalars = {name: tf.constant(value, tf.float32) for name, value in hyperparameters.items()}
    gradient = tf.ones([1, 2])
    is_dense = "rows" not in stock.inputs
    given = {**variables("stock_"), **scalars, "rows": tf.constant([1])}
    given["gradient"] = tf.ones([3, 2]) if is_dense else gradient
    theirs = op(**{name: given[drawn] for name, drawn in zip(arguments, stock.inputs)})
    own = variables("own_")
    ids = GroupIds([tf.constant([1])], [tf.zeros([0], tf.int64)], [tf.zeros([0], tf.int64)], [])
    attributes = GroupAttributes([0], [1], ["t"], ["sum"], ["dense"], [False], [-1])
    table, slots = own["table"], [own[name] for name in spec.slots]
    ours = group_embedding_apply(
        spec.name, [table], slots, list(scalars.values()), ids, attributes, [gradient]
    )
    return theirs, ours


@pytest.mark.parametrize(
    "name",
    slow_but(
        sorted({spec.name for spec, _ in STOCK_OPS.values()}),
        *("Adadelta", "Adagrad", "DenseMomentum", "Ftrl", "GradientDescent"),
        *("KerasMomentum", "ProximalGradientDescent", "RMSProp"),
    ),
)
def test_hyperparameters_that_tensorflow_refuses_are_refused(name: str) -> None:
    spec = SPECS[name]
    for changed in spec.hyperparameters:
        for value in (-1.0, 0.0, 1.0):
            with tf.Graph().as_default(), plain_session() as session:
                both = ops_with(spec, {**spec.hyperparameters, changed: value})
                session.run(tf.global_variables_initializer())
                failed = []
                for update in both:
                    try:
                        session.run(update)
                    except tf.errors.InvalidArgumentError as error:
                        failed.append(error.message)
            assert len(failed) in (0, 2), (changed, value, failed)
            if failed:
                assert "{} is {:f}; need".format(changed, value) in failed[1]
