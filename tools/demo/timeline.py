"""Timelines of a few training steps as a picture: who works, who waits, on which batch.

    stock   lookups    [7]                    [8]
            step       [ batch 7 ............][ batch 8 ...
    async   lookups    [8][ waits for room   ][9][ waits for ...
            step       [ batch 7 .........][ batch 8 .........

The steps are traced, which slows them down: lengths compare within a picture, not with timed steps.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Collection, Dict, List, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tools.bench.training.contenders import Contender

BATCH_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2")
WAIT_COLOUR = "#eeeeee"
MAIN = "main"
STEP = "step"
INPUT_STAGE_ENDING = "_io"  # of the names of stages that read the input
SETTLING_STEPS = 6
_LANE_HEIGHT = 0.7
_MICRO = 1e-6


class Bar(NamedTuple):
    """One step of one thread: its batch, and from when to when; `waits` lie within. Seconds."""

    batch: int
    start: float
    end: float
    waits: Sequence[Tuple[float, float]] = ()


class Lane(NamedTuple):
    """The steps of one thread, or one part of them."""

    title: str
    bars: List[Bar]


class Panel(NamedTuple):
    """Lanes over one time axis."""

    title: str
    lanes: List[Lane]


def stock_lanes(
    stock: Contender, train_op: tf.Operation, lookups: Collection[str], steps: int
) -> List[Lane]:
    """Traces steps of a session without prefetch: the lookups within each step, and all of it.

    Args:
      stock: the open session, of mode "stock" or "fused".
      train_op: what a step runs.
      lookups: names of the operations that graph_opt would move, which are shown as lookups.
      steps: how many to trace.
    """
    lookup_bars, step_bars = [], []
    for batch in range(-SETTLING_STEPS, steps):
        start = time.time()
        metadata = _traced_run(stock, train_op)
        end = time.time()
        spans = _spans(metadata, lookups)
        if batch >= 0:
            step_bars.append(Bar(batch, start, end))
            if spans:
                first, last = min(span[0] for span in spans), max(span[1] for span in spans)
                lookup_bars.append(Bar(batch, first, last))
    return [Lane("lookups", lookup_bars), Lane(STEP, step_bars)]


def optimized_lanes(optimized: Contender, steps: int) -> List[Lane]:
    """Traces steps of a session with prefetch: a lane for each prefetch thread, and the main step.

    Args:
      optimized: opened with a `graph_opt.train.StepTraceHook` among its hooks.
      steps: steps of main to trace.
    """
    import graph_opt

    trace = graph_opt.step_trace(optimized.session)
    trace.detailed = True
    optimized.run(SETTLING_STEPS)
    trace.clear()
    # A thread's step is recorded when it has ended: some more steps, so that none is missing.
    optimized.run(steps + SETTLING_STEPS)
    trace.detailed = False
    records = trace.records()
    first_main = min(record.step for record in records if record.stage == MAIN)
    stages: Dict[str, List[Any]] = {}
    for record in records:
        stages.setdefault(record.stage, []).append(record)
    order = sorted(
        stages, key=lambda stage: (stage == MAIN, not stage.endswith(INPUT_STAGE_ENDING), stage)
    )
    lanes = [lane for stage in order for lane in _lanes(stages[stage], first_main)]
    end = lanes[-1].bars[steps - 1].end
    return [Lane(lane.title, [bar for bar in lane.bars if bar.start < end]) for lane in lanes]


def draw(groups: Sequence[Sequence[Panel]], path: Path) -> None:
    """Writes the panels as a PNG, one below the other; those of a group share a time scale.

    Args:
      groups: panels that compare with each other.
      path: the file; its folder is made if missing.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = [panel for group in groups for panel in group]
    heights = [len(panel.lanes) + 0.9 for panel in panels]
    figure, axes = pyplot.subplots(
        len(panels),
        1,
        figsize=(12, 0.52 * sum(heights) + 0.6),
        gridspec_kw={"height_ratios": heights},
    )
    spans = [max(map(_span, group)) for group in groups for _ in group]
    for panel, axis, span in zip(panels, axes, spans):
        _draw_panel(panel, axis, span)
    axes[-1].set_xlabel(
        "milliseconds (tracing slows these steps down)\n"
        "numbers and colours: batches; grey: waiting at a buffer"
    )
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(str(path), dpi=110)
    pyplot.close(figure)


def _traced_run(contender: Contender, train_op: tf.Operation) -> Any:
    # A gRPC session collects the times of operations at no lower level than this.
    level = tf.RunOptions.FULL_TRACE if contender.cluster.master else tf.RunOptions.SOFTWARE_TRACE
    metadata = tf.RunMetadata()
    contender.session.run(train_op, options=tf.RunOptions(trace_level=level), run_metadata=metadata)
    return metadata


def _spans(metadata: Any, names: Collection[str]) -> List[Tuple[float, float]]:
    return [
        (
            node.all_start_micros * _MICRO,
            (node.all_start_micros + node.all_end_rel_micros) * _MICRO,
        )
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        if node.node_name in names
    ]


def _lanes(records: Sequence[Any], first_main: int) -> List[Lane]:
    """Lanes of one stage's threads. Batches are counted over all its threads, as they took them."""
    stage = records[0].stage
    taken = sorted(records, key=_time_of_take)
    threads = sorted({record.thread for record in records})
    before = min(record.step for record in records) * len(threads)
    bars: Dict[str, List[Bar]] = {thread: [] for thread in threads}
    for position, record in enumerate(taken):
        waits = [(wait.start, wait.end) for wait in record.waits]
        # A prefetch step ends with its put; what follows is the reading of the trace.
        end = record.end if stage == MAIN else max([end for _, end in waits] or [record.end])
        bars[record.thread].append(Bar(before + position - first_main, record.start, end, waits))
    title = STEP if stage == MAIN else "input" if stage.endswith(INPUT_STAGE_ENDING) else "lookups"
    return [
        Lane(title if len(threads) == 1 else f"{title} {number}", bars[thread])
        for number, thread in enumerate(threads)
    ]


def _time_of_take(record: Any) -> float:
    ends = [wait.end for wait in record.waits if wait.op == "TensorBufferTake"]
    return float(ends[0] if ends else record.start)


def _shown(panel: Panel) -> Tuple[float, float]:
    """From the first to the last of the steps themselves: the last lane."""
    steps = panel.lanes[-1].bars
    return steps[0].start, steps[-1].end


def _span(panel: Panel) -> float:
    start, end = _shown(panel)
    return end - start


def _draw_panel(panel: Panel, axis: Any, span: float) -> None:
    start, _ = _shown(panel)
    axis.set_title(panel.title, loc="left", fontsize=10)
    axis.set_xlim(0, span * 1000)
    axis.set_ylim(len(panel.lanes) - 0.5, -0.5)
    axis.set_yticks(range(len(panel.lanes)))
    axis.set_yticklabels([lane.title for lane in panel.lanes])
    axis.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    for row, lane in enumerate(panel.lanes):
        for bar in lane.bars:
            _draw_bar(bar, row, axis, start, span)


def _draw_bar(bar: Bar, row: int, axis: Any, start: float, span: float) -> None:
    top = row - _LANE_HEIGHT / 2
    colour = BATCH_COLOURS[bar.batch % len(BATCH_COLOURS)]
    whole = ((bar.start - start) * 1000, (bar.end - bar.start) * 1000)
    axis.broken_barh([whole], (top, _LANE_HEIGHT), facecolors=colour, edgecolors="white")
    waits = [((begin - start) * 1000, (end - begin) * 1000) for begin, end in bar.waits]
    axis.broken_barh(waits, (top, _LANE_HEIGHT), facecolors=WAIT_COLOUR)
    left, width = longest_work(bar)
    middle = (left - start + width / 2) * 1000
    if width > span / 60 and 0 <= middle <= span * 1000:
        axis.text(middle, row, str(bar.batch), ha="center", va="center", color="white", fontsize=9)


def longest_work(bar: Bar) -> Tuple[float, float]:
    """Start and length of the longest stretch of the bar without a wait."""
    edges = [bar.start, *[edge for wait in sorted(bar.waits) for edge in wait], bar.end]
    stretches = [(edges[i], edges[i + 1] - edges[i]) for i in range(0, len(edges), 2)]
    return max(stretches, key=lambda stretch: stretch[1])
