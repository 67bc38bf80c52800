"""When the steps of a run's threads began and ended, and files of it in Chrome's trace format.

Such a file also opens in Perfetto and `chrome://tracing`. The format: "Trace Event Format" of the
Chromium project, of which it has complete events ("X") and names of threads ("M").
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Tuple

STEP, WAIT = "step", "wait"  # The categories of events.
_MICROSECONDS = 1e6


class Wait(NamedTuple):
    """A put that waited for room, or a take for an element; in `perf_counter` seconds."""

    op: str
    start: float
    end: float


class StepRecord(NamedTuple):
    """One step of one thread.

    Attributes:
      stage: Name of the stage; "main" for the main graph.
      thread: Name of the thread.
      step: Number of the step within this thread, from 0.
      start: Seconds on the clock of `time.perf_counter`.
      end: The same clock.
      waits: When the step's puts and takes waited at buffers, on the same clock; empty unless it
        was traced.
      traced: Whether its waits were recorded, which takes it longer.
    """

    stage: str
    thread: str
    step: int
    start: float
    end: float
    waits: Tuple[Wait, ...] = ()
    traced: bool = False


def trace_events(records: Iterable[StepRecord]) -> Dict[str, Any]:
    """The records as a trace file's JSON; each lane is a thread, waits lie within their steps.

    Example:
      >>> json.dump(trace_events(trace_of(session).records()), file)
    """
    lanes: Dict[Tuple[str, str], int] = {}
    events: List[Dict[str, Any]] = []
    for record in records:
        lane = lanes.setdefault((record.stage, record.thread), len(lanes))
        named: Dict[str, Any] = dict(stage=record.stage, thread=record.thread, step=record.step)
        if record.traced:
            named["traced"] = True
        name = "{} {}".format(record.stage, record.step)
        events.append(_event(STEP, name, lane, record.start, record.end, named))
        for wait in record.waits:
            events.append(_event(WAIT, wait.op, lane, wait.start, wait.end, {}))
    for (stage, thread), lane in lanes.items():
        named = {"name": "{} ({})".format(stage, thread)}
        events.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": lane, "args": named})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def records_of(trace: Any) -> List[StepRecord]:
    """The records in a trace file's JSON; events of other programs are left out.

    Args:
      trace: What `json.load` has read.

    Raises:
      ValueError: It is not such JSON, or an event of a step lacks what it must have.
    """
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list):
        raise ValueError("it has no list 'traceEvents'")
    found: List[StepRecord] = []
    latest: Dict[Any, int] = {}
    for event in events:
        kind = event.get("cat") if isinstance(event, dict) else None
        try:
            if kind == STEP:
                latest[event["tid"]] = len(found)
                found.append(_record(event))
            elif kind == WAIT and event.get("tid") in latest:
                place = latest[event["tid"]]
                wait = Wait(str(event["name"]), *_seconds(event))
                waits = (*found[place].waits, wait)
                found[place] = found[place]._replace(waits=waits, traced=True)
        except (KeyError, TypeError) as error:
            raise ValueError("the event of a step lacks or spoils {}".format(error)) from error
    return found


def _event(
    kind: str, name: str, lane: int, start: float, end: float, named: Dict[str, Any]
) -> Dict[str, Any]:
    return {
        "ph": "X",
        "cat": kind,
        "name": name,
        "pid": 0,
        "tid": lane,
        "ts": round(start * _MICROSECONDS, 3),
        "dur": round((end - start) * _MICROSECONDS, 3),
        "args": named,
    }


def _record(event: Any) -> StepRecord:
    named = event["args"]
    stage, thread, step = str(named["stage"]), str(named["thread"]), int(named["step"])
    start, end = _seconds(event)
    return StepRecord(stage, thread, step, start, end, traced=bool(named.get("traced")))


def _seconds(event: Any) -> Tuple[float, float]:
    start = float(event["ts"]) / _MICROSECONDS
    return start, start + float(event["dur"]) / _MICROSECONDS
