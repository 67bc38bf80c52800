"""A training whose rewrite can be made wrong, for tests of shadowed steps."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional

import numpy as np

import graph_opt
from graph_opt.compat import tf
from graph_opt.graph.rewrite import InputEdit, Rewrite
from graph_opt.passes.optimize import PASSES, Pass
from graph_opt.passes.pass_state import PassState
from tests.optimizer_models import STOCK

ROWS, BATCH, STEPS = 20, 8, 10


@dataclasses.dataclass
class Model:
    """How the model is built.

    Attributes:
      optimizer: Of `STOCK`.
      wrong_from: The step from which the wrong rewrite, if there is one, makes a difference.
      dropout: Whether it has a layer with seeded dropout.
      loops: Whether it has a loop, whose counter no lookup leads to.
      python: Whether labels come through a Python function.
      fed: Whether batches are fed.
      epochs: How often the data is read.
      bad: The number of a batch that cannot be looked up; -1 for none.
      servers: How many parameter servers have the variables.
      inside: Where the wrong rewrite makes its difference: in the last layer if "", or in a branch
        of a `tf.cond` or in a `tf.while_loop`, "cond" or "loop", where dropout is then, too.
      amplifies: Whether a layer makes much of rounding, and the rewrite is wrong by that alone.
      teaches: Whether a Python function makes labels of what the wrong rewrite makes wrong.
    """

    optimizer: str = "adagrad"
    wrong_from: int = 0
    dropout: bool = False
    loops: bool = False
    python: bool = False
    fed: bool = False
    epochs: int = 1
    bad: int = -1
    servers: int = 0
    inside: str = ""
    amplifies: bool = False
    teaches: bool = False


@dataclasses.dataclass
class Built:
    """The parts of a model that steps need."""

    loss: Any
    train: Any
    step: Any
    calls: List[int]
    iterator: Optional[Any] = None
    inputs: Dict[str, Any] = dataclasses.field(default_factory=dict)


def data(model: Model) -> Dict[str, np.ndarray]:
    """All batches."""
    random = np.random.RandomState(3)
    rows = BATCH * STEPS - 3
    ids = (random.zipf(1.3, [rows, 3]) % ROWS).astype(np.int64)
    if model.bad >= 0:
        ids[model.bad * BATCH] = ROWS + 5
    return {
        "ids": ids,
        "one": (random.zipf(1.3, [rows]) % ROWS).astype(np.int64),
        "label": random.rand(rows, 1).astype(np.float32),
    }


def build(model: Model) -> Built:
    """Builds the model; where it can be made wrong, it has a tensor `trap` that nothing reads."""
    tf.set_random_seed(1)
    calls: List[int] = []
    iterator, inputs = None, {}
    if model.fed:
        shapes = {"ids": [None, 3], "one": [None], "label": [None, 1]}
        kinds = {"ids": tf.int64, "one": tf.int64, "label": tf.float32}
        inputs = {key: tf.placeholder(kinds[key], shapes[key], key) for key in shapes}
    else:
        dataset = tf.data.Dataset.from_tensor_slices(data(model)).batch(BATCH)
        iterator = tf.data.make_initializable_iterator(dataset.repeat(model.epochs))
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        inputs = dict(iterator.get_next())
    users = tf.get_variable("users", [ROWS, 4], initializer=_rows(1))
    items = tf.get_variable("items", [ROWS, 4], initializer=_rows(2))
    sparse = tf.sparse.from_dense(inputs["ids"])
    hidden = tf.concat(
        [
            tf.nn.safe_embedding_lookup_sparse(users, sparse, combiner="sum"),
            tf.nn.embedding_lookup(items, inputs["one"]),
        ],
        1,
    )
    step = tf.train.get_or_create_global_step()
    if model.dropout and not model.inside:
        hidden = tf.nn.dropout(hidden, rate=0.3, seed=7)
    if model.loops:
        hidden = tf.scan(lambda total, row: 0.5 * total + row, hidden)
    wrong_factor = tf.constant(1 + 1e-6 if model.amplifies else 1.5)
    factor = tf.where(step >= model.wrong_from, wrong_factor, tf.constant(1.0))
    tf.multiply(hidden, factor, name="trap")
    if model.inside:
        hidden = _in_control_flow(model, hidden, factor)
    if model.amplifies:
        hidden = tf.sin(3e4 * tf.identity(hidden, name="amplified"))
    label = inputs["label"]
    if model.python:

        def note(value: Any) -> Any:
            calls.append(1)
            return value

        label = tf.reshape(tf.py_func(note, [label], tf.float32), [-1, 1])
    if model.teaches:
        seen = tf.identity(hidden, name="seen")
        label += tf.reshape(tf.py_func(np.mean, [seen], tf.float32), [1, 1])
    logits = tf.layers.dense(hidden, 1, name="layer", kernel_initializer=_rows(4))
    loss = tf.losses.mean_squared_error(label, logits)
    train = STOCK[model.optimizer]().minimize(loss, step)
    return Built(loss, train, step, calls, iterator, inputs)


def _in_control_flow(model: Model, hidden: Any, factor: Any) -> Any:
    """`hidden`, by a detour on which it can be multiplied with `factor`."""

    def inside(value: Any) -> Any:
        tf.multiply(value, factor, name="trap")
        value = tf.identity(value, name="inside")
        return tf.nn.dropout(value, rate=0.3, seed=7) if model.dropout else value

    if model.inside == "cond":
        is_any = tf.size(hidden) > 0
        return tf.cond(is_any, lambda: inside(hidden), lambda: hidden, name="branch")
    known = [tf.TensorShape([]), hidden.shape]
    loop = tf.while_loop(
        lambda turn, _: turn < 1,
        lambda turn, value: (turn + 1, inside(value)),
        [0, hidden],
        known,
        name="branch",
    )
    return loop[1]


def _rows(seed: int) -> Any:
    return tf.random_uniform_initializer(-1, 1, seed=seed)


def config(
    threads: int = 0, shadow: int = 4, exact: bool = False, fuse: bool = True, **options: Any
) -> Any:
    """A config that fuses and, with threads, prefetches."""
    made = graph_opt.ConfigProto()
    optimizer = made.graph_options.optimizer_options
    optimizer.do_group_embedding = fuse
    optimizer.group_embedding_options.adam = "lazy"
    optimizer.shadow_steps = shadow
    if threads:
        optimizer.do_async_embedding = True
        asynchronous = optimizer.async_embedding_options
        asynchronous.threads_num, asynchronous.capacity = threads, 3
        asynchronous.infer_io_stage, asynchronous.exact = True, exact
    for name, value in options.items():
        setattr(optimizer, name, value)
    return made


def wrong(state: PassState, options: Any) -> PassState:
    """A pass with a fault: `trap` takes the place of what it is made of."""
    view = state.view
    reader = next((name for name in ("amplified", "seen") if name in view.nodes), "layer/MatMul")
    edit = InputEdit(reader, 0, "trap")
    if "branch/inside" in view.nodes:
        edit = InputEdit("branch/inside", 0, "branch/trap")
    elif "branch" in view.nodes:  # Its inside is a function.
        edit = InputEdit("branch", view.inputs("branch").index(view.inputs("trap")[0]), "trap")
    return state.rewritten(Rewrite(inputs=(edit,)))


WRONG = Pass(wrong, "to be found")
_LATE = next(i for i, one in enumerate(PASSES) if one.run.__name__ == "micro_batches")
FAULTY_PASSES = (*PASSES[:_LATE], WRONG, *PASSES[_LATE:])


@dataclasses.dataclass
class Run:
    """A training: losses of its steps, variables at its end, the errors of steps that failed."""

    losses: List[float]
    variables: Dict[str, np.ndarray]
    failed: List[str]
    calls: int
    report: Any


def train(options: Any, model: Optional[Model] = None, target: str = "", **ways: Any) -> Run:
    """Trains until the input ends, in a session of its own."""
    model = model or Model()
    if target:
        tf.Session.reset(target)
    with tf.Graph().as_default(), tf.device(_devices(model)):
        built = build(model)
        variables = {one.op.name: one for one in tf.global_variables()}
        initialize = [tf.global_variables_initializer(), tf.tables_initializer()]
        with graph_opt.Session(target, config=options) as session:
            session.run(initialize)
            losses, failed = run_steps(session, built, model, **ways)
            values = session.run(variables)
            return Run(losses, values, failed, len(built.calls), graph_opt.report())


def _devices(model: Model) -> Any:
    if not model.servers:
        return None
    return tf.train.replica_device_setter(model.servers, worker_device="/job:worker/task:0")


def run_steps(
    session: Any,
    built: Built,
    model: Model,
    fetches_loss: bool = True,
    compiled: bool = False,
    evaluates: bool = False,
    steps: int = 0,
) -> Any:
    """Runs so many steps, or to the end of the input; losses and errors."""
    losses: List[float] = []
    failed: List[str] = []
    fetches = [built.loss, built.train] if fetches_loss else [built.train]
    call = session.make_callable(fetches) if compiled else None
    batches = _fed(model, built) if model.fed else None
    while not steps or len(losses) < steps:
        try:
            if call is not None:
                results = call()
            else:
                feed = next(batches) if batches is not None else None
                results = session.run(fetches, feed)
        except (tf.errors.OutOfRangeError, StopIteration):
            return losses, failed
        except tf.errors.InvalidArgumentError as error:
            failed.append(str(error.message))
            continue
        losses.append(results[0] if fetches_loss else 0.0)
        if evaluates and len(losses) % 3 == 1 and len(losses) < STEPS - 1:
            losses.append(session.run(built.loss))
    return losses, failed


def _fed(model: Model, built: Built) -> Any:
    values = data(model)
    for start in range(0, len(values["one"]), BATCH):
        yield {built.inputs[key]: values[key][start : start + BATCH] for key in built.inputs}


def assert_same(one: Run, other: Run) -> None:
    """Both have the same bits."""
    assert one.losses == other.losses
    for name, value in other.variables.items():
        np.testing.assert_array_equal(one.variables[name], value, err_msg=name)


def assert_close(one: Run, other: Run) -> None:
    """Both are the same but for rounding."""
    np.testing.assert_allclose(one.losses, other.losses, rtol=1e-4)
    for name, value in other.variables.items():
        np.testing.assert_allclose(one.variables[name], value, 1e-3, 1e-5, err_msg=name)
