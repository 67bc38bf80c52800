"""The pattern language: what matches, what is bound, and which mismatch is reported."""

from __future__ import annotations

from typing import Any, Tuple

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import (
    ANY,
    Pattern,
    constant,
    integer,
    one_of,
    op,
    optional,
    tensor,
    through,
)

LEFT, RIGHT = tensor("left"), tensor("right")


def read(pattern: Pattern, result: tf.Tensor) -> Tuple[bool, Match]:
    """Whether the pattern matches a tensor of the default graph, and the match."""
    match = Match(GraphView(tf.get_default_graph().as_graph_def(add_shapes=True)))
    return pattern.match(match, TensorRef(result.op.name, result.value_index)), match


def fits(pattern: Pattern, result: tf.Tensor) -> bool:
    return read(pattern, result)[0]


def placeholder(name: str, shape: Any = (None,)) -> tf.Tensor:
    return tf.placeholder(tf.float32, shape, name=name)


def test_an_op_binds_its_inputs_in_order() -> None:
    found, match = read(op("Sub", LEFT, RIGHT), placeholder("a") - placeholder("b"))
    assert found
    assert {name: str(bound) for name, bound in match.tensors.items()} == {
        "left": "a:0",
        "right": "b:0",
    }
    assert list(match.nodes) == ["sub"]


def test_one_name_is_one_tensor() -> None:
    a, b = placeholder("a"), placeholder("b")
    assert fits(op("Mul", tensor("x"), tensor("x")), a * a)
    assert not fits(op("Mul", tensor("x"), tensor("x")), a * b)


def test_one_pattern_is_one_node() -> None:
    ids = tf.placeholder(tf.int64, [None])
    unique = op("Unique", tensor("ids"))
    both = op("GatherV2", unique[0], unique[1], constant(0))
    first, second = tf.unique(ids), tf.unique(ids)
    assert fits(both, tf.gather(first[0], first[1]))
    assert not fits(both, tf.gather(first[0], second[1]))


def test_an_op_has_as_many_inputs_as_the_pattern_unless_it_takes_the_rest() -> None:
    joined = tf.concat([placeholder("a"), placeholder("b")], 0)
    assert not fits(op("ConcatV2", LEFT, RIGHT), joined)
    assert not fits(op("ConcatV2", LEFT, RIGHT, ANY, ANY), joined)
    assert fits(op("ConcatV2", LEFT, ...), joined)


def test_attributes_left_out_are_zero() -> None:
    rows = tf.gather(placeholder("a"), [1])
    assert fits(op("GatherV2", ..., batch_dims=0), rows)
    assert not fits(op("GatherV2", ..., batch_dims=1), rows)


def test_a_failed_alternative_leaves_nothing_behind() -> None:
    a, b = placeholder("a"), placeholder("b")
    pattern = one_of(
        op("Mul", op("Neg", LEFT), op("Exp", RIGHT)).gives(kind="exp"),
        op("Mul", op("Neg", RIGHT), LEFT).gives(kind="plain"),
    )
    found, match = read(pattern, -a * b)
    assert found and match.facts == {"kind": "plain"}
    assert {name: str(bound) for name, bound in match.tensors.items()} == {
        "left": "b:0",
        "right": "a:0",
    }


def test_optional_and_through_pass_over_ops_that_may_be_there() -> None:
    a = placeholder("a")
    relu = op("Relu", LEFT)
    once, twice = tf.identity(tf.nn.relu(a)), tf.identity(tf.identity(tf.nn.relu(a)))
    assert fits(optional("Identity", relu), tf.nn.relu(a))
    assert fits(optional("Identity", relu), once)
    assert not fits(optional("Identity", relu), twice)
    assert fits(through("Identity", relu), twice)


def test_constants_and_expressions_of_constants() -> None:
    a = placeholder("a", [None, 3])
    assert fits(op("Reshape", LEFT, constant([-1])), tf.reshape(a, [-1]))
    assert not fits(op("Reshape", LEFT, constant([-1])), tf.reshape(a, [-1, 1]))
    three = tf.constant(2) + tf.constant(1)
    assert fits(integer(3), three) and not fits(integer(2), three)


def test_a_condition_holds_or_is_left_to_static_shapes() -> None:
    def has_rank_one(match: Match, found: TensorRef) -> Any:
        shape = match.view.shape(found)
        return None if shape is None else len(shape) == 1

    pattern = op("Relu", LEFT.where(has_rank_one, "a vector"))
    assert fits(pattern, tf.nn.relu(placeholder("a")))
    assert not fits(pattern, tf.nn.relu(placeholder("b", [None, 2])))
    found, match = read(pattern, tf.nn.relu(placeholder("c", None)))
    assert found
    assert [(refusal.node, refusal.need) for refusal in match.unknown_refusals()] == [
        ("c", "a vector")
    ]


def test_the_furthest_mismatch_is_the_reason() -> None:
    a, b = placeholder("a"), placeholder("b")
    deep = op("Mul", op("Exp", op("Neg", LEFT)), op("Relu", RIGHT))
    pattern = one_of(deep, op("Sub", LEFT, RIGHT))
    found, match = read(pattern, tf.exp(-a) * tf.nn.elu(b))
    refusal = match.refusal()
    assert not found and refusal is not None
    assert (refusal.code, refusal.node) == ("lookup_differs", "Elu")
    assert (refusal.need, refusal.saw) == ("output 0 of Relu", "output 0 of Elu")
