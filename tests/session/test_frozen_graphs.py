"""Sessions with fuse_inference on frozen graphs: constants are tables, predictions TensorFlow's."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.contrib import predictor
from tests.quick_cases import slow_but
from tests.release_features import roots_are_exact
from tests.serving.frozen_models import FROZEN, FrozenModel, dlrm, frozen, save_frozen, wide
from tests.serving.models_to_serve import Model
from tests.session.small_model import async_config, report_on
from tests.session.test_fused_inference import asked_by_threads, fusing, loaded

ROWS, WIDTH, BATCH = 20, 3, 9
ROUNDED = 3e-7


def fused_session(model: FrozenModel, config: Optional[Any] = None) -> Any:
    return model.opened(graph_opt.Session, config=config or fusing())


def assert_equal(found: Dict[str, np.ndarray], expected: Dict[str, np.ndarray]) -> None:
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, name)


@pytest.mark.parametrize("name", sorted(FROZEN))
def test_a_frozen_graph_is_fused_and_predicts_the_same(name: str) -> None:
    model = frozen(FROZEN[name])
    with model.opened() as stock, fused_session(model) as ours:
        for rows in (slice(None), slice(1), slice(0)):
            assert_equal(answer(ours, model, rows), answer(stock, model, rows))
        report = report_on(ours.graph)
    assert len(report.fused) >= 4
    assert not report.refusals and not any(lookup.refusal for lookup in report.lookups)


def answer(session: Any, model: FrozenModel, rows: slice) -> Dict[str, Any]:
    """What a request gives, if only an error: a linear model takes no empty batch.

    Any of its columns may be the first to fail.
    """
    try:
        found: Dict[str, Any] = session.run(model.outputs, model.feeds(rows))
        return found
    except tf.errors.InvalidArgumentError as error:
        assert rows == slice(0)
        return {"error": re.sub(r"(linear_model)/\w+/", r"\1/a_column/", error.message)}


def of_one_placeholder() -> Model:
    """As `dlrm`, with the ids of all tables in one tensor."""
    ids = tf.placeholder(tf.int64, [None, 3], name="ids")
    tables = [tf.get_variable("table{}".format(number), [50, 8]) for number in range(3)]
    rows = [tf.nn.embedding_lookup(table, ids[:, i]) for i, table in enumerate(tables)]
    return Model({"ids": ids}, {"rows": tf.concat(rows, 1)}, {"ids": np.array([[1, 2, 3]])})


@pytest.mark.parametrize(
    "build, ops, told",
    [
        (of_one_placeholder, 1, "3 of 3 lookups fused into 1 op\n"),
        (wide, 6, "12 of 12 lookups fused into 6 ops; lookups of different placeholders are not"),
        (dlrm, 5, "5 of 5 lookups in an op each; lookups of different placeholders are not fused"),
    ],
)
def test_the_log_counts_the_ops_and_says_what_divides_them(
    build: Callable[[], Model], ops: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = frozen(build)
    with fused_session(model) as session:
        session.run(model.outputs, model.feeds())
        nodes = running_graph_def(session.graph).node
    assert [node.op for node in nodes].count("GroupEmbeddingLookup") == ops
    assert ": " + told in capsys.readouterr().err


def test_no_table_is_copied() -> None:
    model = frozen(wide)
    tables = {node.name for node in model.graph_def.node if node.op == "Const"}
    with fused_session(model) as session:
        session.run(model.outputs, model.feeds())
        nodes = {node.name: node for node in running_graph_def(session.graph).node}
    added = [node for name, node in nodes.items() if node.op == "Const" and name not in tables]
    assert sum(node.ByteSize() for node in added) <= 200 * len(added)
    fused = [node for node in nodes.values() if node.op == "GroupEmbeddingLookup"]
    read = {
        text for node in fused for text in node.input if nodes[text.split(":")[0]].op == "Const"
    }
    assert len(read & tables) == 12  # a table of each column, and its weights


def made_by(api: str, combiner: str, weighted: bool, parts: int, resource: bool) -> Any:
    """A model of one API: looked up in `parts` parts, some bags are empty."""

    def build() -> Model:
        random = np.random.RandomState(17)
        partitioner = tf.fixed_size_partitioner(parts) if parts > 1 else None
        table = tf.get_variable(
            "table", [ROWS, WIDTH], use_resource=resource, partitioner=partitioner
        )
        places = np.array([[row, place] for row in range(BATCH) for place in range(row % 4)])
        inputs = {"ids": tf.placeholder(tf.int64, [None], name="ids")}
        request: Dict[str, np.ndarray] = {"ids": random.randint(0, ROWS, [len(places)])}
        weights = None
        if weighted:
            inputs["weights"] = tf.placeholder(tf.float32, [None], name="weights")
            request["weights"] = random.rand(len(places)).astype(np.float32)
            weights = tf.SparseTensor(places, inputs["weights"], [BATCH, 4])
        ids = tf.SparseTensor(places, inputs["ids"], [BATCH, 4])
        strategy = "div" if parts == 3 else "mod"
        if api == "lookup":
            rows = tf.nn.embedding_lookup(table, inputs["ids"], partition_strategy=strategy)
        else:
            function = getattr(tf.nn, api)
            rows = function(table, ids, weights, partition_strategy=strategy, combiner=combiner)
        return Model(inputs, {"rows": tf.identity(rows, "rows")}, request)

    return build


APIS = ("embedding_lookup_sparse", "safe_embedding_lookup_sparse")
FORMS: List[Tuple[str, str, bool, int, bool]] = [
    *itertools.product(APIS, ("sum", "mean", "sqrtn"), (False, True), (1, 2, 3), (False, True)),
    *itertools.product(("lookup",), ("",), (False,), (1, 2, 3), (False, True)),
]


@pytest.mark.parametrize("api, combiner, weighted, parts, resource", slow_but(FORMS, *FORMS[::7]))
def test_every_function_and_combiner(
    api: str, combiner: str, weighted: bool, parts: int, resource: bool
) -> None:
    model = frozen(made_by(api, combiner, weighted, parts, resource))
    with model.opened() as stock, fused_session(model) as ours:
        feeds = model.feeds()
        found, expected = (each.run(model.outputs, feeds)["rows"] for each in (ours, stock))
        (lookup,) = report_on(ours.graph).fused
    is_rooted = weighted and combiner == "sqrtn"
    tolerance = 0 if roots_are_exact() or not is_rooted else ROUNDED
    np.testing.assert_allclose(found, expected, rtol=tolerance)
    assert len(lookup.tables) == parts


@pytest.mark.parametrize("name", ["wide", "dlrm"])
def test_a_frozen_saved_model(name: str, tmp_path: Path) -> None:
    model = frozen(FROZEN[name])
    save_frozen(model, tmp_path / "model")
    stock, expected = loaded(tf.Session, tmp_path / "model", model.request)
    ours, found = loaded(
        lambda graph: graph_opt.Session(graph=graph, config=fusing()),
        tmp_path / "model",
        model.request,
    )
    with stock, ours:
        assert_equal(found(), expected())
    assert report_on(ours.graph).fused
    with graph_opt.install(fusing()):
        predict = predictor.from_saved_model(str(tmp_path / "model"))
        assert_equal(predict(model.request), expected_of(model))
    assert report_on(predict.graph).fused


def expected_of(model: FrozenModel) -> Dict[str, np.ndarray]:
    with model.opened() as session:
        found: Dict[str, np.ndarray] = session.run(model.outputs, model.feeds())
        return found


def test_what_is_fetched_needs_only_its_feeds() -> None:
    """As in any session with fuse_inference: lookups of other placeholders are other ops."""
    model = frozen(dlrm)
    feeds = model.feeds()
    with model.opened() as stock, fused_session(model) as ours:
        first = {"id0:0": feeds["id0:0"]}
        fetches = model.outputs["first"]
        np.testing.assert_array_equal(ours.run(fetches, first), stock.run(fetches, first))
        assert_equal(ours.run(model.outputs, feeds), stock.run(model.outputs, feeds))


@pytest.mark.parametrize("bad", [50, -1])
def test_a_bad_id_is_the_error_of_the_same_node(bad: int) -> None:
    model = frozen(dlrm)
    feeds = model.feeds(slice(3))
    feeds["id2:0"] = np.array([1, bad, 2])
    said = []
    with model.opened() as stock, fused_session(model) as ours:
        for session in (stock, ours):
            with pytest.raises(tf.errors.InvalidArgumentError) as raised:
                session.run(model.outputs["scores"], feeds)
            said.append(raised.value)
        assert_equal(ours.run(model.outputs, model.feeds()), expected_of(model))
    assert said[1].op.name == said[0].op.name
    assert str(bad) in said[1].message and "'tables/id2'" in said[1].message


def test_several_threads_call_one_session() -> None:
    model = frozen(wide)
    wanted = expected_of(model)
    with fused_session(model) as session:
        answers = asked_by_threads(lambda: session.run(model.outputs, model.feeds()))
    assert len(answers) == 20
    for answer in answers:
        assert_equal(answer, wanted)


def test_tables_and_reads_of_them_can_be_fed() -> None:
    model = frozen(dlrm)
    feeds = {"id0:0": np.array([1, 2]), "tables/id0:0": np.arange(400.0).reshape(50, 8)}
    with model.opened() as stock, fused_session(model) as ours:
        fetches = model.outputs["first"]
        np.testing.assert_array_equal(ours.run(fetches, feeds), stock.run(fetches, feeds))
        np.testing.assert_array_equal(
            ours.run(fetches, {"id0:0": [3]}), stock.run(fetches, {"id0:0": [3]})
        )
        feeds["tables/id0/read:0"] = feeds.pop("tables/id0:0")
        np.testing.assert_array_equal(ours.run(fetches, feeds), stock.run(fetches, feeds))


def test_tables_may_stay_variables() -> None:
    model = frozen(dlrm, kept=["tables/id1"])
    with model.opened() as stock, fused_session(model) as ours:
        for session in (stock, ours):
            session.run("tables/id1/Assign")
        feeds = model.feeds()
        assert_equal(ours.run(model.outputs, feeds), stock.run(model.outputs, feeds))
        assert len(report_on(ours.graph).fused) == 5


def test_what_leaves_the_session_is_the_frozen_graph() -> None:
    model = frozen(wide)
    with fused_session(model) as session:
        session.run(model.outputs, model.feeds())
        left = {node.name: node.op for node in session.graph.as_graph_def().node}
    assert left == {node.name: node.op for node in model.graph_def.node}


def test_a_plain_session_leaves_a_frozen_graph_and_says_so() -> None:
    model = frozen(dlrm)
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.do_group_embedding = True
    with fused_session(model, config) as session:
        assert_equal(session.run(model.outputs, model.feeds()), expected_of(model))
        report = report_on(session.graph)
    assert not report.fused and any("fuse_inference" in reason for reason in report.left_alone)


def rows_of_batches() -> Any:
    """Rows of a constant, and of one in two parts, for each batch of an input."""
    values = np.random.RandomState(3).rand(12, 4).astype(np.float32)
    ids = tf.data.make_one_shot_iterator(tf.data.Dataset.range(12).batch(3)).get_next()
    whole = tf.constant(values, name="whole")
    parts = [tf.constant(values[first::2], name="part") for first in (0, 1)]
    rows = [tf.nn.embedding_lookup(table, ids) for table in (whole, parts)]
    return tf.concat(rows, 1, name="rows")


def test_lookups_of_constants_run_ahead_where_that_is_asked_for() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        result = rows_of_batches()
        expected = [session.run(result) for _ in range(4)]
    config = async_config()
    config.graph_options.optimizer_options.do_group_embedding = True
    with tf.Graph().as_default() as graph:
        result = rows_of_batches()
        report = graph_opt.optimize_graph(graph, config)
        constants = [o.name for o in graph.get_operations() if o.type == "Const"]
        with graph_opt.Session(config=config) as session:
            found = [session.run(result) for _ in range(4)]
    np.testing.assert_array_equal(found, expected)
    assert len(report.fused) == 2 and len(report.stages) == 1
    assert sum(name.endswith(("whole", "part", "part_1")) for name in constants) == 3
