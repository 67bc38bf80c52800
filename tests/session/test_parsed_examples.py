"""Sessions parse Examples by one op, with the tensors and errors of TensorFlow's."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.session.graph_records import name_map_of
from tests.passes import fused_models
from tests.passes.test_parse_examples import example
from tests.plain_sessions import plain_session
from tests.session.small_model import report_on

FEATURES = ["feature_{}".format(number) for number in range(8)]
TOLD = "Examples of 10 features parsed by an op of ours"
SERIALIZED = "serialized:0"
ROWS = 6


class Model(NamedTuple):
    """A model in the default graph."""

    parsed: Dict[str, Any]
    scores: Any
    loss: Any
    train: Any


def rows(seed: int) -> np.ndarray:
    """Serialized Examples."""
    random = np.random.RandomState(seed)
    made = []
    for _ in range(ROWS):
        ids = {name: random.randint(0, 23, random.randint(1, 4)) for name in FEATURES}
        features = [(name, [int(each) for each in given]) for name, given in ids.items()]
        made.append(example([*features, ("label", [float(random.randint(0, 2))])]))
    return np.array(made, object)


def model(serialized: Any) -> Model:
    """Lookups of what is parsed, and a layer on top."""
    wanted: Dict[str, Any] = {name: tf.VarLenFeature(tf.int64) for name in FEATURES}
    wanted["price"] = tf.FixedLenFeature([1], tf.float32, [0.5])
    wanted["label"] = tf.FixedLenFeature([], tf.float32)
    parsed = tf.io.parse_example(serialized, wanted)
    pooled = [
        tf.nn.safe_embedding_lookup_sparse(fused_models.table(name), parsed[name], combiner="mean")
        for name in FEATURES
    ]
    scores = parsed["price"][:, 0] * tf.reduce_sum(tf.concat(pooled, 1), 1)
    loss = tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels=parsed["label"], logits=scores)
    )
    optimizer = tf.train.AdagradOptimizer(0.1)
    return Model(parsed, scores, loss, optimizer.minimize(loss))


def fed() -> Model:
    """The same of Examples that are fed."""
    return model(tf.placeholder(tf.string, [None], SERIALIZED.partition(":")[0]))


def opened(config: Any) -> Any:
    """A session of the default graph: TensorFlow's if the config is None, else ours."""
    session = plain_session() if config is None else graph_opt.Session(config=config)
    session.run(tf.global_variables_initializer())
    return session


def is_parsed_by_us(graph: Any) -> bool:
    changes = report_on(graph).changes
    return TOLD in changes and any(op.type == "GroupParseExample" for op in graph.get_operations())


def trained(config: Any) -> Tuple[List[Any], List[Any]]:
    """What was parsed, and losses and tables."""
    with tf.Graph().as_default() as graph:
        made = fed()
        with opened(config) as session:
            parsed, losses = [], []
            for seed in range(4):
                fetches = [made.loss, made.parsed["feature_3"], made.parsed["price"], made.train]
                loss, sparse, price, _ = session.run(fetches, {SERIALIZED: rows(seed)})
                parsed += [np.asarray(each).tolist() for each in (*sparse, price)]
                losses.append(loss)
            tables = session.run(tf.trainable_variables())
        assert config is None or is_parsed_by_us(graph)
        return parsed, [*losses, *tables]


def test_training_gets_the_same_features() -> None:
    (parsed, results), (by_stock, of_stock) = trained(fused_models.config()), trained(None)
    assert parsed == by_stock
    for ours, stock in zip(results, of_stock):
        np.testing.assert_allclose(ours, stock, rtol=1e-6, atol=1e-7)


def predicted(config: Any) -> Any:
    with tf.Graph().as_default() as graph:
        made = fed()
        with opened(config) as session:
            scores = session.run(made.scores, {SERIALIZED: rows(9)}).tolist()
        return scores, config is not None and is_parsed_by_us(graph)


def test_predictions_are_the_same_to_the_bit() -> None:
    stock, _ = predicted(None)
    assert predicted(fused_models.config(fuse_inference=True)) == (stock, True)


def error_of(config: Any, given: np.ndarray) -> Tuple[str, str]:
    with tf.Graph().as_default():
        made = fed()
        with opened(config) as session, pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(made.train, {SERIALIZED: given})
        text = str(raised.value.message).partition("[[")[0].strip().rpartition("\n")[2]
        return text, raised.value.op.name


@pytest.mark.parametrize("wrong", [b"no example", example([])])
def test_errors_are_those_of_tensorflow(wrong: bytes) -> None:
    given = np.array([*rows(1), wrong], object)
    stock = error_of(None, given)
    assert all(stock)
    assert error_of(fused_models.config(), given) == stock


def test_what_is_parsed_may_be_fed() -> None:
    with tf.Graph().as_default() as graph:
        made = fed()
        price = {made.parsed["price"]: np.full([ROWS, 1], 2.0, np.float32)}
        with opened(fused_models.config()) as session:
            once = session.run(made.scores, {SERIALIZED: rows(1)})
            session.run(made.train, {SERIALIZED: rows(2)})
            assert is_parsed_by_us(graph)
            before = session.run(made.scores, {SERIALIZED: rows(1)})
            doubled = session.run(made.scores, {SERIALIZED: rows(1), **price})
        assert not np.array_equal(once, before)
        np.testing.assert_allclose(doubled, 4 * before, rtol=1e-6)


def from_dataset(config: Any) -> List[float]:
    """Losses of Examples that a stage parses ahead of its steps."""
    with tf.Graph().as_default() as graph:
        given = np.concatenate([rows(seed) for seed in range(4)])
        dataset = tf.data.Dataset.from_tensor_slices(given).batch(ROWS)
        made = model(tf.data.make_one_shot_iterator(dataset).get_next())
        losses = []
        with opened(config) as session:
            with pytest.raises(tf.errors.OutOfRangeError):
                while True:
                    losses.append(float(session.run([made.loss, made.train])[0]))
        if config is not None:
            assert is_parsed_by_us(graph)
            crossing = {name.partition(":")[0] for name in name_map_of(graph).taken}
            assert not crossing.isdisjoint(parsers_of_ours(graph))
        return losses


def parsers_of_ours(graph: Any) -> List[str]:
    return [op.name for op in graph.get_operations() if op.type == "GroupParseExample"]


def test_a_stage_parses_ahead() -> None:
    # Rows of one batch ahead of the step may miss its update, so nothing but parsing is compared.
    ahead = fused_models.config(prefetch=True)
    losses, stock = from_dataset(ahead), from_dataset(None)
    assert len(losses) == len(stock) == 4
    assert losses[0] == stock[0]


def test_the_graph_that_leaves_is_as_it_was_built() -> None:
    with tf.Graph().as_default() as graph:
        made = fed()
        with opened(fused_models.config()) as session:
            session.run(made.train, {SERIALIZED: rows(1)})
            assert is_parsed_by_us(graph)
            left = tf.train.export_meta_graph().graph_def
        assert {node.op for node in left.node}.isdisjoint(["GroupParseExample"])
        assert made.parsed["price"].op.name in {node.name for node in left.node}


def in_a_loop(serialized: Any) -> Any:
    wanted = {name: tf.VarLenFeature(tf.int64) for name in FEATURES}

    def body(step: Any, total: Any) -> Any:
        parsed = tf.io.parse_example(serialized, wanted)
        return step + 1, total + tf.reduce_sum(parsed["feature_1"].values)

    return tf.while_loop(lambda step, _: step < 2, body, [0, tf.constant(0, tf.int64)])[1]


def test_a_parser_in_a_loop_stays() -> None:
    with tf.Graph().as_default() as graph:
        made = fed()
        total = in_a_loop(graph.get_tensor_by_name(SERIALIZED))
        with opened(fused_models.config()) as session:
            session.run(made.train, {SERIALIZED: rows(1)})
            ids = session.run(made.parsed["feature_1"], {SERIALIZED: rows(1)}).values
            assert session.run(total, {SERIALIZED: rows(1)}) == 2 * ids.sum()
        assert len(parsers_of_ours(graph)) == 1
        (left,) = [
            line for line in report_on(graph).changes if line.startswith("TensorFlow parses")
        ]
        assert left.endswith("it has a loop around it")
