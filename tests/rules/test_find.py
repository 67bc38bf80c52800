"""Every lookup API is found in a training graph, with its tables, combiner and last tensor."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.rules import Lookup, find_lookups
from graph_opt.rules.find import DECLARED
from tests.example_share import example_share
from tests.quick_cases import one_of_each, slow_but
from tests.release_features import needs_estimators
from tests.rules import layer_models, lookup_models
from tests.rules.lookup_models import Expected, Model
from tests.rules.search import said, search

SAFE_MEAN = (lookup_models.SAFE, "mean")
SAFE_SUM = (lookup_models.SAFE, "sum")
# Whether tables are resources, their partitions, and how these divide them.
VARIANTS: Dict[str, Tuple[bool, int, str]] = {
    "{}-{}".format(kind, how): (resource, partitions, strategy)
    for kind, resource in (("ref", False), ("resource", True))
    for how, partitions, strategy in (("whole", 1, "mod"), ("mod", 2, "mod"), ("div", 3, "div"))
}


def found_in_default_graph() -> Tuple[Lookup, ...]:
    found = search()
    assert found.refusals == ()
    return found.lookups


def check(model: Model) -> None:
    found: List[Expected] = [said(lookup) for lookup in found_in_default_graph()]
    key = lambda fact: (fact.output, fact.tables)  # noqa: E731
    assert sorted(found, key=key) == sorted(model.expected, key=key)


@pytest.mark.parametrize(
    "name, variant", one_of_each(sorted(lookup_models.CORE_MODELS), list(VARIANTS))
)
def test_finds_core_lookups_with_their_last_tensor(name: str, variant: str) -> None:
    model = Model(tf, *VARIANTS[variant])
    lookup_models.CORE_MODELS[name](model)
    model.train()
    check(model)


@pytest.mark.parametrize(
    "name, variant",
    one_of_each(
        sorted(layer_models.COLUMN_MODELS),
        ["ref-whole", "resource-div", "ref-div", "resource-whole"],
    ),
)
def test_finds_the_lookups_of_feature_columns(name: str, variant: str) -> None:
    model = Model(tf, *VARIANTS[variant])
    layer_models.COLUMN_MODELS[name](model)
    model.train()
    check(model)


@pytest.mark.parametrize(
    "name, resource", one_of_each(sorted(layer_models.LAYER_MODELS), [False, True])
)
def test_finds_the_lookups_of_layers(name: str, resource: bool) -> None:
    model = Model(tf, resource)
    layer_models.LAYER_MODELS[name](model)
    model.train()
    check(model)


def test_every_pattern_gives_a_reason_for_its_place() -> None:
    assert all(pattern.reason for pattern in DECLARED)


@needs_estimators
@pytest.mark.parametrize("partitions", slow_but([1, 2], 2))
def test_canned_estimators_have_their_lookups_found(partitions: int, tmp_path: Path) -> None:
    columns = [
        tf.feature_column.embedding_column(column, 4)
        for column in (hashed_column("color"), hashed_column("shape"))
    ]
    estimator = tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=[hashed_column("color")],
        dnn_feature_columns=columns,
        dnn_hidden_units=[4],
        input_layer_partitioner=tf.fixed_size_partitioner(partitions),
        model_dir=str(tmp_path),
    )
    tf.train.create_global_step()
    features = {name: tf.placeholder(tf.string, [None, 1]) for name in ("color", "shape")}
    labels = tf.placeholder(tf.int64, [None, 1])
    estimator.model_fn(features, labels, tf.estimator.ModeKeys.TRAIN, estimator.config)
    lookups = found_in_default_graph()
    assert [(lookup.api, lookup.combiner) for lookup in lookups].count(SAFE_MEAN) == 2
    assert [(lookup.api, lookup.combiner) for lookup in lookups].count(SAFE_SUM) == 1
    assert len(lookups) == 3


def test_names_do_not_matter(fresh_graph: tf.Graph) -> None:
    model = Model(tf, partitions=2)
    lookup_models.CORE_MODELS["safe_weighted_mean"](model)
    model.train()
    plain = find_lookups(GraphView(fresh_graph.as_graph_def())).lookups
    renamed = find_lookups(GraphView(with_numbers_for_names(fresh_graph.as_graph_def()))).lookups
    facts = [(lookup.api, lookup.combiner, lookup.weighted, len(lookup.nodes)) for lookup in plain]
    assert facts == [
        (lookup.api, lookup.combiner, lookup.weighted, len(lookup.nodes)) for lookup in renamed
    ]


def test_the_order_of_nodes_does_not_matter(fresh_graph: tf.Graph) -> None:
    model = Model(tf, partitions=2, strategy="div")
    lookup_models.CORE_MODELS["safe_weighted_mean"](model)
    lookup_models.CORE_MODELS["shared_ids"](model)
    model.train()
    graph_def = fresh_graph.as_graph_def()
    backwards = tf.GraphDef()
    backwards.node.extend(reversed(graph_def.node))
    found = find_lookups(GraphView(backwards)).lookups
    assert sorted(map(said, found), key=lambda fact: fact.output) == sorted(
        model.expected, key=lambda fact: fact.output
    )


def test_labels_are_the_scopes_that_a_lookups_nodes_share() -> None:
    with tf.name_scope("tower"):
        rows = tf.nn.embedding_lookup(tf.get_variable("table", [10, 4]), [1, 2], name="rows")
    tf.nn.relu(rows)
    assert [lookup.name for lookup in found_in_default_graph()] == ["tower/rows"]


def test_a_graph_without_lookups_has_none() -> None:
    tf.matmul(tf.get_variable("dense", [4, 4]), tf.ones([4, 4]))
    assert found_in_default_graph() == ()
    assert find_lookups(GraphView(tf.GraphDef())).lookups == ()


KINDS = ["embedding_lookup", "sparse_mean", "sparse_weighted_sum", "safe_mean", "safe_weighted_sum"]
LOOKUPS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.booleans(),
        st.sampled_from([(1, "mod"), (2, "mod"), (2, "div")]),
    ),
    min_size=1,
    max_size=5,
)


@example_share(0.05)
@given(kinds=LOOKUPS, dense_gathers=st.integers(0, 3), train=st.booleans())
def test_every_lookup_of_a_mixture_is_found_once_and_dense_gathers_are_not(
    kinds: List[Tuple[str, bool, Tuple[int, str]]], dense_gathers: int, train: bool
) -> None:
    with tf.Graph().as_default():
        mixture = Model(tf)
        for number, (kind, resource, (partitions, strategy)) in enumerate(kinds):
            add_lookup(mixture, number, kind, Model(tf, resource, partitions, strategy))
        for _ in range(dense_gathers):
            dense = tf.nn.relu(mixture.outputs[-1])
            mixture.outputs.append(tf.gather(dense, mixture.features()["values"]))
        if train:
            mixture.train()
        check(mixture)


def add_lookup(mixture: Model, number: int, kind: str, model: Model) -> None:
    """Builds one model's lookup on the features of the mixture, in a separate scope."""
    model.share_features(mixture)
    scope = "m{}".format(number)
    with tf.variable_scope(scope):
        lookup_models.CORE_MODELS[kind](model)
    mixture.outputs.extend(model.outputs)
    mixture.expected.extend(
        dataclasses.replace(
            fact, tables=tuple("{}/{}".format(scope, table) for table in fact.tables)
        )
        for fact in model.expected
    )


def hashed_column(name: str) -> Any:
    return tf.feature_column.categorical_column_with_hash_bucket(name, 100)


def with_numbers_for_names(graph_def: Any) -> Any:
    """The same graph with numbers as node names."""
    numbers = {node.name: "n{}".format(number) for number, node in enumerate(graph_def.node)}
    renamed = tf.GraphDef()
    for node in graph_def.node:
        copy = renamed.node.add()
        copy.CopyFrom(node)
        copy.name = numbers[node.name]
        for slot, text in enumerate(node.input):
            control = text.startswith("^")
            name, colon, index = text.lstrip("^").partition(":")
            copy.input[slot] = "^" * control + numbers[name] + colon + index
    return renamed


class CountingView(GraphView):
    """A view that counts calls of its methods."""

    asked = 0

    def op(self, name: str) -> str:
        self.asked += 1
        return super().op(name)

    def inputs(self, name: str) -> Tuple[TensorRef, ...]:
        self.asked += 1
        return super().inputs(name)

    def uses(self, tensor: TensorRef) -> List[Use]:
        found = super().uses(tensor)
        self.asked += 1 + len(found)
        return found


def questions(copies: int) -> int:
    """How often a search calls its view, for a graph with this many copies of one model."""
    with tf.Graph().as_default():
        mixture = Model(tf)
        for number in range(copies):
            add_lookup(mixture, number, "safe_weighted_mean", Model(tf, False, 2, "div"))
            add_lookup(mixture, copies + number, "embedding_lookup", Model(tf, True))
        mixture.train()
        view = CountingView(tf.get_default_graph().as_graph_def())
    assert len(find_lookups(view).lookups) == 2 * copies
    return view.asked


def test_cost_is_linear_in_the_graph() -> None:
    assert questions(8) < 4.2 * questions(2)
