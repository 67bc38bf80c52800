"""AdagradDecay's powers in checkpoints: integers in DeepRec's shapes, of variables and by key."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.dynamic.options import DynamicTableOptions
from graph_opt.dynamic.partitioned import PartitionedDynamicTable
from graph_opt.dynamic.variable import DynamicTableVariable, PartOf
from graph_opt.ops.dynamic_table import BY_KEY_1000
from graph_opt.optimizers.adagrad_decay import AdagradDecayOptimizer, AdagradDecayOptimizerV2
from graph_opt.sharding.initializers import Constant
from tests.plain_sessions import plain_session
from tests.quick_cases import slow_but

WIDTH = 3
ROWS = 5
KEYS = [4, 1, 1003, 3]
POWERS = {4: 3, 1: 2, 1003: 1, 3: 1}  # after a step for all, two for the first two, one for one
VERSIONS = {"first": AdagradDecayOptimizer, "second": AdagradDecayOptimizerV2}


class Model:
    """A table whose rows decay in each of their updates, and the powers that they have."""

    def __init__(self, version: str, parts: int, step_dtype: Any = tf.int64) -> None:
        self.step = tf.get_variable(
            "global_step",
            [],
            step_dtype,
            tf.zeros_initializer(),
            trainable=False,
            collections=[tf.GraphKeys.GLOBAL_STEP, tf.GraphKeys.GLOBAL_VARIABLES],
        )
        self.optimizer = VERSIONS[version](0.1, self.step, 0.1, 1, 0.5)
        self.ids = tf.placeholder(tf.int64, [None])
        self.tables = self.make(parts)
        rows = tf.nn.embedding_lookup(self.whole, self.ids, partition_strategy="div")
        loss = tf.reduce_sum(rows)
        self.train = self.optimizer.minimize(loss, self.step)
        self.slots = [
            self.optimizer.get_slot(table, "accumulator_decay_power") for table in self.tables
        ]

    def make(self, parts: int) -> List[Any]:
        partitioner = tf.fixed_size_partitioner(parts) if parts > 1 else None
        self.whole: Any = tf.get_variable("table", [ROWS, WIDTH], partitioner=partitioner)
        return list(self.whole) if parts > 1 else [self.whole]

    def train_on(self, session: Any, *batches: Any) -> None:
        for ids in batches:
            session.run(self.train, {self.ids: ids})

    def powers(self, session: Any) -> Any:
        return np.concatenate(session.run(self.slots))


class OfKeys(Model):
    """The same of a dynamic table."""

    def make(self, parts: int) -> List[Any]:
        made = [
            DynamicTableVariable(
                "table/part_{}".format(part) if parts > 1 else "table",
                WIDTH,
                DynamicTableOptions(Constant(0.5)),
                part=PartOf("table", part, parts, BY_KEY_1000) if parts > 1 else None,
            )
            for part in range(parts)
        ]
        self.whole = made[0] if parts == 1 else PartitionedDynamicTable(made)
        return made

    def powers(self, session: Any) -> Any:
        exported = session.run([slot.export() for slot in self.slots])
        return {
            int(key): row.tolist() for one in exported for key, row in zip(one.keys, one.values)
        }


def saved(folder: Path, kind: Any, *given: Any) -> Tuple[Any, Any]:
    """A reader of a checkpoint, and the powers of the trained model."""
    with tf.Graph().as_default(), tf.Session() as session:
        model = kind(*given)
        saver = tf.train.Saver()
        session.run(tf.global_variables_initializer())
        batches = (KEYS, KEYS[:2], KEYS[:1]) if kind is OfKeys else ([4, 1, 3], [4, 1], [4])
        model.train_on(session, *batches)
        path = saver.save(session, str(folder / "model"))
        return tf.train.load_checkpoint(path), model.powers(session)


def restored(path: str, kind: Any, *given: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        model = kind(*given)
        tf.train.Saver().restore(session, path)
        return model.powers(session)


def prefix_of(folder: Path) -> str:
    return str(folder / "model")


@pytest.mark.parametrize(
    ("version", "dtype", "width"), [("first", tf.int64, WIDTH), ("second", tf.int32, 1)]
)
def test_of_keys(version: str, dtype: Any, width: int, tmp_path: Path) -> None:
    reader, powers = saved(tmp_path, OfKeys, version, 2, dtype)
    assert powers == {key: [float(power)] * WIDTH for key, power in POWERS.items()}
    for part in (0, 1):
        name = "table/part_{}/{}_1".format(part, VERSIONS[version](1, tf.constant(0)).get_name())
        values = reader.get_tensor(name + "-values")
        assert values.dtype == dtype.as_numpy_dtype and values.shape[1] == width
        assert not values[:, 1:].any()
        keys = reader.get_tensor(name + "-keys")
        assert dict(zip(keys, values[:, 0])) == {
            key: power for key, power in POWERS.items() if key % 2 == part
        }
    for parts in (1, 2):
        assert restored(prefix_of(tmp_path), OfKeys, version, parts, dtype) == powers


@pytest.mark.parametrize(
    "parts, use_resource", slow_but(product([1, 2], [False, True]), (1, False), (2, True))
)
@pytest.mark.parametrize("version", VERSIONS)
def test_of_variables(parts: int, version: str, use_resource: bool, tmp_path: Path) -> None:
    with tf.variable_scope("", use_resource=use_resource):
        reader, powers = saved(tmp_path, Model, version, parts)
    expected = np.array([0, 2, 0, 1, 3])
    np.testing.assert_array_equal(powers, np.tile(expected[:, None], [1, WIDTH]))
    name = VERSIONS[version](1, tf.constant(0)).get_name()
    values = reader.get_tensor("table/{}_1".format(name))
    assert values.dtype == np.int64
    if version == "second":
        np.testing.assert_array_equal(values, expected)
    else:
        of_parts = np.split(values, [0 if parts == 1 else 3])
        np.testing.assert_array_equal(
            np.concatenate([one.reshape(-1)[: len(one)] for one in of_parts]), expected
        )
        assert values.shape == (ROWS, WIDTH) and np.count_nonzero(values) == 3
    with tf.variable_scope("", use_resource=use_resource):
        again = restored(prefix_of(tmp_path), Model, version, parts)
    np.testing.assert_array_equal(again, powers)


@pytest.mark.parametrize("version", VERSIONS)
def test_variables_become_dynamic_tables(version: str, tmp_path: Path) -> None:
    _, powers = saved(tmp_path, Model, version, 2)
    found = restored(prefix_of(tmp_path), OfKeys, version, 1)
    assert found == {row: powers[row].tolist() for row in range(ROWS)}


def written(prefix: str, tensors: Dict[str, Any]) -> None:
    with plain_session() as session:
        names = list(tensors)
        session.run(
            tf.raw_ops.SaveV2(
                prefix=prefix,
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                tensors=[tensors[name] for name in names],
            )
        )


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
@pytest.mark.parametrize("width", [1, WIDTH])
def test_what_deeprec_may_have_written_of_keys(width: int, dtype: Any, tmp_path: Path) -> None:
    numbers = np.array([[7], [2]], dtype) * (np.arange(width) == 0).astype(dtype)
    tensors: Dict[str, Any] = {"global_step": np.int64(3)}
    for name, values in (
        ("table", np.zeros([2, WIDTH], np.float32)),
        ("table/AdagradDecay", np.ones([2, WIDTH], np.float32)),
        ("table/AdagradDecay_1", numbers),
    ):
        tensors.update({name + "-keys": np.array([8, 9]), name + "-values": values})
    written(prefix_of(tmp_path), tensors)
    found = restored(prefix_of(tmp_path), OfKeys, "first", 1)
    assert found == {8: [7.0] * WIDTH, 9: [2.0] * WIDTH}


def test_a_slot_that_starts_as_that_of_a_checkpoint(tmp_path: Path) -> None:
    _, powers = saved(tmp_path, Model, "first", 1)
    with plain_session() as session:
        model = Model("first", 1)
        tf.train.init_from_checkpoint(prefix_of(tmp_path), {"/": "/"})
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(model.powers(session), powers)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_graph_served_by_stock_ops_saves_them_again(version: str, tmp_path: Path) -> None:
    reader, powers = saved(tmp_path, OfKeys, version, 1)
    with tf.Graph().as_default() as graph:
        OfKeys(version, 1)
        meta = tf.train.export_meta_graph(saver_def=tf.train.Saver().saver_def, graph=graph)
    with tf.Graph().as_default(), tf.Session() as session:
        stock = tf.train.import_meta_graph(meta)
        stock.restore(session, prefix_of(tmp_path))
        path = stock.save(session, str(tmp_path / "served"))
    assert restored(path, OfKeys, version, 1) == powers
    shapes = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    assert shapes == {**shapes, **reader.get_variable_to_shape_map(), **kept(shapes)}


def kept(shapes: Dict[str, Any]) -> Dict[str, Any]:
    """Those of tensors that such a graph leaves empty."""
    return {name: shape for name, shape in shapes.items() if name.endswith(("-versions", "-freqs"))}
