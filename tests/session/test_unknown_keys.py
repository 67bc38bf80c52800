"""Requests with unknown keys leave dynamic tables as they are: default rows, and nothing new."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.dynamic.options import (
    LRU,
    Bank,
    CounterAdmission,
    DynamicTableOptions,
    LeastValuable,
)
from graph_opt.sharding.initializers import Constant, Drawn
from tests.dynamic.saved_tables import KEYS, WIDTH, Model, saved_by
from tests.quick_cases import slow_but
from tests.session.small_model import report_on
from tests.session.test_fused_inference import fusing

UNKNOWN = [10**12, -5, 4]
BAGS = np.array([[KEYS[0], UNKNOWN[0]], [UNKNOWN[1], UNKNOWN[2]], [KEYS[3], KEYS[3]]])


class Kind(NamedTuple):
    """How a table begins, counts and gives up rows, and what an unknown key reads."""

    options: DynamicTableOptions
    unknown: Callable[[int], List[float]]
    bank: Any = None


def bank() -> Any:
    return tf.reshape(tf.range(4.0 * WIDTH), [4, WIDTH])


def _constant(value: float) -> Callable[[int], List[float]]:
    return lambda _: [value] * WIDTH


KINDS: Dict[str, Kind] = {
    "constant": Kind(DynamicTableOptions(Constant(0.5)), _constant(0.5)),
    "drawn": Kind(DynamicTableOptions(Drawn("normal", 0.75, 0.1)), _constant(0.75)),
    "bank": Kind(
        DynamicTableOptions(Bank(4)),
        lambda key: [key % 4 * WIDTH + one for one in range(WIDTH)],
        bank,
    ),
    "filter": Kind(
        DynamicTableOptions(
            Constant(0.5), no_permission=0.25, admission=CounterAdmission(2), record_frequency=True
        ),
        _constant(0.25),
    ),
    "lru": Kind(
        DynamicTableOptions(Constant(0.5), eviction=LeastValuable(LRU), capacity=10),
        _constant(0.5),
    ),
}


class Serving:
    """A model that serves: bare rows and bags of a table, beside a static one."""

    def __init__(self, kind: Kind, parts: int, exports: bool = True) -> None:
        self.model = Model(parts, kind.options, slots=False, bank=kind.bank, exports=exports)
        self.bags = tf.placeholder(tf.int64, [None, 2], name="bags")
        places = tf.where(tf.ones_like(self.bags, tf.bool))
        sparse = tf.SparseTensor(
            places, tf.reshape(self.bags, [-1]), tf.shape(self.bags, out_type=tf.int64)
        )
        self.pooled = tf.nn.embedding_lookup_sparse(self.model.table, sparse, None, combiner="sum")
        self.saver = tf.train.Saver()

    def answers(self, session: Any, keys: List[int]) -> Any:
        """Rows and bags, each of which asks for unknown keys more than once."""
        session.run(self.model.rows, {self.model.keys: keys})
        feeds = {self.model.keys: keys + keys, self.bags: BAGS}
        rows, pooled = session.run([self.model.rows, self.pooled], feeds)
        return rows[: len(keys)], pooled


def tensors(checkpoint: str) -> Dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(checkpoint)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", slow_but(KINDS, "constant", "filter"))
def test_a_session_makes_no_rows_and_counts_nothing(name: str, parts: int, tmp_path: Path) -> None:
    kind = KINDS[name]
    path, trained = saved_by(tmp_path / "trained", parts, options=kind.options, bank=kind.bank)
    known = [key for key in KEYS if key in trained]
    with tf.Graph().as_default() as graph, graph_opt.Session(config=fusing()) as session:
        serving = Serving(kind, parts)
        session.run(serving.model.initialize)
        serving.saver.restore(session, path)
        before = serving.model.contents(session)
        first = serving.saver.save(session, str(tmp_path / "first"))
        rows, pooled = serving.answers(session, known + UNKNOWN)
        assert serving.model.contents(session) == before
        again = tensors(serving.saver.save(session, str(tmp_path / "second")))
        sizes = session.run([part.size for part in serving.model.parts])
    assert sum(sizes) == len(before) == len(trained)
    for tensor, value in tensors(first).items():
        np.testing.assert_array_equal(again[tensor], value, tensor)
    expected = {key: trained[key][0] for key in known}
    expected.update({key: kind.unknown(key) for key in UNKNOWN})
    np.testing.assert_allclose(rows, [expected[key] for key in known + UNKNOWN], rtol=1e-6)
    if set(BAGS.flat) <= set(expected):
        sums = [np.sum([expected[key] for key in bag], 0) for bag in BAGS]
        np.testing.assert_allclose(pooled, sums, rtol=1e-6)
    report = report_on(graph)
    assert report.fused
    assert any("read default rows for unknown keys" in change for change in report.changes)


def test_a_session_that_does_not_serve_makes_rows(tmp_path: Path) -> None:
    """The counterpart: without the option, a lookup gives unknown keys a row."""
    kind = KINDS["constant"]
    path, trained = saved_by(tmp_path / "trained", options=kind.options)
    with tf.Graph().as_default(), graph_opt.Session() as session:
        serving = Serving(kind, 1)
        session.run(serving.model.initialize)
        serving.saver.restore(session, path)
        serving.answers(session, KEYS[:1] + UNKNOWN)
        assert set(serving.model.contents(session)) == {*trained, *UNKNOWN}


@pytest.mark.parametrize("name", slow_but(KINDS, "filter"))
def test_an_export_has_as_many_keys_after_requests(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    path, trained = saved_by(tmp_path / "trained", options=kind.options, bank=kind.bank)
    with tf.Graph().as_default(), graph_opt.Session() as session:
        serving = Serving(kind, 1, exports=False)
        static = tf.get_variable("static", [8, 4])
        ids = tf.placeholder(tf.int64, [None], name="ids")
        scores = tf.nn.embedding_lookup(static, ids)
        session.run([serving.model.initialize, static.initializer])
        serving.saver.restore(session, path)
        inputs = {"keys": serving.model.keys, "bags": serving.bags, "ids": ids}
        outputs = {"rows": serving.model.rows, "pooled": serving.pooled, "scores": scores}
        tf.saved_model.simple_save(session, str(tmp_path / "export"), inputs, outputs)
    graph_opt.export_fused(str(tmp_path / "export"), str(tmp_path / "served"))
    keys = [key for key in KEYS if key in trained] + UNKNOWN
    expected = [trained[key][0] if key in trained else kind.unknown(key) for key in keys]
    for folder, tags, open_session in (
        ("export", ["serve"], lambda: tf.Session()),
        ("export", ["serve"], lambda: graph_opt.Session(config=fusing())),
        ("served", ["serve", "graph_opt"], lambda: tf.Session()),
    ):
        with tf.Graph().as_default() as graph, open_session() as session:
            meta = tf.saved_model.loader.load(session, tags, str(tmp_path / folder))
            signature = meta.signature_def["serving_default"]
            finds = [o for o in graph.get_operations() if o.type == "LookupTableFindV2"]
            sizes = [tf.raw_ops.LookupTableSizeV2(table_handle=one.inputs[0]) for one in finds]
            before = session.run(sizes)
            feeds = {signature.inputs["keys"].name: keys, signature.inputs["bags"].name: BAGS}
            feeds[signature.inputs["ids"].name] = [1, 2]
            fetches = {name: info.name for name, info in signature.outputs.items()}
            found = session.run(fetches, feeds)
            assert before and set(session.run(sizes)) == set(before) == {len(trained)}
        np.testing.assert_allclose(found["rows"], expected, rtol=1e-6)
