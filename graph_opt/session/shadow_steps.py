"""The first training steps of a session, each compared with what TensorFlow's ops make of it.

    take the batch, draw random numbers ──┬─> forward as built ────┐
                                          └─> forward, rewritten ──┴─ equal? ─┬─ yes ─> the step
                                                                              └─ no ──> the step as
                                                          built, and so all that follow it

All reads come before the step's updates, and no lookup runs ahead meanwhile, so both sides read the
same rows. A step that differs has updated nothing, and the stock step gets its batch.

The copies of the stock graph (`passes/stock_copy.py`) are added when the first step is shadowed, as
nodes that exports leave out. Stages go in lock-step with main, so when a step differs, the stage of
the lookups holds no batch, and the copied source takes over where it has read: from the IO stage's
buffer, if there is one. `NameMap.is_stopped` says so to this and all later sessions on the
graph.
"""

from __future__ import annotations

import dataclasses
import threading
import weakref
from typing import Any, Dict, Iterable, List, MutableMapping, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.callables import is_direct_session
from graph_opt.compat.sessions import Given, Prepared, RunPrepared, share_session
from graph_opt.config.options import session_options
from graph_opt.passes.micro_batches.micro_batch_names import MicroBatchNames
from graph_opt.passes.name_map import UNCHANGED
from graph_opt.passes.stock_copy import CannotCopy
from graph_opt.reporting.stderr import say
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.runtime.lock_step import go_in_lock_step
from graph_opt.session.compared_tensors import Pair
from graph_opt.session.graph_records import name_map_of, note_stopped
from graph_opt.session.optimization import is_training_graph
from graph_opt.session.partial_steps import fetch_map_of
from graph_opt.session.shadow_difference import Difference, MovedEdges, tables_behind
from graph_opt.session.shadow_run import Compared, ShadowRun
from graph_opt.session.shadowed_step import ShadowedStep, StepParts, shadowed_step
from graph_opt.session.stage_reach import StageReach
from graph_opt.session.step import Step
from graph_opt.session.stock_graph import stock_graph

_MOST_TRIES = 5
_NO_EFFECT = "shadow_steps has no effect: {}. graph-opt check compares whole runs of a script"
_UNKNOWN_BATCH = (
    "shadow_steps ended after {} steps: a step failed, and whether it used its batch is not known"
)
_PARTIAL = "shadow_steps ended after {} steps: steps of partial_run cannot be compared"
_LEFT_OUT = "shadow_steps does not compare {}"
_EQUAL = "shadow_steps: {}the first {} training steps compute what TensorFlow's ops do, {}{}"
_LOOKUPS_ALONE = "the lookups of "
_UNCOMPARED = "; {} could not be compared, as other workers changed the variables meanwhile"
_DIFFERS = "training step {} differs from TensorFlow's: {}. Nothing of it was applied{}"
_GOES_ON = "; training goes on with TensorFlow's ops, from the batch of this step on"
_FAILS = " (shadow_difference: 'stock' would go on with TensorFlow's ops)"


@dataclasses.dataclass
class _Progress:
    """What is known of a graph, whichever of its sessions found it."""

    left: int
    done: int = 0
    uncompared: int = 0
    largest: Optional[Difference] = None
    has_losses: bool = False
    is_over: bool = False


_of_graphs: MutableMapping[Any, _Progress] = weakref.WeakKeyDictionary()


def shadow_steps(session: Any, config: Any) -> Optional[ShadowSteps]:
    """What shadows the steps of a session, or has them run as built; None if nothing does.

    Args:
      session: One of our sessions, whose graph was rewritten if it is to be.
      config: Its extended config; None for none.
    """
    graph = session.graph
    name_map = name_map_of(graph)
    if name_map is UNCHANGED:
        return None
    options = None if config is None else session_options(config).shadow
    progress = _of_graphs.get(graph)
    if progress is None and options is not None and is_training_graph(graph):
        progress = _of_graphs[graph] = _Progress(options.steps)
    if progress is None or (progress.is_over and not name_map.is_stopped):
        return None
    return ShadowSteps(session, options is not None and options.fails, progress)


class ShadowSteps:
    """Shadows the steps of one session.

    Args:
      session: The session.
      fails: Whether a step that differs fails.
      progress: What is known of the graph.
    """

    def __init__(self, session: Any, fails: bool, progress: _Progress) -> None:
        self._fails = fails
        self._progress = progress
        self._lock = threading.RLock()
        self._lock_step = go_in_lock_step(share_session(session))
        self._plans: Dict[Tuple[int, ...], Optional[Tuple[Step, ShadowedStep]]] = {}
        self._scales: Dict[str, float] = {}

    def is_over(self, session: Any) -> bool:
        """Whether steps of the session run as ever from now on."""
        if not self._progress.is_over or name_map_of(session.graph).is_stopped:
            return False
        self._lock_step.open()
        return True

    def forget(self, stages: Iterable[str]) -> None:
        """Called before the threads of stages end."""
        self._lock_step.forget(stages)

    def run(
        self,
        session: Any,
        step: Step,
        given: Given,
        prepared: Prepared,
        run: RunPrepared,
        is_partial: bool = False,
    ) -> List[Any]:
        """Runs a step, and shadows it if it trains.

        Args:
          session: The session.
          step: What it comes to.
          given: Its fetches, targets and feeds.
          prepared: The same for the graph as it runs, with values by the feeds' references.
          run: Runs a step and returns the values of its fetches.
          is_partial: Whether it is a part of a partial run, which ends the comparison: nobody knows
            which parts take a batch.

        Raises:
          tf.errors.InternalError: The step differs from TensorFlow's, and is to fail then.
        """
        if name_map_of(session.graph).is_stopped:
            return run(*prepared)
        if is_partial and not self._progress.is_over:
            self._end(_PARTIAL.format(self._progress.done), session.graph)
        if not step.trains or step.fills:
            return self._unshadowed(step, prepared, run)
        with self._lock:
            plan = None if self._progress.is_over else self._plan(session, step, given)
            if plan is None:
                return self._unshadowed(step, prepared, run)
            stock = stock_graph(session.graph)
            shadow = ShadowRun(session, stock, plan, prepared, run)
            return self._shadowed(session, step, shadow, plan)

    def _unshadowed(self, step: Step, prepared: Prepared, run: RunPrepared) -> List[Any]:
        self._lock_step.ask(step.takes_from)
        try:
            return run(*prepared)
        except tf.errors.OutOfRangeError:
            raise
        except BaseException:
            if step.takes_from and not self._progress.is_over:
                self._end(_UNKNOWN_BATCH.format(self._progress.done))
            raise

    def _plan(self, session: Any, step: Step, given: Given) -> Optional[ShadowedStep]:
        """How to shadow a step; None, and the end of it, if that cannot be done."""
        key = tuple(map(id, step.given))
        known = self._plans.get(key)
        if known is not None:
            return known[1]
        graph = session.graph
        name_map = name_map_of(graph)
        try:
            if name_map.summed_batches:
                raise CannotCopy("a training step uses several batches")
            names = fetch_map_of(graph, name_map, StageReach(graph))
            for feature in names.features:
                if feature.not_shadowed:
                    raise CannotCopy(feature.not_shadowed)
            parts = StepParts(given, step.fetches, step.targets)
            plan = shadowed_step(graph, name_map, names, stock_graph(graph), parts)
        except CannotCopy as error:
            self._end(_NO_EFFECT.format(error), graph)
            return None
        for text in plan.left_out:
            warn_once(_LEFT_OUT.format(text), graph)
        self._plans[key] = step, plan
        return plan

    def _shadowed(
        self, session: Any, step: Step, shadow: ShadowRun, plan: ShadowedStep
    ) -> List[Any]:
        session.stage_threads.apply_gradients(session)
        self._lock_step.ask(step.takes_from)
        self._draw(shadow, plan)
        compared = shadow.compare(self._scales)
        text = self._what_differs(session, shadow, compared, plan)
        if text and not is_direct_session(session):
            for _ in range(_MOST_TRIES):
                compared = shadow.compare_at_once(self._scales)
                if not compared.moved:
                    break
            text = self._what_differs(session, shadow, compared, plan)
        if not text:
            results = shadow.as_rewritten()
            self._progress.has_losses |= bool(plan.losses)
            self._note(compared)
            return results
        text = _DIFFERS.format(self._progress.done + 1, text, _FAILS if self._fails else _GOES_ON)
        if self._fails:
            raise tf.errors.InternalError(None, None, text)
        self._stop(session)
        warn_once(text, session.graph)
        shadow.draw_again(compared)
        return shadow.as_built()

    def _draw(self, shadow: ShadowRun, plan: ShadowedStep) -> None:
        try:
            shadow.draw()
        except tf.errors.OutOfRangeError:
            raise
        except BaseException:
            if len({tensor.op for tensor in plan.shared}) > 1:
                self._end(_UNKNOWN_BATCH.format(self._progress.done))
            raise

    def _what_differs(
        self, session: Any, shadow: ShadowRun, compared: Compared, plan: ShadowedStep
    ) -> str:
        """What differs, and where that begins; "" if nothing does by more than rounding."""
        if compared.failure:
            return compared.failure
        pairs = compared.beyond_rounding
        if not pairs:
            return ""
        graph, first = session.graph, pairs[0]
        name_map, stock = name_map_of(graph), stock_graph(graph)
        text = str(compared.of(first))
        edges = MovedEdges(pairs, stock, shadow.values_with, shadow.feeds)
        cause = edges.cause(name_map)
        if cause is not None:
            passes = cause.passes
            if len(passes) > 1 and _is_staged_wrong(shadow, first, plan):
                passes = passes[-1:]
            return "{}; first {}{}{}".format(
                text, cause.difference, _of_tables(cause.tables), _by(passes)
            )
        divided = name_map.part(MicroBatchNames)
        if divided is not None and first.name in divided.results:
            return text + _by(("micro_batches",))
        if first in plan.lookups:
            return text + _of_tables(tables_behind(first.stock, shadow.feeds))
        unseen = edges.unexplained(name_map)
        if unseen is None:
            return ""  # Rounding, which layers have amplified.
        return text + _at(unseen.nodes) + _by(unseen.passes)

    def _note(self, compared: Compared) -> None:
        progress = self._progress
        progress.done += 1
        progress.uncompared += compared.moved
        for _, found in compared.differences:
            if progress.largest is None or found.relative > progress.largest.relative:
                progress.largest = found
        for name, size in compared.sizes.items():
            self._scales[name] = max(self._scales.get(name, 0.0), size)
        progress.left -= 1
        if progress.left > 0:
            return
        self._end()
        largest = progress.largest
        how = "equal bit for bit"
        if largest is not None and largest.relative:
            how = "within rounding; the most that differs is {}".format(largest)
        more = _UNCOMPARED.format(progress.uncompared) if progress.uncompared else ""
        what = "" if progress.has_losses else _LOOKUPS_ALONE
        say(_EQUAL.format(what, progress.done, how, more))

    def _end(self, warning: str = "", graph: Any = None) -> None:
        self._progress.is_over = True
        self._lock_step.open()
        if warning:
            warn_once(warning, graph)

    def _stop(self, session: Any) -> None:
        """Has all steps of the graph from now on run what its user built."""
        note_stopped(session.graph)
        self._progress.is_over = True
        session.learn_graph()


def _is_staged_wrong(shadow: ShadowRun, first: Pair, plan: ShadowedStep) -> bool:
    """Whether a lookup is right once it is done again, so that what came with the batch is not."""
    if not shadow.look_up_again():
        return False
    return first not in shadow.compare({}).beyond_rounding


def _of_tables(tables: Tuple[str, ...]) -> str:
    return ", of variables {}".format(", ".join(map("'{}'".format, tables))) if tables else ""


def _at(nodes: Tuple[str, ...]) -> str:
    if not nodes:
        return "; the inputs of rewritten nodes do not differ"
    where = ", ".join(map("'{}'".format, nodes))
    return "; it begins where nothing can be fetched, as in a tf.cond or a loop: " + where


def _by(passes: Tuple[str, ...]) -> str:
    return ", by pass " + " or ".join(passes) if passes else ""
