"""Scripts as users write them in which some batches fail, and the outcome of each step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, FrozenSet, List, Tuple

import numpy as np

from graph_opt.compat import tf
from tests.session.small_model import ITEMS, USERS, SmallModel, model_on

BATCH = 4
BATCHES = 10
# Maximum number of steps: more than there are batches, so that the end of input occurs twice.
STEPS = BATCHES + 2


@dataclass(frozen=True)
class Failure:
    """A failed step: everything that a script can see of the error except the traceback."""

    kind: str
    code: int
    text: str
    operation: str


def outcome_of_step(step: Callable[[], Any]) -> Any:
    """The result of the step, or its `Failure`."""
    try:
        return step()
    except tf.errors.OpError as error:
        operation = "" if error.op is None else error.op.name
        text = "\n".join(line for line in str(error).split("\n") if "File " not in line)
        text = text.partition("Original stack trace")[0]
        text = re.sub(r"Detected at node(.|\n)*\nNode: ", "Node: ", text)  # Has the trace in 2.12.
        text = re.sub(r"(Dataset:|<lambda>_)\d+", r"\1", text)  # Some count all of a process.
        return Failure(type(error).__name__, error.error_code, text, operation)


def input_lines(bad: FrozenSet[int], text: str = "torn") -> List[str]:
    """The row numbers as text; the second row of each bad batch is not a number."""
    lines = [str(row) for row in range(BATCH * BATCHES)]
    for batch in bad:
        lines[batch * BATCH + 1] = text
    return lines


def parsed_in_dataset(bad: FrozenSet[int]) -> Any:
    """Rows of an iterator whose dataset parses: the error is that of IteratorGetNext."""
    lines = tf.data.Dataset.from_tensor_slices(input_lines(bad)).batch(BATCH)
    parsed = lines.map(lambda line: tf.string_to_number(line, tf.int64))
    return tf.data.make_initializable_iterator(parsed)


def parsed_in_graph(bad: FrozenSet[int]) -> Any:
    """Lines that are parsed after the iterator."""
    lines = tf.data.Dataset.from_tensor_slices(input_lines(bad)).batch(BATCH)
    return tf.data.make_initializable_iterator(lines)


def checked_in_python(rows: np.ndarray) -> np.ndarray:
    """A `tf.py_func` that rejects batches with a negative number."""
    if (rows < 0).any():
        raise ValueError("no such row: {}".format(rows.min()))
    return rows


def model_of(where: str, bad: FrozenSet[int], stage: Any = None) -> SmallModel:
    """The model, trained on batches of which the `bad` ones fail.

    Args:
      where: "dataset", "graph", "py_func" or "lookup".
      bad: Numbers of the batches that fail.
      stage: Adds a stage after the row numbers; None adds none.
    """
    if where == "dataset":
        iterator = parsed_in_dataset(bad)
        rows = iterator.get_next()
    elif where == "graph":
        iterator = parsed_in_graph(bad)
        rows = tf.string_to_number(iterator.get_next(), tf.int64, name="parse")
    else:
        lines = [int(line) for line in input_lines(bad, "-5")]
        batches = tf.data.Dataset.from_tensor_slices(np.array(lines, np.int64)).batch(BATCH)
        iterator = tf.data.make_initializable_iterator(batches)
        rows = iterator.get_next()
    if where == "py_func":
        rows = tf.ensure_shape(tf.py_func(checked_in_python, [rows], tf.int64), [None])
    if stage is not None:
        rows = stage(rows)
    # A negative row number is a negative id: the lookup refuses it.
    features: Dict[str, Any] = {
        "row": rows,
        "user": tf.where(rows < 0, rows, rows * 7 % USERS),
        "item": tf.abs(rows) * 5 % ITEMS,
        "label": tf.cast(tf.equal(rows % 3, 0), tf.float32),
    }
    return model_on(features, 0.0, iterator)


def train(session: Any, model: SmallModel, steps: int = STEPS) -> Tuple[List[Any], int]:
    """A loop that continues after an OpError: the outcome of each step, and the global step."""
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    session.run(model.iterator.initializer)
    fetches = [model.loss, model.train_op]
    outcomes = [outcome_of_step(lambda: session.run(fetches)[0]) for _ in range(steps)]
    return outcomes, int(session.run(model.global_step))


def kinds(outcomes: List[Any]) -> List[str]:
    """'ok' or the class of the error, for each step."""
    return [each.kind if isinstance(each, Failure) else "ok" for each in outcomes]
