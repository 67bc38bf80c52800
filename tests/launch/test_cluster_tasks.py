"""Which tasks a cluster has, and how each finds the others."""

from __future__ import annotations

import json
import socket

from graph_opt.launch.cluster_tasks import (
    ClusterTask,
    free_addresses,
    tasks_of,
    with_addresses,
)


def test_estimators_get_a_chief_and_an_evaluator_that_nobody_calls() -> None:
    tasks = tasks_of(1, 2, has_chief=True, has_evaluator=True)
    assert [task.name for task in tasks] == ["ps 0", "chief", "worker 0", "evaluator"]
    cluster = with_addresses(tasks, ["a:1", "b:2", "c:3", "d:4"])
    assert json.loads(cluster.tf_config(tasks[-1])) == {
        "cluster": {"ps": ["a:1"], "chief": ["b:2"], "worker": ["c:3"]},
        "task": {"type": "evaluator", "index": 0},
    }


def test_scripts_with_flags_find_their_place_in_these() -> None:
    tasks = tasks_of(2, 2, has_chief=False, has_evaluator=False)
    cluster = with_addresses(tasks, ["a:1", "b:2", "c:3", "d:4"])
    filled = cluster.filled_in(tasks[3], "{job}/{index} {ps_hosts} {worker_hosts} {other}")
    assert filled == "worker/1 a:1,b:2 c:3,d:4 {other}"


def test_a_task_listens_on_its_own_address_and_reaches_others_through_what_is_between() -> None:
    tasks = tasks_of(1, 1, has_chief=True, has_evaluator=False)
    cluster = with_addresses(tasks, ["a:1", "b:2"])
    slow = cluster._replace(reachable={tasks[0]: "p:8", tasks[1]: "p:9"})
    assert slow.seen_by(ClusterTask("ps", 0)) == {"ps": ["a:1"], "chief": ["p:9"]}
    assert slow.seen_by(ClusterTask("chief", 0)) == {"ps": ["p:8"], "chief": ["b:2"]}


def test_free_addresses_can_be_listened_on_and_taken_again() -> None:
    with free_addresses(2) as addresses:
        assert len(set(addresses)) == 2
        for _ in range(2):
            with socket.socket() as server:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind(("127.0.0.1", int(addresses[0].rpartition(":")[2])))
                server.listen()
