"""Which nodes run for a step: those of the step itself, and those of each stage's threads."""

from __future__ import annotations

from typing import AbstractSet, Collection, Dict, FrozenSet, List, NamedTuple, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.stage_spec import spec_of
from graph_opt.passes.graph_reports import batch_placeholders
from graph_opt.passes.io_stages import BATCH_SOURCES, stage_puts
from graph_opt.passes.transfers.training_ends import is_update, training_ends
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.op_names import ASSIGNS, KEEP_SERVED

MAIN = "main"


class Run(NamedTuple):
    """What TensorFlow runs at once.

    Attributes:
      name: `main`, or the name of a stage.
      kind: `main`, `io` or `prefetch`.
      nodes: The nodes, in no particular but in a deterministic order.
    """

    name: str
    kind: str
    nodes: Dict[str, None]


class Step(NamedTuple):
    """What a step runs.

    Attributes:
      ends: The nodes that are fetched.
      left: Other nodes at which training steps end, which are not part of this one.
    """

    ends: Tuple[str, ...]
    left: Tuple[str, ...]


def find_step(
    view: GraphView,
    fetches: Sequence[str],
    lookups: Sequence[Lookup],
    inside: AbstractSet[str] = frozenset(),
) -> Step:
    """What a step of a graph fetches: what is told, else the end of training.

    Without either, what nothing reads of all that comes after lookups, or, if there are none, after
    the input.

    Args:
      view: The graph.
      fetches: What is told.
      lookups: Its lookups.
      inside: Nodes that cannot be fetched, as they are in functions.

    Raises:
      tf.errors.InvalidArgumentError: The graph lacks a node that is to be fetched, or it is not
        known what a step is.
    """
    if fetches:
        names = tuple(TensorRef.parse(text).node for text in fetches)
        missing = [name for name in names if name not in view]
        if missing:
            raise _wrong("--fetch {!r}: the graph has no such node".format(missing[0]))
        return Step(names, ())
    updates = {name: count for name, count in _updates_by_end(view).items() if name not in inside}
    if updates:
        most = max(updates.values())
        chosen = next(name for name, count in reversed(list(updates.items())) if count == most)
        return Step((chosen,), tuple(name for name in updates if name != chosen))
    starts = [lookup.output.node for lookup in lookups]
    starts = starts or [*view.of_op(*BATCH_SOURCES), *batch_placeholders(view)]
    after = [name for name in view.descendants(starts) if name not in inside]
    ends = tuple(name for name in after if not view.successors(name))
    if not ends:
        raise _wrong("it has no update of variables, no lookup and no input: say --fetch NODE")
    return Step(ends, ())


def runs_of(view: GraphView, ends: Collection[str]) -> List[Run]:
    """The runs of a step, main first."""
    kept = [name for name in view.of_op(KEEP_SERVED) if name not in ends]
    runs = [Run(MAIN, MAIN, view.ancestors([*ends, *kept]))]
    for put in stage_puts(view):
        spec = spec_of(view.nodes[put])
        runs.append(Run(spec.name, spec.kind, view.ancestors([put])))
    return runs


def _updates_by_end(view: GraphView) -> Dict[str, int]:
    """For each end of a training step, how many updates it runs; in the order of the graph.

    What only assigns values, such as a restore, does not train.
    """
    masks = training_ends(view)
    counts: Dict[int, int] = {}
    for name, mask in masks.items():
        if is_update(view, name) and view.op(name) not in ASSIGNS:
            counts[mask] = counts.get(mask, 0) + 1
    ends = [name for name in masks if _is_last(view, name, masks)]
    sums = {
        name: sum(count for mask, count in counts.items() if mask & masks[name]) for name in ends
    }
    return {name: count for name, count in sums.items() if count}


def _is_last(view: GraphView, name: str, masks: Dict[str, int]) -> bool:
    own = masks[name]
    single = own & (own - 1) == 0
    return single and not any(masks.get(each) == own for each in view.successors(name))


def alive(runs: Sequence[Run]) -> FrozenSet[str]:
    """The nodes of all runs."""
    return frozenset(name for run in runs for name in run.nodes)


def _wrong(text: str) -> Exception:
    return tf.errors.InvalidArgumentError(None, None, "the graph's step is not known: " + text)
