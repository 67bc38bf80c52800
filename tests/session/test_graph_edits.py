"""Edits of a graph that other threads' sessions run meanwhile: seen as a whole or not at all."""

from __future__ import annotations

import threading
from typing import Any, Callable, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import live_graph, tf
from graph_opt.passes import optimize
from graph_opt.passes.optimize import Pass
from graph_opt.passes.pass_state import PassState
from graph_opt.reporting.warnings_given import forget_warnings
from tests.session import shadowed_training as training
from tests.session.shadowed_training import STEPS, Model

# A thread that could do its work in the midst of an edit has done it by then.
_SECONDS = 0.2


class _Meanwhile:
    """Starts `work` in a thread after each import of nodes, and gives it time to end.

    Args:
      work: Called with the default session of the thread that edits.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, work: Callable[[Any], Any]) -> None:
        self._work = work
        self._threads: List[threading.Thread] = []
        self._import = tf.import_graph_def
        monkeypatch.setattr(tf, "import_graph_def", self._imported)

    def _imported(self, *given: Any, **named: Any) -> Any:
        found = self._import(*given, **named)
        thread = threading.Thread(target=self._work, args=[tf.get_default_session()])
        thread.start()
        thread.join(_SECONDS)
        self._threads.append(thread)
        return found

    def end(self) -> int:
        """Waits for the threads, and returns how many there were."""
        for thread in self._threads:
            thread.join()
        return len(self._threads)


def test_a_session_takes_over_no_node_before_its_control_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counter = tf.get_variable("counter", [], initializer=tf.zeros_initializer())
    counted = tf.assign_add(counter, 1.0).op
    node = tf.NodeDef(name="node", op="NoOp", input=["^" + counted.name])
    with tf.Session() as session:
        session.run(counter.initializer)
        meanwhile = _Meanwhile(monkeypatch, lambda session: session.run(counter))
        (added,) = live_graph.add_nodes(counter.graph, [node])
        assert meanwhile.end() == 1
        session.run(added)
        assert session.run(counter) == 1


@pytest.mark.slow
def test_a_stopped_rewrite_leaves_no_update_out(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_warnings()
    model = Model(optimizer="adam", wrong_from=2)
    expected = training.train(graph_opt.ConfigProto(), model, steps=STEPS - 1)
    monkeypatch.setattr(optimize, "PASSES", training.FAULTY_PASSES)
    meanwhile = _Meanwhile(monkeypatch, lambda session: session.run("Const:0"))
    config = training.config(shadow=STEPS, fuse=False, do_smart_stage=True)
    found = training.train(config, model, steps=STEPS - 1)
    assert meanwhile.end() == 2
    assert any("training step 3 differs" in text for text in found.report.warnings)
    training.assert_close(found, expected)


@pytest.mark.slow
def test_a_graph_is_rewritten_once_however_many_sessions_run_it_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Model(fed=True)
    built = training.build(model)
    initialize = tf.global_variables_initializer()
    feed = {built.inputs[name]: value[:8] for name, value in training.data(model).items()}
    config = training.config(shadow=0)
    sessions = [graph_opt.Session(config=config) for _ in range(2)]
    errors: List[BaseException] = []
    threads: List[threading.Thread] = []

    def run(session: Any) -> None:
        try:
            session.run(initialize)
            session.run(built.train, feed)
        except Exception as error:  # Of a thread, which the test is to see.
            errors.append(error)

    def other_first(state: PassState, options: Any) -> PassState:
        if not threads:
            threads.append(threading.Thread(target=run, args=[sessions[1]]))
            threads[0].start()
            threads[0].join(_SECONDS)
        return state

    monkeypatch.setattr(optimize, "PASSES", (Pass(other_first, "to be met"), *optimize.PASSES))
    run(sessions[0])
    threads[0].join()
    assert errors == []
    one, other = (session.run(tf.trainable_variables()) for session in sessions)
    np.testing.assert_equal(one, other)
    for session in sessions:
        session.close()
