"""What a tf.cond or tf.while_loop encloses, and what merely follows one."""

from __future__ import annotations

from typing import Any, List

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.rules.match.surroundings import enclosing_control_flow

INNER: List[Any] = []


def is_enclosed(tensor: Any) -> bool:
    view = GraphView(tf.get_default_graph().as_graph_def())
    return enclosing_control_flow(view, [tensor.op.name]) is not None


def kept(tensor: Any) -> Any:
    INNER.append(tensor)
    return tensor


def number() -> Any:
    return tf.placeholder(tf.float32, [])


def test_a_graph_without_control_flow_encloses_nothing() -> None:
    assert not is_enclosed(number() + 1)


def test_branches_are_enclosed_and_what_follows_is_not() -> None:
    one, chosen = number(), tf.placeholder(tf.bool, [])
    merged = tf.cond(chosen, lambda: kept(one + 1), lambda: kept(tf.constant(2.0) * 3))
    assert [is_enclosed(tensor) for tensor in INNER[-2:]] == [True, True]
    assert not is_enclosed(merged * 2)
    assert not is_enclosed(one)


def test_branches_of_a_lowered_switch_case_are_enclosed() -> None:
    graph_def = tf.GraphDef()
    graph_def.node.add(name="one", op="Placeholder")
    graph_def.node.add(name="case", op="_SwitchN", input=["one", "one"])
    graph_def.node.add(name="branch", op="Identity", input=["case:2"])
    graph_def.node.add(name="merged", op="Merge", input=["case:0", "case:1", "branch"])
    view = GraphView(graph_def)
    assert enclosing_control_flow(view, ["branch"]) == "case"
    assert enclosing_control_flow(view, ["merged"]) is None


def test_a_branch_within_a_branch() -> None:
    one, chosen = number(), tf.placeholder(tf.bool, [])

    def inner() -> Any:
        merged = tf.cond(chosen, lambda: kept(one + 1), lambda: one)
        return kept(merged * 2)

    outer = tf.cond(chosen, inner, lambda: one)
    assert [is_enclosed(tensor) for tensor in INNER[-2:]] == [True, True]
    assert not is_enclosed(outer + 1)


def test_the_body_of_a_loop_is_enclosed_and_its_result_is_not() -> None:
    result = tf.while_loop(lambda x: x < 9, lambda x: kept(x * 2) + 1, [number()])
    assert is_enclosed(INNER[-1])
    assert not is_enclosed(result + 1)


def test_a_loop_within_a_branch() -> None:
    one = number()

    def inner() -> Any:
        return kept(tf.while_loop(lambda x: x < 9, lambda x: x + one, [one]))

    merged = tf.cond(tf.placeholder(tf.bool, []), inner, lambda: one)
    assert is_enclosed(INNER[-1])
    assert not is_enclosed(merged)


def test_waiting_for_a_branch_counts_as_being_in_it() -> None:
    one = number()
    _, alive = tf.raw_ops.Switch(data=one, pred=tf.placeholder(tf.bool, []))
    with tf.control_dependencies([alive]):
        assert is_enclosed(one + 1)
