"""What of a graph may give other numbers each time a script runs.

Neither a rewrite nor a bug, but unseeded randomness and races that are the script's own.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Mapping, Tuple

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.compat.stateful_ops import CALLS_PYTHON, RANDOM
from graph_opt.graph.operations import operations_behind
from graph_opt.reporting.tables import first_of

_SHUFFLED_QUEUES = ("RandomShuffleQueue", "RandomShuffleQueueV2")
_PARALLEL = ("ParallelMapDataset", "ParallelInterleaveDataset", "ParallelBatchDataset")
_MOST_NAMES = 3


def unrepeatable_parts(graph: Any, steps: Iterable[Any] = ()) -> List[str]:
    """What makes runs of a graph differ, a line each.

    Args:
      graph: A `tf.Graph`, rewritten or not.
      steps: Operations of the steps that use batches: random operations that no such step needs
        only initialize variables, and are left out. Without any, all count.
    """
    wanted = {operation.name for operation in operations_behind(list(steps))}
    found: Dict[str, Dict[str, str]] = {}
    definition = running_graph_def(graph)
    bodies = {"": definition.node}
    bodies.update({one.signature.name: one.node_def for one in definition.library.function})
    for function, nodes in bodies.items():
        constants = {node.name: node for node in nodes if node.op == "Const"}
        for node in nodes:
            if function or not wanted or node.name in wanted or "Dataset" in node.op:
                place = "{} in function {}".format(node.name, function) if function else node.name
                copied = node.name.rpartition("/")[2] if function else ""
                for reason in _reasons(node, constants):
                    at = found.setdefault(reason, {})
                    # The function that makes a one-shot iterator's dataset has copies of nodes.
                    if copied not in at:
                        at.setdefault(node.name, place)
    lines = [
        "{}: {}".format(one, first_of(list(at.values()), _MOST_NAMES)) for one, at in found.items()
    ]
    return lines + _queue_runners(graph)


def _reasons(node: Any, constants: Mapping[str, Any]) -> Iterator[str]:
    if node.op in RANDOM and not (node.attr["seed"].i or node.attr["seed2"].i):
        yield "random numbers without a seed"
    if node.op in _SHUFFLED_QUEUES and not (node.attr["seed"].i or node.attr["seed2"].i):
        yield "a queue that shuffles without a seed"
    if node.op.startswith(("ShuffleDataset", "ShuffleAndRepeatDataset")) and _is_unseeded(
        node, constants
    ):
        yield "shuffle without a seed"
    if node.op.startswith(_PARALLEL) and node.attr["deterministic"].s == b"false":
        yield "parallel input with deterministic=False"
    if node.op.startswith(_PARALLEL) and node.attr["sloppy"].b:
        yield "parallel input with sloppy=True"
    if node.op == "RandomDataset" and _is_unseeded(node, constants, first=0):
        yield "random numbers without a seed"
    if node.op in CALLS_PYTHON:
        yield "a Python function, which may draw on anything"


def _is_unseeded(node: Any, constants: Mapping[str, Any], first: int = 2) -> bool:
    """Whether both of two inputs that are seeds are the constant 0."""
    names = [name.partition(":")[0] for name in node.input[first : first + 2]]
    seeds = [constants.get(name) for name in names]
    return bool(seeds) and all(
        seed is not None and not tf.make_ndarray(seed.attr["value"].tensor).any() for seed in seeds
    )


def _queue_runners(graph: Any) -> List[str]:
    found: List[Tuple[str, int]] = []
    for runner in graph.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
        threads = len(runner.enqueue_ops)
        if threads > 1:
            found.append((runner.queue.name, threads))
    return ["a queue that {} threads fill: {}".format(count, name) for name, count in found]
