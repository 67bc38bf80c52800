"""The benchmark of ranks: what follows from what ranks found; with Horovod, its quick form."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence

import numpy as np
import pytest
import tqdm

from graph_opt.compat import tf
from graph_opt.sharding.transport import OneRank
from graph_opt.sok.communication import communicating_through
from tests.horovod_processes import NEEDS_HOROVOD, check_all_done
from tools.bench.collectives import page
from tools.bench.collectives.figures import outcome_of
from tools.bench.collectives.input_layers import ShardedInputLayer
from tools.bench.collectives.launch import PROGRESS, RanksFailed, found_by_ranks, pass_on
from tools.bench.collectives.modes import (
    BOTH,
    DEMONSTRATED,
    FUSED,
    HOROVOD,
    LOCAL,
    LOCAL_STOCK,
    OURS_DE,
    SHARD_TABLES,
    SHARDED,
    THEIR_DE,
)
from tools.bench.collectives.settings import WIDE, Setting
from tools.bench.collectives.traffic import collectives_in, sok_bytes, traffic
from tools.bench.collectives.weights import score_of_ranks
from tools.bench.records import Record
from tools.bench.workloads.dlrm import model as dlrm_model
from tools.bench.workloads.measured import Tables, wide_with_tables
from tools.bench.workloads.workload import evaluation_graph
from tools.demo import ranks as demo

SETTING = Setting(WIDE, batch=10, rows=100, quick=True)
# Seconds a step, and CPU seconds, of two ranks and rounds: the second rank takes 1 ms longer.
MILLISECONDS = {HOROVOD: 19, SHARDED: 9, FUSED: 7, BOTH: 5, LOCAL: 2, "exchange_alone": 1}
MILLISECONDS.update({SHARD_TABLES: 11, THEIR_DE: 14, OURS_DE: 5, LOCAL_STOCK: 10})


def found_by(rank: int) -> Dict[str, Any]:
    turns = {name: [[0.001 * (each + rank), 0.001]] * 2 for name, each in MILLISECONDS.items()}
    counted = traffic([100.0, 50.0, 50.0, 8.0], [1, 1], ranks=2)
    modes: Dict[str, Any] = {
        name: {"collectives": {"ExchangeAllToAll": 3}} for name in (FUSED, BOTH, SHARD_TABLES)
    }
    for name in (HOROVOD, SHARDED):
        modes[name] = dict(traffic=counted._asdict(), keys=100.0, collectives={})
    return {"modes": modes, "turns": turns}


def test_a_training_is_as_fast_as_its_slowest_rank() -> None:
    records = outcome_of(SETTING, [found_by(0), found_by(1)]).records
    assert value(records, "steps_per_s", SHARDED) == pytest.approx(100)
    assert value(records, "ratio_to_horovod", SHARDED) == pytest.approx(2)
    assert value(records, "ratio_to_sharded", BOTH) == pytest.approx(10 / 6)
    assert value(records, "ratio_to_sharded", SHARD_TABLES) == pytest.approx(10 / 12)
    assert value(records, "ratio_to_distributed_embeddings", OURS_DE) == pytest.approx(15 / 6)
    (both,) = (each for each in records if (each.figure, each.mode) == ("steps_per_s", BOTH))
    assert both.floor == pytest.approx(1000 / 3)  # the model alone takes longest
    # 8 ms in line, 6 ahead, 3 at best
    assert value(records, "overlap_efficiency", BOTH) == pytest.approx(2 / 5)


def test_a_rank_alone_is_compared_with_one_that_shards_nothing() -> None:
    outcome = outcome_of(SETTING._replace(ranks=1), [found_by(0)])
    assert value(outcome.records, "ratio_to_unsharded", FUSED, ranks=1) == pytest.approx(2 / 7)
    assert value(outcome.records, "ratio_to_unsharded", SHARDED, ranks=1) == pytest.approx(10 / 9)
    assert page.alone_rows(outcome)[1].startswith("| wide | fused | 500 → 143 steps/s | **0.29**")


def test_traffic_of_tables_is_told_from_that_of_other_variables() -> None:
    records = outcome_of(SETTING, [found_by(0), found_by(1)]).records
    # Two variables of one float each: a ring of two ranks sends 4 bytes for each.
    assert value(records, "bytes_per_step", SHARDED) == 200
    assert value(records, "messages_per_step", SHARDED) == 2
    assert value(records, "messages_per_step", FUSED) == 3
    # 100 ids; 40 bags, whose pooled rows have 8 numbers, as have their gradients
    theirs = 8 * 100 + 4 * 40 + 2 * 4 * 8 * 40
    assert sok_bytes(100, 40, 40 * 8, ranks=2) == theirs
    assert value(records, "ratio_to_sok_traffic", SHARDED) == pytest.approx(200 / theirs)


def test_only_collectives_of_the_step_and_of_stages_are_counted() -> None:
    graph_def = tf.GraphDef()

    def add(name: str, op: str, *inputs: str) -> None:
        graph_def.node.add(name=name, op=op, input=inputs)

    add("ids", "ExchangeAllToAll")
    add("ahead", "ExchangeAllToAll")
    add("put", "TensorBufferPut", "ahead:1")
    add("gradients", "HorovodAllreduce")
    add("train", "NoOp", "^gradients")
    assert collectives_in(graph_def, "train") == {"ExchangeAllToAll": 1, "HorovodAllreduce": 1}


def test_sharded_tables_are_put_together_by_row(tmp_path: Path) -> None:
    workload = wide_with_tables(Tables(2, 5, 8), batch=50, quick=True)
    graph, _, _ = evaluation_graph(workload)
    random = np.random.RandomState(1)
    values = {
        variable.name: random.normal(size=variable.shape.as_list()).astype(np.float32)
        for variable in graph.get_collection("trainable_variables")
    }
    np.savez(str(tmp_path / "horovod.0.npz"), **values)
    for rank in range(2):
        part = {name: value for name, value in values.items() if "embedding_weights" not in name}
        for name, value in values.items():
            if name not in part:
                column = name.split("/")[-2][: -len("_embedding")]
                part["table:" + column] = value[rank::2]
        np.savez(str(tmp_path / "sharded.{}.npz".format(rank)), **part)
    expected = score_of_ranks(workload, tmp_path, "horovod", 1)
    assert score_of_ranks(workload, tmp_path, "sharded", 2) == expected


def test_sharded_tables_stand_where_columns_of_whole_ones_do() -> None:
    sizes = dlrm_model.ModelOptions(buckets=7, dimension=2)
    columns: Sequence[Any] = dlrm_model.embedding_columns(sizes)
    random = np.random.RandomState(1)
    texts = random.choice(["", "a", "b", "c"], (5, len(columns)))
    weights = {column.name: random.normal(size=(7, 2)) for column in columns}
    with communicating_through(OneRank()), tf.Graph().as_default(), tf.Session() as session:
        features = {
            column.categorical_column.key: tf.constant(texts[:, place : place + 1])
            for place, column in enumerate(columns)
        }
        layer = ShardedInputLayer()
        divided = layer(features, columns)
        whole = tf.feature_column.input_layer(features, columns)
        session.run(tf.global_variables_initializer())
        for table in layer.tables:
            table.variable.load(weights[table.column + "_embedding"], session)
        for variable in tf.trainable_variables("input_layer"):
            variable.load(weights[variable.name.split("/")[-2]], session)
        found, expected = session.run([divided, whole])
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_without_horovod_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RanksFailed, match="make horovod"):
        found_by_ranks(SETTING, tmp_path, lambda name, done, of: None)


@pytest.mark.slow
@NEEDS_HOROVOD
def test_the_other_packages_messages_give_the_results_of_whole_tables() -> None:
    check_all_done(2, "tests.tools.bench.stock_message_ranks")


@pytest.mark.slow
@NEEDS_HOROVOD
def test_the_quick_form(tmp_path: Path) -> None:
    from tools.bench import __main__ as command

    assert command.main(["collectives", "--quick", "--output", str(tmp_path)]) == 0
    content = json.loads((tmp_path / "collectives.json").read_text("utf-8"))
    found = [Record.from_dict(each) for each in content["records"]]
    for mode in (SHARDED, FUSED, BOTH, SHARD_TABLES, OURS_DE):
        assert value(found, "messages_per_step", mode) == 3
        assert value(found, "ratio_to_horovod", mode) > 0
    assert value(found, "messages_per_step", THEIR_DE) == 4
    assert value(found, "ratio_to_sharded", SHARD_TABLES) > 0
    assert value(found, "ratio_to_distributed_embeddings", OURS_DE) > 0
    assert value(found, "bytes_per_step", SHARDED) < value(found, "bytes_per_step", HOROVOD)
    assert "cannot be installed" in content["absent"][0]["reason"]
    assert value(found, "ratio_to_unsharded", SHARDED, ranks=1) > 0


def test_lines_of_ranks_do_not_stand_in_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    done: List[Any] = []
    with tqdm.tqdm(total=2, file=sys.stderr, desc="bar") as bar:
        bar.refresh()
        pass_on("[1]<stderr>:a line\n", lambda *turn: done.append(turn))
    pass_on(PROGRESS + "1 2 fused\n", lambda *turn: done.append(turn))
    assert "\r[1]<stderr>:a line\n" in capsys.readouterr().err
    assert done == [("fused", 1, 2)]


@pytest.mark.slow
@NEEDS_HOROVOD
def test_the_demo_trains_the_same_model_in_all_ways(capsys: pytest.CaptureFixture) -> None:
    arguments = "--quick --buckets 100 --steps 3 --rounds 1 --batch 64".split()
    assert demo.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "26 of 26 lookups" in printed and "AUC, log loss" in printed
    for mode in DEMONSTRATED:
        assert printed.count("\n  {:<16}".format(mode)) == 4


def value(records: Any, figure: str, mode: str, ranks: int = 2) -> float:
    found: List[float] = [
        each.value
        for each in records
        if (each.figure, each.mode, each.params["ranks"]) == (figure, mode, ranks)
    ]
    (one,) = found
    return one
