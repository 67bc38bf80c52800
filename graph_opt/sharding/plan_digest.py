"""What the ranks' graphs must have in common, and the first difference between two of them."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, List, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.ops.sent_messages import PREPARE
from graph_opt.sharding.step_messages import StepMessages, is_collective, name_of

_OF_TABLES = (
    ("table_names", "tables"),
    ("table_widths", "widths of the tables"),
    ("shard_rows", "rows of the tables' parts"),
    ("shard_servers", "ranks of the tables' parts"),
    ("partition_strategies", "rules of rows"),
    ("lookup_tables", "tables that are looked up"),
    ("combiners", "combiners"),
    ("safe", "safe lookups"),
)
_MOST_SHOWN = 300
Plan = Dict[str, str]


def plan_of(messages: StepMessages) -> Plan:
    """What a step, and the stages that it takes from, exchange with other ranks.

    Returns:
      From the name of a thing (a stage, a message, the tables of a lookup) to its description, in
      the order in which differences are to be named.
    """
    reached = set(messages.operations)
    plan: Plan = {}
    for stage in messages.stages:
        plan["stage '{}'".format(stage.spec.name)] = "threads_num {}, capacity {}, {}".format(
            stage.spec.threads_num,
            stage.spec.capacity,
            "ordered" if stage.spec.ordered else "unordered",
        )
        reached |= stage.operations
    plan.update(_described_messages(filter(is_collective, reached)))
    for number, operation in enumerate(_in_order(reached, PREPARE)):
        for attribute, meaning in _OF_TABLES:
            value = json.dumps(_plain(operation.get_attr(attribute)))
            plan["{} of lookup {}".format(meaning, number)] = value
    return plan


def encode(plan: Plan) -> bytes:
    """A plan as a message; equal if the plans are."""
    return json.dumps(list(plan.items())).encode("utf-8")


def difference(mine: bytes, my_rank: int, other: bytes, other_rank: int) -> Optional[str]:
    """What differs first between two encoded plans; None if they are equal."""
    if mine == other:
        return None
    plans: Tuple[Plan, Plan] = (_decode(mine), _decode(other))
    ranks = (my_rank, other_rank)
    for name in [*plans[0], *plans[1]]:
        values = tuple(plan.get(name) for plan in plans)
        if values[0] is None or values[1] is None:
            has, lacks = ranks if values[1] is None else ranks[::-1]
            return "rank {} has {} and rank {} has not".format(has, name, lacks)
        if values[0] != values[1]:
            shown = _shown(values[0], values[1])
            return "{}: {} on rank {}, but {} on rank {}".format(
                name, shown[0], ranks[0], shown[1], ranks[1]
            )
    return "the order of messages on rank {} and rank {}".format(*ranks)


def _described_messages(collectives: Iterable[Any]) -> Plan:
    plan = {}
    for operation in sorted(collectives, key=name_of):
        dtype = tf.as_dtype(operation.inputs[0].dtype).name if operation.inputs else "nothing"
        plan["message '{}'".format(name_of(operation))] = "{} by {}".format(dtype, operation.type)
    return plan


def _in_order(operations: Iterable[Any], kind: str) -> List[Any]:
    found = [operation for operation in operations if operation.type == kind]
    return sorted(found, key=lambda operation: str(operation.name))


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _decode(encoded: bytes) -> Plan:
    return dict(json.loads(encoded.decode("utf-8")))


def _shown(first: str, second: str) -> Tuple[str, str]:
    """Both values, or the parts of them around where they differ."""
    if max(len(first), len(second)) <= _MOST_SHOWN:
        return first, second
    same = 0
    while same < min(len(first), len(second)) and first[same] == second[same]:
        same += 1
    start = max(0, same - _MOST_SHOWN // 3)
    ends = start + _MOST_SHOWN
    return "..." + first[start:ends] + "...", "..." + second[start:ends] + "..."
