"""Runs a graph as it is, and with what repeated inputs reach computed once."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.rewrite import apply_to_graph_def
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.optimize import Planned
from graph_opt.passes.repeated_rows.repeated_rows import RequestRows, repeated_rows
from tests.passes.legal_rewrites import as_bytes, require_kept, require_legal

ROWS, WIDTH = 6, 4
# Eigen adds the products of a single row in another order than those of many, and computes what
# does not fill a vector register of the CPU by another formula.
CLOSE = 1e-6
PLACES, COLUMNS = 3, 4


class Once(NamedTuple):
    """What the pass made of a graph.

    Attributes:
      graph_def: The rewritten graph.
      planned: What the pass returned.
      fetched: What to fetch from the rewritten graph, by the names in the original one.
    """

    graph_def: Any
    planned: Planned
    fetched: Dict[str, str]

    @property
    def view(self) -> GraphView:
        """The rewritten graph without what nothing needs any more."""
        return GraphView(self.graph_def).without(self.planned.name_map.dead)

    def refused(self) -> Dict[str, str]:
        """What was seen at each node that is computed for all rows."""
        return {each["node"]: each["saw"] for each in self.planned.report.refusals}


def computed_once(repeated: Mapping[str, Any], varying: Sequence[Any], fetched: Any) -> Once:
    """Runs the pass over the default graph.

    Args:
      repeated: Tensors by feature.
      varying: Other tensors that are fed.
      fetched: A tensor, or a list of them.
    """
    results = fetched if isinstance(fetched, list) else [fetched]
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    given = as_bytes(graph_def)
    rows = RequestRows(
        {name: TensorRef.parse(tensor.name) for name, tensor in repeated.items()},
        tuple(TensorRef.parse(tensor.name) for tensor in varying),
        tuple(TensorRef.parse(tensor.name) for tensor in results),
        (frozenset(TensorRef.parse(tensor.name) for tensor in [*repeated.values(), *varying]),),
    )
    planned = repeated_rows(graph_def, rows)
    assert as_bytes(graph_def) == given
    rewritten = apply_to_graph_def(graph_def, *planned.rewrites)
    require_kept(graph_def, rewritten, divided=False)
    require_legal(rewritten)
    substitutes = planned.name_map.substitutes
    names = {tensor.name: substitutes.get(tensor.name, tensor.name) for tensor in results}
    once = Once(rewritten, planned, names)
    assert once.view  # Nothing that is alive reads anything that is dead.
    return once


def predicted(
    once: Once,
    variables: Sequence[Any],
    feeds: Dict[Any, Any],
    initializers: Sequence[Any] = (),
) -> List[Any]:
    """What the original graph predicts, and the rewritten one, of the default session's values."""
    session = tf.get_default_session()
    session.run(list(initializers))
    expected = session.run(list(once.fetched), {each.name: value for each, value in feeds.items()})
    values = session.run(list(variables))
    with tf.Graph().as_default(), tf.Session() as other:
        tf.import_graph_def(once.graph_def, name="")
        graph = other.graph
        for variable, value in zip(variables, values):
            initial = variable.initializer.inputs[1].name
            other.run(variable.initializer.name, {initial: value})
        other.run([each.name for each in initializers])
        named = {graph.get_tensor_by_name(each.name): value for each, value in feeds.items()}
        found = other.run(list(once.fetched.values()), named)
    return [expected, found]


def rewritten_run(once: Once, feeds: Dict[Any, Any]) -> Any:
    """What the rewritten graph predicts, of models without variables."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(once.graph_def, name="")
        named = {each.name: value for each, value in feeds.items()}
        return session.run(list(once.fetched.values()), named)


def histories() -> Tuple[Any, Any]:
    """A history of several places, which is repeated, and items."""
    history = tf.placeholder(tf.float32, [None, PLACES, COLUMNS], "user")
    item = tf.placeholder(tf.float32, [None, COLUMNS], "item")
    return history, item


def inputs(width: int = WIDTH) -> Tuple[Any, Any]:
    """A repeated input and one that varies, [rows, width] each."""
    user = tf.placeholder(tf.float32, [None, width], "user")
    item = tf.placeholder(tf.float32, [None, width], "item")
    return user, item


def fed(user: Any, item: Any, rows: int = ROWS) -> Dict[Any, np.ndarray]:
    """The same user in all rows."""
    random = np.random.RandomState(7)
    one = random.rand(1, *user.shape[1:].as_list())
    return {
        user: np.repeat(one, rows, 0).astype(np.float32),
        item: random.rand(rows, *item.shape[1:].as_list()).astype(np.float32),
    }


def require_equal(once: Once, feeds: Dict[Any, Any], close: bool = False) -> None:
    """Fails unless predictions are equal bit for bit, or close."""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        expected, found = predicted(once, tf.global_variables(), feeds)
    for one, other in zip(expected, found):
        assert one.shape == other.shape
        if close:
            np.testing.assert_allclose(other, one, CLOSE, CLOSE)
        else:
            np.testing.assert_array_equal(other, one)
