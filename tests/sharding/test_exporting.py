"""SavedModels of sharded tables: TensorFlow alone loads and serves them, whole."""

from __future__ import annotations

from pathlib import Path
from typing import List

import numpy as np
import pytest

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.export.users_graph import is_ours
from graph_opt.sharding.exchange import TableLookup, look_up, table_of
from graph_opt.sharding.exporting import export_saved_model
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.placement import by_columns, sharded
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sok.communication import communicating_through
from tests.forked_programs import run_forked

ITEMS = np.arange(22, dtype=np.float32).reshape(11, 2)
USERS = -np.arange(12, dtype=np.float32).reshape(6, 2)
WIDE = 0.5 * np.arange(20, dtype=np.float32).reshape(5, 4)
KERNEL = np.array([[1.0], [2.0]], np.float32)
WORDS = ["red", "green", "blue"]
QUERY = [["red", "blue"], ["green", "none"], ["", ""]]  # the last one has no ids

SERVE = """
import sys
import tensorflow.compat.v1 as tf
with tf.Session(graph=tf.Graph()) as session:
    model = tf.saved_model.load(session, ["serve"], sys.argv[1])
    signature = model.signature_def["serving_default"]
    scores = session.run(signature.outputs["scores"].name,
                         {signature.inputs["words"].name: eval(sys.argv[2])})
    print(scores.ravel().tolist())
assert not any(name.startswith(("graph_opt", "horovod")) for name in sys.modules)
if tf.version.VERSION[0] != "1":  # whose eager loader has another name
    eager = __import__("tensorflow").saved_model.load(sys.argv[1])
    assert "serving_default" in eager.signatures
"""


def scores_of(words: tf.Tensor, transport: Transport) -> tf.Tensor:
    """A model over tables that are placed in every way."""
    rank, size = transport.rank, transport.size
    vocabulary = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(WORDS, [0, 1, 2], value_dtype=tf.int64), -1
    )
    ids = vocabulary.lookup(words)
    bags = tf.sparse.from_dense(ids + 1)  # without words that the vocabulary does not have
    bags = tf.SparseTensor(bags.indices, bags.values - 1, bags.dense_shape)
    factors = -1.0 - tf.cast(bags.values, tf.float32)
    weights = tf.SparseTensor(bags.indices, factors, bags.dense_shape)
    items = sok.Variable(ITEMS, name="items")
    users = sok.Variable(USERS, name="users", mode="localized:{}".format(size - 1))
    pooled = sok.lookup_sparse([items, users], [bags, bags], [weights, weights], ["sum", "mean"])
    wide = by_columns("wide", (5, 4), size, [0, size - 1])
    blocks = sharded("blocks", (11, 2), size, "div")
    looked_up = []
    for placement, values in ((wide, WIDE), (blocks, ITEMS)):
        parts = [
            tf.Variable(
                values[of.rows.keys(rank), of.first_column : of.first_column + of.width],
                use_resource=placement is wide,
                name=placement.name,
            )
            for of in placement.slices
        ]
        table = table_of(placement, parts)
        looked_up.append(TableLookup(table, read_ids(0, bags, weights), "sqrtn"))
    wide_rows, block_rows = look_up(looked_up, transport)
    kernel = tf.Variable(KERNEL, name="kernel", use_resource=True)
    hidden = pooled[0] + pooled[1] + block_rows + wide_rows[:, :2] - wide_rows[:, 2:]
    return tf.matmul(hidden, kernel)


def export_on(transport: Transport, folder: str) -> List[float]:
    """Exports from one rank, after a change of its tables, and returns its own scores."""
    with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
        words = tf.placeholder(tf.string, [None, 2], "words")
        scores = scores_of(words, transport)
        halves = [one.assign(one * 0.5) for one in tf.global_variables()]
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        session.run(halves)
        tf.get_default_graph().finalize()
        sok.export_saved_model(session, folder, {"words": words}, {"scores": scores})
        return session.run(scores, {words: QUERY}).ravel().tolist()


def served(folder: str) -> List[float]:
    ran = run_forked(SERVE, Path(folder).parent, folder, repr(QUERY))
    assert ran.returncode == 0, ran.stderr
    return list(eval(ran.stdout))


def test_a_process_without_graph_opt_serves_whole_tables(tmp_path: Path) -> None:
    folder = str(tmp_path / "models" / "1")
    alone = export_on(OneRank(), str(tmp_path / "alone"))
    ranks = run_ranks(2, lambda transport: export_on(transport, folder), 60)
    for scores in (*ranks, served(folder), served(str(tmp_path / "alone"))):
        np.testing.assert_allclose(scores, alone, rtol=1e-6)
    assert alone[2] == 0 and len(set(alone)) == 3
    assert not (tmp_path / "models" / "1.parts").exists()


def test_one_rank_leaves_tables_and_their_initializers_to_tensorflow() -> None:
    initializers = [
        tf.random_uniform_initializer(2, 3),
        tf.random_normal_initializer(2.5, 0.1),
        tf.truncated_normal_initializer(2.5, 0.1),
    ]
    with communicating_through(OneRank()), tf.Graph().as_default() as graph:
        ids = tf.constant([0, 399])
        rows = [
            sok.all2all_dense_embedding(sok.Variable(shape=[400, 2], initializer=one), ids)
            for one in initializers
        ]
        names = [one.name for one in rows]
        start = tf.global_variables_initializer().name
        exported = graph.as_graph_def()
    assert [node.op for node in exported.node if is_ours(node.op)] == []
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(exported, name="")
        session.run(start)
        for found in session.run(names):
            assert found.shape == (2, 2) and 2 <= found.min() < found.max() <= 3


def test_all_ranks_learn_why_an_export_failed(tmp_path: Path) -> None:
    errors: List[str] = []

    def work(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            ids = tf.placeholder(tf.int64, [None])
            rows = sok.all2all_dense_embedding(sok.Variable(ITEMS, name="items"), ids)
            session.run(tf.global_variables_initializer())
            by_key = sok.all2all_dense_embedding(sok.DynamicVariable(2, name="users"), ids)
            with pytest.raises(ValueError, match="look up 'users', whose rows come and go"):
                export_saved_model(session, str(tmp_path / "a"), {}, {"rows": by_key}, transport)
            mean = transport.all_reduce(tf.reduce_mean(rows), "average", "mean")
            with pytest.raises(ValueError, match="needs other ranks"):
                export_saved_model(session, str(tmp_path / "a"), {}, {"mean": mean}, transport)
            folder = tmp_path / "of_rank_{}".format(transport.rank)
            if transport.rank == 0:
                folder.mkdir()
            try:
                export_saved_model(session, str(folder), {"ids": ids}, {"rows": rows}, transport)
            except (FileExistsError, RuntimeError) as error:
                errors.append(str(error))

    run_ranks(2, work, 60)
    assert sorted(error.split("'")[0] for error in errors) == [
        "rank 0 failed: FileExistsError: the folder ",
        "the folder ",
    ]
