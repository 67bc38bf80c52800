"""Training scripts as people write them, each of which returns what it saw.

They know nothing of graph_opt: `opened` opens their sessions. They call TensorFlow's own names, so
that they run in processes without graph_opt as well.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from tests.session.deferred_model import (
    ITEMS,
    WIDTH,
    DeferredModel,
    ModelOptions,
    compared_variables,
    deferred_model,
)

Opened = Callable[..., Any]
Seen = Dict[str, Any]


class Script(NamedTuple):
    """How a script runs.

    Attributes:
      opened: Opens a session; takes a graph as keyword.
      options: The model's.
      folder: An empty folder of its own.
    """

    opened: Opened
    options: ModelOptions
    folder: Path


def train(session: Any, model: DeferredModel, steps: int, feeds: Any = None) -> None:
    """Runs the train op."""
    for _ in range(steps):
        session.run(model.train_op, feeds)


def all_values(session: Any) -> Seen:
    """The values of all float variables, fetched as variables, under their names in checkpoints."""
    variables = compared_variables()
    parts: Dict[str, List[Any]] = {}
    for variable, value in zip(variables, session.run(variables)):
        parts.setdefault(re.sub(r"/part_\d+", "", variable.op.name), []).append(value)
    return {
        name: np.concatenate(values) if len(values) > 1 else values[0]
        for name, values in parts.items()
    }


def fetching_variables(script: Script) -> Seen:
    """Fetches of tables and slots in every way, alone and together with a step."""
    model = deferred_model(script.options)
    users = model.users
    slot = model.optimizer.get_slot(users, "m")
    read = users.value()  # of a ref variable, the node `users/read`
    copy = users.read_value()
    largest = tf.reduce_max(tf.abs(users), axis=1)
    factor = tf.placeholder(tf.float32, [])
    scaled = users * factor
    seen: Dict[str, Any] = {}
    with script.opened() as session:
        session.run(tf.global_variables_initializer())
        train(session, model, 5)
        seen["alone"] = session.run(users)
        train(session, model, 3)
        seen["slot and table"] = session.run([slot, users])
        train(session, model, 2)
        seen["by name"] = session.run(_value_name(users))
        train(session, model, 2)
        seen["read"], seen["copy"] = session.run([read, copy])
        train(session, model, 2)
        seen["eval"] = slot.eval(session=session)
        train(session, model, 2)
        seen["largest"] = session.run(largest)
        train(session, model, 1)
        # What such a fetch sees of the step itself differs from step to step in TensorFlow, too;
        # rows that the step does not touch have one of two values.
        session.run([users, slot, model.train_op])
        session.run([largest, model.train_op])
        seen["after"] = session.run([users, slot])
        again = session.make_callable([users, slot])
        train(session, model, 2)
        seen["callable"] = again()
        train(session, model, 2)
        seen["callable again"] = again()
        fed = session.make_callable([users, largest], [model.rate])
        train(session, model, 2)
        seen["callable with a feed"] = fed(0.1)
        train(session, model, 2)
        partial = session.partial_run_setup([users, scaled], [factor])
        seen["partial"] = [session.partial_run(partial, users)]
        seen["partial"].append(session.partial_run(partial, scaled, {factor: 2.0}))
        train(session, model, 2)
        seen["frozen"] = _frozen(session, largest)
        seen["all"] = all_values(session)
    return seen


def _frozen(session: Any, output: Any) -> Any:
    """The constants of a frozen graph."""
    frozen = tf.graph_util.convert_variables_to_constants(
        session, session.graph.as_graph_def(), [output.op.name]
    )
    values = [
        tf.make_ndarray(node.attr["value"].tensor) for node in frozen.node if node.op == "Const"
    ]
    return [value for value in values if value.ndim == 2]


def _value_name(variable: Any) -> str:
    name: str = variable.value().name if not hasattr(variable, "handle") else (
        variable.op.name + "/Read/ReadVariableOp:0"
    )  # fmt: skip
    return name


def ordering_readers_after_the_step(script: Script) -> Seen:
    """Readers that wait for the step's update, and others that the update waits for."""
    model = deferred_model(script.options)
    with tf.control_dependencies([model.train_op]):
        after = tf.identity(model.users.read_value())
    ids = tf.constant(np.arange(20))
    with tf.control_dependencies([model.train_op]):
        some_after = tf.gather(model.users, ids)
    before = tf.identity(model.users.read_value())
    with tf.control_dependencies([before]):
        later = tf.no_op()
    seen: Dict[str, List[Any]] = {"after": [], "some after": [], "before": []}
    with script.opened() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            train(session, model, 3)
            seen["after"].append(session.run(after))
            seen["some after"].append(session.run(some_after))
            train(session, model, 2)
            seen["before"].append(session.run([before, later])[0])
        seen["all"] = [all_values(session)]
    return seen


def changing_the_rate(script: Script) -> Seen:
    """A learning rate that is fed, and one that changes after every row has missed steps."""
    model = deferred_model(script.options)
    with script.opened() as session:
        session.run(tf.global_variables_initializer())
        for rate in (0.1, 0.02, 0.0, 0.3, 0.01):
            train(session, model, 4, {model.rate: rate})
        train(session, model, 2)
        return all_values(session)


def writing_variables(script: Script) -> Seen:
    """Assigns, loads and initializers while training goes on."""
    model = deferred_model(script.options)
    users, items = model.users, model.items
    slot = model.optimizer.get_slot(items, "m")
    value = tf.constant(np.linspace(-1, 1, ITEMS * WIDTH, dtype=np.float32).reshape(ITEMS, WIDTH))
    replaced = tf.assign(items, value)
    cleared, filled = tf.assign(slot, tf.zeros_like(slot)), tf.assign(slot, value * 0.01)
    added = tf.assign_add(slot, tf.ones_like(slot) * 0.001)
    rows = tf.scatter_update(items, [3, ITEMS - 1], tf.ones([2, WIDTH]))
    part = tf.assign(users[1:4], tf.fill([3, WIDTH], 0.5))
    with tf.control_dependencies([model.train_op]):
        of_length_1 = tf.nn.l2_normalize(tf.gather(users, [0, 5]), axis=1)
        normalized = tf.scatter_nd_update(users, [[0], [5]], of_length_1)
    seen: Dict[str, Any] = {}
    with script.opened() as session:
        session.run(tf.global_variables_initializer())
        train(session, model, 4)
        # An update would not be fused if such a value, computed from tables, were assigned earlier.
        scaled = tf.assign(users, users * 0.5)
        changes = (scaled, replaced, cleared, filled, rows, added, part, normalized)
        for number, change in enumerate(changes):
            session.run(change)
            train(session, model, 4)
            if number % 2:
                seen[str(number)] = all_values(session)
        train(session, model, 3)
        items.load(np.full((ITEMS, WIDTH), 0.25, np.float32), session)
        train(session, model, 3)
        seen["loaded"] = all_values(session)
        session.run(users.initializer)
        train(session, model, 3)
        seen["one initialized"] = all_values(session)
        session.run(tf.global_variables_initializer())
        seen["all initialized"] = all_values(session)
        train(session, model, 4)
        seen["trained again"] = all_values(session)
    return seen


def growing_the_graph(script: Script) -> Seen:
    """Readers, writers, savers and lookups that are added once the session has trained."""
    model = deferred_model(script.options)
    users = model.users
    seen: Dict[str, Any] = {}
    with script.opened() as session:
        session.run(tf.global_variables_initializer())
        train(session, model, 4)
        seen["sum"] = session.run(tf.reduce_sum(tf.square(users), axis=1))
        train(session, model, 4)
        seen["slot"] = session.run(model.optimizer.get_slot(users, "v") * 2.0)
        train(session, model, 3)
        saver = tf.train.Saver(compared_variables())
        path = saver.save(session, str(script.folder / "late"))
        seen["saved"] = values_in(path)
        train(session, model, 3)
        saver.restore(session, path)
        train(session, model, 3)
        seen["rows"] = session.run(tf.nn.embedding_lookup(users, [0, 1, 40, 59]))
        train(session, model, 3)
        tf.add_to_collection("kept", tf.assign(users, users + 0.125))
        session.run(tf.get_collection("kept")[0])
        train(session, model, 3)
        chosen = tf.placeholder_with_default(True, [])
        either = tf.cond(chosen, lambda: tf.reduce_sum(users), lambda: tf.reduce_sum(users[:2]))
        seen["either"] = [session.run(either), session.run(either, {chosen: False})]
        train(session, model, 3)
        seen["printed"] = session.run(_traced(users))
        train(session, model, 3)
        seen["all"] = all_values(session)
        session.graph.finalize()
        train(session, model, 3)
        seen["finalized"] = all_values(session)
    return seen


def _traced(table: Any) -> Any:
    """A loop that reads the table in its body."""
    first = [tf.constant(0), tf.zeros_like(table[0])]
    return tf.while_loop(
        lambda row, _: row < 5, lambda row, total: [row + 1, total + table[row]], first
    )[1]


def growing_from_another_thread(script: Script) -> Seen:
    """A thread that adds readers and fetches them while steps run."""
    model = deferred_model(script.options)
    errors: List[BaseException] = []

    def watch(session: Any, graph: Any) -> None:
        try:
            with graph.as_default():
                for _ in range(8):
                    assert np.all(np.isfinite(session.run(tf.reduce_sum(model.users))))
                    session.run(model.optimizer.get_slot(model.items, "m"))
        except BaseException as error:
            errors.append(error)

    with script.opened() as session:
        session.run(tf.global_variables_initializer())
        train(session, model, 4)
        watcher = threading.Thread(target=watch, args=(session, session.graph))
        watcher.start()
        train(session, model, 40)
        watcher.join()
        assert not errors, errors[0]
        return all_values(session)


def two_sessions(script: Script) -> Seen:
    """Two sessions on one graph, whose variables are their own, in turns."""
    model = deferred_model(script.options)
    with script.opened() as first, script.opened(graph=first.graph) as second:
        first.run(tf.global_variables_initializer())
        train(first, model, 5)
        second.run(tf.global_variables_initializer())
        train(second, model, 3, {model.rate: 0.01})
        total = tf.reduce_sum(model.users, axis=1)
        seen = {"second": second.run(total), "first": first.run(total)}
        train(first, model, 3)
        train(second, model, 6)
        seen["all of first"], seen["all of second"] = all_values(first), all_values(second)
    return seen


def saving_and_restoring(script: Script) -> Seen:
    """Whole and partial restores into a session that goes on training."""
    model = deferred_model(script.options)
    saver = tf.train.Saver(max_to_keep=None)
    users = [each for each in compared_variables() if each.op.name.startswith("users")]
    tables = tf.train.Saver([each for each in users if each.op.name == "users"])
    slots = tf.train.Saver([each for each in users if each.op.name != "users"])
    seen: Dict[str, Any] = {}
    with script.opened() as session:
        session.run(tf.global_variables_initializer())
        paths = []
        for number in range(3):
            train(session, model, 4)
            paths.append(saver.save(session, str(script.folder / "all"), number))
            seen["saved {}".format(number)] = values_in(paths[-1])
        seen["trained"] = [session.run(model.users)]
        saver.restore(session, paths[0])
        seen["restored"] = all_values(session)
        saver.restore(session, paths[2])
        train(session, model, 4)
        seen["trained on"] = all_values(session)
        tables.restore(session, paths[0])
        train(session, model, 4)
        seen["only the table"] = all_values(session)
        slots.restore(session, paths[2])
        train(session, model, 4)
        seen["only the slots"] = all_values(session)
    with script.opened() as session:
        saver.restore(session, paths[1])
        seen["in a new session"] = all_values(session)
        train(session, model, 5)
        seen["and trained on"] = all_values(session)
    return seen


def values_in(path: str) -> Seen:
    """All float tensors in a checkpoint."""
    reader = tf.train.load_checkpoint(path)
    values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    return {name: value for name, value in values.items() if value.dtype == np.float32}


SCRIPTS = (
    fetching_variables,
    ordering_readers_after_the_step,
    changing_the_rate,
    writing_variables,
    growing_the_graph,
    growing_from_another_thread,
    two_sessions,
    saving_and_restoring,
)
