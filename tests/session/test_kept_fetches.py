"""Steps whose fetches TensorFlow took apart before give what its own sessions give."""

from __future__ import annotations

import collections
from typing import Any, Callable, List, Type

import numpy as np
import pytest
from tensorflow.python.client import session as session_module

import graph_opt
from graph_opt.compat import tf

Pair = collections.namedtuple("Pair", ["first", "second"])


class Model:
    """A counter whose step can be fetched in many ways."""

    def __init__(self) -> None:
        self.count = tf.get_variable("count", [], tf.int64, tf.zeros_initializer())
        self.given = tf.placeholder_with_default(tf.constant(2.0), [], "given")
        self.doubled = tf.multiply(self.given, 2.0, "doubled")
        self.step = tf.assign_add(self.count, 1)
        self.start = tf.global_variables_initializer()


def fetched(session_type: Type[tf.Session], fetches: Callable[[Model], Any]) -> List[Any]:
    """What three steps give, the second of which feeds."""
    with tf.Graph().as_default(), session_type() as session:
        model = Model()
        session.run(model.start)
        wanted = fetches(model)
        results = [
            session.run(wanted, feed_dict) for feed_dict in (None, {model.given: 5.0}, {}, None)
        ]
        return [*results, session.run(model.count)]


STRUCTURES = {
    "tensor": lambda model: model.doubled,
    "operation": lambda model: model.step.op,
    "name": lambda model: "doubled:0",
    "variable": lambda model: [model.count, model.doubled],
    "list": lambda model: [model.doubled, model.step.op],
    "fed": lambda model: [model.given, model.doubled],
    "twice": lambda model: (model.doubled, [model.doubled, model.doubled]),
    "dict": lambda model: {"a": model.doubled, "b": (model.step, {"c": model.given})},
    "pair": lambda model: Pair(model.doubled, model.step),
    "nothing": lambda model: [[], {"a": ()}],
}


@pytest.mark.parametrize("structure", STRUCTURES)
def test_results_are_those_of_tensorflow(structure: str) -> None:
    stock = fetched(tf.Session, STRUCTURES[structure])
    assert fetched(graph_opt.Session, STRUCTURES[structure]) == stock
    assert [type(each) for each in fetched(graph_opt.Session, STRUCTURES[structure])] == [
        type(each) for each in stock
    ]


def test_a_result_belongs_to_the_script() -> None:
    with graph_opt.Session() as session:
        wanted = [tf.constant([1.0, 2.0]), {"b": tf.constant(3.0)}]
        first = session.run(wanted)
        first[0][:] = 0.0
        first[1].clear()
        first.clear()
        again = session.run(wanted)
    np.testing.assert_array_equal(again[0], [1.0, 2.0])
    assert again[1] == {"b": 3.0}


def test_lists_that_change_are_other_fetches() -> None:
    with graph_opt.Session() as session:
        one, two = tf.constant(1), tf.constant(2)
        wanted = [one]
        assert session.run(wanted) == [1]
        wanted.append(two)
        assert session.run(wanted) == [1, 2]
        wanted[:] = [two]
        assert session.run(wanted) == [2]


def test_handles_of_tensors_are_of_this_session() -> None:
    with graph_opt.Session() as session:
        handle_of = tf.get_session_handle(tf.constant([7]))
        for _ in range(2):
            assert session.run(handle_of).eval() == [7]


@pytest.mark.parametrize("session_type", [tf.Session, graph_opt.Session])
def test_errors_are_those_of_tensorflow(session_type: Type[tf.Session]) -> None:
    with tf.Graph().as_default():
        elsewhere = tf.constant(1)
    with tf.Graph().as_default():
        here = tf.constant(1)
        session = session_type()
        assert session.run(here) == 1
        with pytest.raises(ValueError, match="is not an element of this graph"):
            session.run([here, elsewhere])
        session.close()
        with pytest.raises(RuntimeError, match="Attempted to use a closed Session"):
            session.run(here)


def test_a_class_of_the_script_sees_each_step() -> None:
    seen = []

    class Noted(graph_opt.Session):
        def _run(self, *arguments: Any) -> Any:
            seen.append(arguments[1])
            return super()._run(*arguments)

    with Noted() as session:
        one = tf.constant(1)
        assert [session.run(one), session.run(one)] == [1, 1]
    assert seen == [one, one]


def test_what_replaces_a_method_of_all_sessions_sees_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    stock = session_module.BaseSession.run

    def noted(session: Any, *arguments: Any, **named: Any) -> Any:
        seen.append(arguments[0])
        return stock(session, *arguments, **named)

    with graph_opt.Session() as session:
        one = tf.constant(1)
        session.run(one)
        monkeypatch.setattr(session_module.BaseSession, "run", noted)
        session.run(one)
    assert seen == [one]
