"""A cost plan as text."""

from __future__ import annotations

from typing import List, Optional, Sequence

from graph_opt.reporting.cost import CostPlan, LinkCost, StepCost, estimated_seconds
from graph_opt.reporting.tables import bytes_text, counted, first_of, printable, table

_MOST_UNKNOWN = 12


def cost_text(plan: CostPlan, title: str) -> str:
    """The whole plan: what a step costs, what crosses between tasks, memory, and what is not known.

    Args:
      plan: What was counted.
      title: The first line, such as the name of the file.
    """
    header, *rows = step_rows(plan)
    blocks = ["{}: {}".format(title, step_text(plan)), table(header, rows)]
    blocks += [_links(plan), _memory(plan), "\n".join(_unknown(plan)), "\n".join(_assumed(plan))]
    blocks.append(_rates(plan))
    return "\n\n".join(block for block in blocks if block)


def notes_of(plan: CostPlan) -> List[str]:
    """What is not in the numbers of a plan, and what was taken for granted, a line each."""
    return [*_unknown(plan), *_assumed(plan), *([_rates(plan)] if plan.rates else [])]


def step_text(plan: CostPlan) -> str:
    """What a plan takes for a step: `a step ends at train; batches of 512 rows`."""
    rows = "of unknown size" if plan.batch is None else "of {}".format(counted(plan.batch, "row"))
    ends = first_of([printable(name) for name in plan.ends], 3)
    return "a step ends at {}; batches {}".format(ends, rows)


def step_rows(plan: CostPlan) -> List[List[str]]:
    """What a step costs as the rows of a table, its header first."""
    costs = [plan.before] if plan.after is None else [plan.before, plan.after]
    lines = [
        _Line("ops that run", [each.ops for each in costs]),
        _Line("  of these in stages, beside the step", [each.ops_ahead for each in costs]),
        _Line("rows of tables read", [each.rows for each in costs], has_size=True),
        _Line("bytes of these rows", [each.row_bytes for each in costs], is_bytes=True),
        _Line("tables that TensorFlow copies as a whole", [each.tables_copied for each in costs]),
        _Line("bytes of these tables", [each.copied_bytes for each in costs], is_bytes=True),
        _Line("calls between tasks", [each.calls for each in costs]),
        _Line("  one after the other, in the step", [each.waits for each in costs]),
        _Line("tensors between tasks", [each.tensors for each in costs]),
        _Line("bytes between tasks", [each.bytes for each in costs], is_bytes=True),
        _Line("tensors that stages hand over", [each.staged_tensors for each in costs]),
        _Line("bytes of these tensors", [each.staged_bytes for each in costs], is_bytes=True),
        _Line("collectives", [each.collectives for each in costs]),
        _Line("bytes given to these", [each.collective_bytes for each in costs], is_bytes=True),
    ]
    header = ["per step", "before", "after", "removed"][: 2 if plan.after is None else 4]
    shown = [line.cells(all_counted=not plan.unknown) for line in lines if line.has_any()]
    return [header, *shown, *_estimates(plan, costs)]


def _estimates(plan: CostPlan, costs: Sequence[StepCost]) -> List[List[str]]:
    if plan.rates is None:
        return []
    seconds = [estimated_seconds(cost, plan.rates) for cost in costs]
    cells = ["{:.2f} ms".format(each * 1000) for each in seconds]
    return [["estimate, without layers", *cells, *_removed(seconds, not plan.unknown)]]


class _Line:
    """One line of the table of steps.

    Args:
      label: What is counted.
      numbers: How much of it, before and perhaps after.
      is_bytes: Whether these are bytes.
      has_size: Whether it depends on how long tensors are, as bytes do.
    """

    def __init__(
        self,
        label: str,
        numbers: Sequence[float],
        is_bytes: bool = False,
        has_size: bool = False,
    ) -> None:
        self._label = label
        self._numbers = numbers
        self._is_bytes = is_bytes
        self._has_size = has_size or is_bytes

    def has_any(self) -> bool:
        """Whether it is worth a line."""
        return any(self._numbers)

    def cells(self, all_counted: bool) -> List[str]:
        """What stands in the columns, if nothing is left out of the plan or if something is."""
        whole = [round(number) for number in self._numbers]
        texts = [bytes_text(each) if self._is_bytes else "{:,}".format(each) for each in whole]
        return [self._label, *texts, *_removed(self._numbers, all_counted or not self._has_size)]


def _removed(numbers: Sequence[float], is_known: bool) -> List[str]:
    """The share that the rewrite removes; what it adds is plain to see."""
    if len(numbers) < 2:
        return []
    before, after = numbers
    if not before or after >= before:
        return ["-"]
    if not is_known:
        return ["?"]
    return ["{:.0f} %".format(100.0 * (before - after) / before)]


def _links(plan: CostPlan) -> str:
    before = {(each.source, each.target): each for each in plan.before.links}
    after = {} if plan.after is None else {(e.source, e.target): e for e in plan.after.links}
    names = list(dict.fromkeys([*before, *after]))
    if not names:
        return ""
    header = ["from", "to", "tensors", "bytes"]
    if plan.after is not None:
        header += ["tensors after", "bytes after"]
    rows = []
    for source, target in names:
        row = [_task(source), _task(target), *_link(before.get((source, target)))]
        if plan.after is not None:
            row += _link(after.get((source, target)))
        rows.append(row)
    return table(header, rows)


def _link(link: Optional[LinkCost]) -> List[str]:
    if link is None:
        return ["0", "0 B"]
    return ["{:,}".format(link.tensors), bytes_text(round(link.bytes))]


def _task(device: str) -> str:
    return device.rpartition("/device:")[0] or device


def _memory(plan: CostPlan) -> str:
    if not plan.memory:
        return ""
    rows = [
        [each.device or "(no device)"]
        + [bytes_text(int(size)) for size in (each.tables, each.slots, each.others)]
        for each in plan.memory
    ]
    return table(["variables on", "tables", "slots", "others"], rows)


def _assumed(plan: CostPlan) -> List[str]:
    return ["assumed: " + printable(text) for text in plan.assumptions]


def _unknown(plan: CostPlan) -> List[str]:
    lines = []
    for each in plan.unknown[:_MOST_UNKNOWN]:
        more = "" if not each.count else " (and {} more)".format(each.count)
        line = "not counted: {}{}: {}".format(printable(each.name), more, each.why)
        lines.append(line + ("" if not each.option else "; " + printable(each.option)))
    if len(plan.unknown) > _MOST_UNKNOWN:
        lines.append("and {} others, see --json".format(len(plan.unknown) - _MOST_UNKNOWN))
    return lines


def _rates(plan: CostPlan) -> str:
    rates = plan.rates
    if rates is None:
        return ""
    return (
        "estimate: all that is counted, one after the other, at the rates of {}: {:.1f} us an op, "
        "{:.0f} us a call that the step waits for, {:.0f} us each other call, {:.2f} GB/s between "
        "tasks, {:.2f} GB/s of rows. Stages overlap with the step, which is not in it".format(
            rates.where,
            rates.op_seconds * 1e6,
            rates.call_seconds * 1e6,
            rates.call_cpu_seconds * 1e6,
            rates.link_bytes_per_second / 1e9,
            rates.memory_bytes_per_second / 1e9,
        )
    )
