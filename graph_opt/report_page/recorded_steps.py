"""Steps that were recorded before: in a trace file, or in a page that has a timeline."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, Iterator, List

from graph_opt.compat import tf
from graph_opt.ops.stage_nodes import BUFFER_PUT, BUFFER_TAKE
from graph_opt.reporting.step_records import StepRecord, Wait, records_of

_MOST_BYTES = 256 << 20
_CONTENT = re.compile(r'<script type="application/json" id="content">(.*?)</script>', re.DOTALL)


def read_steps(path: str) -> List[StepRecord]:
    """Reads recorded steps.

    Args:
      path: What `graph_opt.step_trace(session).save` wrote, or a page with a timeline.

    Raises:
      tf.errors.NotFoundError: There is no such file.
      tf.errors.InvalidArgumentError: It cannot be read, or no step is recorded in it.

    Example:
      >>> read_steps("report.html")[0].stage
      'async_embedding'
    """
    text = _text(path)
    try:
        page = _CONTENT.search(text)
        if page is not None:
            steps = list(_of_page(json.loads(page.group(1)).get("timeline") or {}))
        else:
            steps = records_of(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _invalid(path, "is no timeline: {}".format(error)) from error
    if not steps:
        raise _invalid(path, "has no recorded steps")
    return steps


def _text(path: str) -> str:
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            raise _invalid(path, "is larger than {} MiB".format(_MOST_BYTES >> 20))
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError as error:
        raise tf.errors.NotFoundError(None, None, "{}: no such file".format(path)) from error
    except UnicodeDecodeError as error:
        raise _invalid(path, "is no text") from error
    except OSError as error:
        raise _invalid(path, "cannot be read: {}".format(error.strerror)) from error


def _of_page(timeline: Dict[str, Any]) -> Iterator[StepRecord]:
    """The records that lanes, as `timeline` makes them, come from; they are in milliseconds."""
    for lane in timeline.get("lanes", ()):
        for start, end, number, *waits in lane["steps"]:
            yield StepRecord(
                str(lane["stage"]),
                str(lane["thread"]),
                int(number),
                float(start) / 1000,
                float(end) / 1000,
                tuple(
                    Wait(
                        BUFFER_PUT if kind else BUFFER_TAKE,
                        float(begin) / 1000,
                        float(until) / 1000,
                    )
                    for begin, until, *kind in (waits[0] if waits else ())
                ),
                bool(waits),
            )


def _invalid(path: str, what: str) -> Exception:
    text = "{}: {}; record it by graph-opt run --report FILE.html, or by step_trace(session).save"
    return tf.errors.InvalidArgumentError(None, None, text.format(path, what))
