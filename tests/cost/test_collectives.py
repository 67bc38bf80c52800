"""Collectives that a plan counts: also inside functions, and as ranks of Horovod perform them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Dict

import pytest

from graph_opt.compat import tf
from graph_opt.cost.assumptions import Assumptions
from graph_opt.cost.collectives import is_collective
from graph_opt.cost.cost_plan import cost_plan
from graph_opt.cost.planned_graph import PlannedGraph
from tests.control_flow import control_flow_v2
from tests.cost.collective_ranks import STEPS
from tests.horovod_processes import NEEDS_HOROVOD, run_ranks_of

AHEAD = 8  # batches that a stage may have exchanged for steps that never came


def reduced_in_a_branch() -> Any:
    """What `hvd.allreduce` may make: a collective in one branch of a conditional."""
    with control_flow_v2(True):
        gradient = tf.placeholder(tf.float32, [4], name="gradient")
        several = tf.placeholder(tf.bool, [])
        tf.cond(several, lambda: tf.negative(gradient), lambda: gradient, name="cond")
    graph_def = tf.get_default_graph().as_graph_def()
    for function in graph_def.library.function:
        for node in function.node_def:
            node.op = "HorovodAllreduce" if node.op == "Neg" else node.op
    return graph_def


def test_a_collective_in_a_branch_is_counted_with_what_it_is_given() -> None:
    planned = PlannedGraph(reduced_in_a_branch(), fetches=("cond",))
    cost = cost_plan(planned, Assumptions()).before
    assert (cost.collectives, cost.collective_bytes) == (1, 4 * 4)


def test_questions_to_horovod_are_no_collectives() -> None:
    assert is_collective("HorovodGroupedAllreduce") and is_collective("CollectiveReduceV2")
    assert not is_collective("HorovodSize") and not is_collective("HorovodLocalRank")


def performed(timeline: Path) -> Dict[str, int]:
    """How often each tensor went through a collective, by the timeline that Horovod wrote."""
    text = timeline.read_text().rstrip().rstrip(",")
    events = json.loads(text if text.endswith("]") else text + "]")
    names = {
        event["pid"]: event["args"]["name"]
        for event in events
        if event.get("ph") == "M" and "name" in event["args"]
    }
    counts: Dict[str, int] = {}
    for event in events:
        if event.get("ph") == "B" and event.get("name", "").startswith("NEGOTIATE_"):
            name = names[event["pid"]]
            counts[name] = counts.get(name, 0) + 1
    return counts


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize("mode", ("stock", "fused", "divided", "ahead"))
def test_a_plan_counts_the_collectives_that_ranks_perform(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = tmp_path / "timeline.json"
    monkeypatch.setenv("HOROVOD_TIMELINE", str(timeline))
    ran = run_ranks_of(2, "tests.cost.collective_ranks", mode)
    assert ran.returncode == 0, ran.stdout
    planned = [int(count) for count in re.findall(r"planned: (\d+)", ran.stdout)]
    counts = performed(timeline)
    assert planned == [len(counts)] * 2 and planned[0] > 0, counts
    most = STEPS + (AHEAD if mode == "ahead" else 0)
    assert all(STEPS <= count <= most for count in counts.values()), counts
    assert any("graph_opt_tables" in name for name in counts) == (mode in ("divided", "ahead"))
