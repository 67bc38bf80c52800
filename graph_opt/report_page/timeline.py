"""The timeline of a page: a lane for each thread, from the steps that a trace recorded."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from graph_opt.ops.stage_nodes import BUFFER_PUT
from graph_opt.reporting.step_records import Wait

MOST_STEPS = 20_000
_FOR_ROOM = 1
_MAIN = "main"


def timeline(steps: Iterable[Any], regions: Mapping[str, str]) -> Optional[Dict[str, Any]]:
    """Lanes with steps in milliseconds from the first one; None if nothing was recorded.

    A step is its start, its end and its number; if it was traced, its waits follow: start and end,
    and 1 if it waited for room in a buffer, not for a batch.

    Args:
      steps: `StepRecord`s of `graph_opt.step_trace`; of more than `MOST_STEPS` the last ones.
      regions: Stage to the region of its threads.
    """
    records = sorted(steps, key=lambda record: record.start)[-MOST_STEPS:]
    if not records:
        return None
    begin = records[0].start
    lanes: Dict[Tuple[str, str], List[List[Any]]] = {}
    for record in records:
        step: List[Any] = [_ms(record.start - begin), _ms(record.end - begin), record.step]
        if record.traced:
            step.append([_wait(wait, begin) for wait in record.waits])
        lanes.setdefault((record.stage, record.thread), []).append(step)
    order = {"io": 0, "prefetch": 1, "pipeline": 2, "main": 3}
    named = [
        {
            "stage": stage,
            "thread": thread,
            "region": _MAIN if stage == _MAIN else regions.get(stage, "prefetch"),
            "steps": lane,
        }
        for (stage, thread), lane in lanes.items()
    ]
    named.sort(key=lambda lane: (order.get(str(lane["region"]), 2), lane["stage"], lane["thread"]))
    return {
        "lanes": named,
        "end": max(_ms(record.end - begin) for record in records),
        "detailed": any(record.traced for record in records),
    }


def _wait(wait: Wait, begin: float) -> List[float]:
    times = [_ms(wait.start - begin), _ms(wait.end - begin)]
    return [*times, _FOR_ROOM] if wait.op == BUFFER_PUT else times


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
