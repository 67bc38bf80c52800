"""Which keys of a dynamic table have rows, and where rows are: rules compared with models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import graph_opt
from graph_opt.compat import tf
from graph_opt.dynamic.options import (
    CUSTOM,
    LFU,
    LRU,
    BloomAdmission,
    CounterAdmission,
    DynamicTableOptions,
    L2Threshold,
    LeastValuable,
    ProbabilityAdmission,
    StepsToLive,
    Tiers,
)
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.ops import dynamic_table
from graph_opt.sharding.initializers import Constant
from tests.example_share import example_share

DIM = 2
FROM_ONE = DynamicTableOptions(Constant(1.0), no_permission=-5.0)
NEVER = -1


class Row:
    def __init__(self) -> None:
        self.weights = np.ones(DIM, np.float32)
        self.frequency = 0
        self.read = 0
        self.version = NEVER


class Model:
    """DeepRec's rules for rows in dicts; lookups and updates are numbered."""

    def __init__(self, options: DynamicTableOptions) -> None:
        self.options = options
        self.rows: Dict[int, Row] = {}
        self.waiting: Dict[int, List[int]] = {}  # frequency, version
        self.number = 0

    def look_up(self, counted: Dict[int, int]) -> List[np.ndarray]:
        self.number += 1
        return [self._read(key, count) for key, count in counted.items()]

    def _read(self, key: int, count: int) -> np.ndarray:
        if key not in self.rows:
            frequency = self.waiting.get(key, [0, NEVER])[0] + count
            admission = self.options.admission
            if isinstance(admission, CounterAdmission) and frequency < admission.filter_freq:
                self.waiting.setdefault(key, [0, NEVER])[0] = frequency
                return np.full(DIM, self.options.no_permission, np.float32)
            self.waiting.pop(key, None)
            self.rows[key] = Row()
            self.rows[key].frequency = frequency - count
        row = self.rows[key]
        custom = self.options.eviction == LeastValuable(CUSTOM)
        row.frequency = count if custom else row.frequency + count
        row.read = self.number
        return row.weights.copy()

    def update(self, gradients: Dict[int, float], step: int) -> None:
        self.number += 1
        for key, gradient in gradients.items():
            if key in self.rows:
                self.rows[key].weights -= np.float32(gradient)
                self.rows[key].version = step
                self.rows[key].read = self.number

    def give_up(self, evicted: List[int]) -> None:
        """Takes rows that a full table evicted in the last lookup, the least valuable ones."""
        number = max(0, len(self.rows) - self.options.capacity) if self.options.capacity else 0
        free = [key for key, row in self.rows.items() if row.read < self.number]
        values = sorted(self._value(key) for key in free)
        assert sorted(self._value(key) for key in evicted) == values[:number]
        for key in evicted:
            del self.rows[key]

    def _value(self, key: int) -> Tuple[int, int]:
        row = self.rows[key]
        lru = self.options.eviction == LeastValuable(LRU)
        return (row.read, row.frequency) if lru else (row.frequency, row.read)

    def evict(self, step: int) -> List[int]:
        gone = [key for key, row in self.rows.items() if self._is_over(row, step)]
        for key in gone:
            del self.rows[key]
        if isinstance(self.options.eviction, StepsToLive):
            for key, counted in list(self.waiting.items()):
                counted[1] = step if counted[1] == NEVER else counted[1]
                if step - counted[1] > self.options.eviction.steps:
                    del self.waiting[key]
        return gone

    def _is_over(self, row: Row, step: int) -> bool:
        eviction = self.options.eviction
        if isinstance(eviction, StepsToLive):
            row.version = step if row.version == NEVER else row.version
            return step - row.version > eviction.steps
        if isinstance(eviction, L2Threshold):
            return bool(0.5 * np.sum(np.square(row.weights)) < eviction.threshold)
        return False


class Ops(NamedTuple):
    """A table's ops, which are run for each example."""

    table: DynamicTableVariable
    keys: Any
    counts: Any
    gradients: Any
    step: Any
    look_up: Any
    update: Any
    evict: Any

    @staticmethod
    def of(options: DynamicTableOptions) -> Ops:
        table = DynamicTableVariable("table", DIM, options)
        keys = tf.placeholder(tf.int64, [None])
        counts = tf.placeholder(tf.int64, [None])
        gradients = tf.placeholder(tf.float32, [None, DIM])
        step = tf.placeholder(tf.int64, [])
        with tf.control_dependencies([dynamic_table.set_step([table.handle], step)]):
            update = dynamic_table.apply_to_keys(
                "GradientDescent", table.handle, [], [1.0], keys, gradients
            )
        looked_up = dynamic_table.lookup_and_evict(table.handle, keys, True, counts)
        evicted = table.evict(step)
        return Ops(table, keys, counts, gradients, step, looked_up, update, evicted)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["look_up", "look_up", "update", "evict"]),
        st.dictionaries(st.integers(-8, 8), st.integers(1, 3), max_size=6),
    ),
    max_size=25,
)
COUNTER = CounterAdmission(3)
RULES = {
    "counter": FROM_ONE._replace(admission=COUNTER, eviction=StepsToLive(4)),
    "l2": FROM_ONE._replace(eviction=L2Threshold(1.5)),
    "lru": FROM_ONE._replace(capacity=8, eviction=LeastValuable(LRU)),
    "lfu": FROM_ONE._replace(capacity=8, eviction=LeastValuable(LFU), admission=COUNTER),
    "custom": FROM_ONE._replace(capacity=8, eviction=LeastValuable(CUSTOM)),
}


@pytest.mark.parametrize("rule", sorted(RULES))
def test_rules_match_a_model(rule: str) -> None:
    ops = Ops.of(RULES[rule])
    exported = ops.table.export()
    session = tf.Session()

    @example_share(0.25)
    @given(STEPS)
    @example([("look_up", {-7: 2}), ("look_up", {4: 1, -7: 1})])
    def check(steps: List[Tuple[str, Dict[int, int]]]) -> None:
        session.run(ops.table.initializer)
        model = Model(RULES[rule])
        for number, (kind, drawn) in enumerate(steps, 1):
            keys = np.array(list(drawn), np.int64)
            counts = np.array(list(drawn.values()), np.int64)
            if kind == "look_up":
                found = session.run(ops.look_up, {ops.keys: keys, ops.counts: counts})
                rows = np.reshape(model.look_up(drawn), [-1, DIM])
                np.testing.assert_array_equal(found[0], rows)
                model.give_up(list(found[1]))
            elif kind == "update":
                gradients = np.repeat(counts[:, None] / 4.0, DIM, 1)
                feeds = {ops.keys: keys, ops.gradients: gradients, ops.step: number}
                session.run(ops.update, feeds)
                model.update(dict(zip(keys, counts / 4.0)), number)
            else:
                gone, _ = session.run(ops.evict, {ops.step: number})
                assert sorted(gone) == sorted(model.evict(number))
        left = session.run(exported)
        assert sorted(left.keys) == sorted(model.rows)
        for key, values, version, frequency in zip(*left):
            row = model.rows[key]
            np.testing.assert_array_equal(values, row.weights)
            assert (version, frequency) == (row.version, row.frequency)

    with session:
        check()


def test_rare_keys_have_no_rows_by_a_bloom_filter_or_a_draw() -> None:
    bloom = DynamicTableVariable(
        "bloom", DIM, FROM_ONE._replace(admission=BloomAdmission(2, 100000, 0.01))
    )
    drawn = DynamicTableVariable(
        "drawn", DIM, FROM_ONE._replace(admission=ProbabilityAdmission(0.25))
    )
    keys = tf.placeholder(tf.int64, [None])
    rows = [tf.nn.embedding_lookup(table, keys) for table in (bloom, drawn)]
    sizes = [bloom.size, drawn.size]
    unread = tf.range(10000, 20000, dtype=tf.int64)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        some = np.arange(10000)
        first = session.run(rows, {keys: some})
        in_bloom, in_drawn = session.run(sizes)
        assert in_bloom == 0
        assert (first[0] == -5).all()
        assert 2300 < in_drawn < 2700
        assert (first[1][:, 0] == 1).sum() == in_drawn
        session.run(rows, {keys: some})
        session.run(rows, {keys: some})
        in_bloom, in_drawn = session.run(sizes)
        assert in_bloom == 10000
        assert 5500 < in_drawn < 6050  # another draw at each lookup
        read_only = [table.sparse_read(unread, insert=False) for table in (bloom, drawn)]
        assert (np.array(session.run(read_only)) == -5).all()
        strangers = session.run(rows[0], {keys: np.arange(20000, 30000)})
        assert (strangers == 1).mean() < 0.02


@pytest.mark.slow
def test_memory_stays_bounded_while_new_ids_keep_coming() -> None:
    full = FROM_ONE._replace(capacity=5000, eviction=LeastValuable(LRU), admission=COUNTER)
    expiring = FROM_ONE._replace(eviction=StepsToLive(500), admission=COUNTER)
    tables = {
        "full": DynamicTableVariable("full", DIM, full),
        "expiring": DynamicTableVariable("expiring", DIM, expiring),
    }
    keys = tf.placeholder(tf.int64, [None])
    step = tf.train.get_or_create_global_step()
    rows = [tf.nn.embedding_lookup(table, keys) for table in tables.values()]
    train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows), step)
    evict = [table.evict(step) for table in tables.values()]
    random = np.random.RandomState(1)
    used = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for number in range(20000):
            new = number * 20 + np.repeat(np.arange(20), 3)  # so often that they are admitted
            rare = (1 << 40) + number * 20 + np.arange(20)
            session.run(train, {keys: np.concatenate([new, rare, random.zipf(1.5, 20)])})
            if number % 500 == 499:
                session.run(evict)
            if number in (4999, 19999):
                used.append(graph_opt.table_metrics(session))
    for name, most_keys in (("full", 5000), ("expiring", 25000)):
        before, after = (metrics[name] for metrics in used)
        assert after["keys"] <= most_keys
        assert after["evicted"] > 300000
        for figure in ("index_bytes", "metadata_bytes", "policy_bytes"):
            assert after[figure] <= 1.3 * before[figure], figure
        stored = [metrics["row_bytes"] + metrics["free_row_bytes"] for metrics in (before, after)]
        assert stored[1] <= 1.3 * stored[0]


def adagrad_steps(table: DynamicTableVariable, keys: Any) -> Any:
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, keys) - 3.0))
    return tf.train.AdagradOptimizer(0.1).minimize(loss)


def test_a_table_of_four_times_its_memory_loses_nothing(tmp_path: Path) -> None:
    dim, num_keys = 16, 60000
    folder = tmp_path / "rows" / "below"
    tiers = Tiers(num_keys * dim * 4 * 2 // 4, str(folder))
    in_file = DynamicTableVariable("in_file", dim, FROM_ONE._replace(tiers=tiers))
    in_memory = DynamicTableVariable("in_memory", dim, FROM_ONE)
    keys = tf.placeholder(tf.int64, [None])
    train = [adagrad_steps(table, keys) for table in (in_file, in_memory)]
    exported = [table.export() for table in (in_file, in_memory)]
    random = np.random.RandomState(1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {keys: np.arange(num_keys)})
        for _ in range(20):
            session.run(train, {keys: random.zipf(1.2, 3000) % num_keys})
        tf.get_default_graph().finalize()
        metrics = graph_opt.table_metrics(session)
        found = metrics["in_file"]
        assert os.listdir(str(folder)) == []  # the file has no name
        assert found["file_bytes"] >= 3 * tiers.memory_bytes
        assert found["promoted"] > 0
        assert 0.4 < found["memory_hit_rate"] < found["hit_rate"]
        assert metrics["in_memory"]["memory_hit_rate"] == found["hit_rate"] < 1
        lines = str(metrics).splitlines()
        assert lines[0].startswith("in_file: 60000 rows, 1.")
        assert " MB in a file; " in lines[0]
        assert "in a file" not in lines[1]
        rows, expected = session.run(exported)
        order, expected_order = np.argsort(rows.keys), np.argsort(expected.keys)
        np.testing.assert_array_equal(rows.keys[order], expected.keys[expected_order])
        np.testing.assert_array_equal(rows.values[order], expected.values[expected_order])


def test_a_full_file_is_an_error_that_names_the_table_and_the_folder(tmp_path: Path) -> None:
    tiers = Tiers(1 << 20, str(tmp_path), file_bytes=1 << 20)
    table = DynamicTableVariable("users", 16, FROM_ONE._replace(tiers=tiers))
    keys = tf.placeholder(tf.int64, [None])
    rows = tf.nn.embedding_lookup(table, keys)
    with tf.Session() as session:
        session.run(table.initializer)
        session.run(rows, {keys: np.arange(1000)})
        with pytest.raises(tf.errors.ResourceExhaustedError) as refused:
            session.run(rows, {keys: np.arange(100000)})
        message = str(refused.value)
        assert "users" in message
        assert str(tmp_path) in message
        assert "raise it, or give the table a capacity" in message
        assert (session.run(rows, {keys: np.arange(1000)}) == 1).all()
    (tmp_path / "plain").write_text("not a folder")
    bad = FROM_ONE._replace(tiers=Tiers(1 << 16, str(tmp_path / "plain" / "rows")))
    nowhere = DynamicTableVariable("nowhere", 16, bad)
    with tf.Session() as session:
        with pytest.raises(tf.errors.OpError, match="plain"):
            session.run(nowhere.initializer)
            session.run(tf.nn.embedding_lookup(nowhere, keys), {keys: np.arange(100000)})
