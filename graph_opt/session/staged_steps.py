"""What graph_opt's session classes do before and after their steps."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.sessions import Elements, Given, share_session
from graph_opt.compat.tensor_keys import key_of
from graph_opt.config import to_stock
from graph_opt.config.messages import SessionConfig
from graph_opt.export.users_graph import export_users_graph, has_our_ops
from graph_opt.passes.name_map import NameMap
from graph_opt.report_page.graph_report import GraphReport
from graph_opt.session import graph_use
from graph_opt.session.chosen_stages import ChosenStages
from graph_opt.session.debugged_steps import DebuggedSteps
from graph_opt.session.failed_nodes import told_to_ranks, with_users_node
from graph_opt.session.features.listed import SessionHooks
from graph_opt.session.fetch_map import FetchMap, Resolved
from graph_opt.session.graph_page import graph_report
from graph_opt.session.graph_records import name_map_of
from graph_opt.session.input_watch import InputWatch
from graph_opt.session.installed_config import checked_options, effective_config
from graph_opt.session.late_nodes import has_no_late_nodes, rewrite_late_nodes
from graph_opt.session.late_training import LateTraining
from graph_opt.session.optimization import is_training_step, optimize_before_first_run
from graph_opt.session.partial_steps import fetch_map_of
from graph_opt.session.saved_input import SavedInput
from graph_opt.session.shadow_steps import ShadowSteps, shadow_steps
from graph_opt.session.stage_reach import StageReach
from graph_opt.session.stage_threads import StageThreads
from graph_opt.session.step import Step
from graph_opt.session.step_count import count_step
from graph_opt.session.step_listeners import tell_of_step
from graph_opt.session.step_options import StepOptions
from graph_opt.session.step_recording import RecordedSession
from graph_opt.session.untrained_graph import UntrainedGraph
from graph_opt.session.written_tables import TableWrite, WrittenTables
from graph_opt.strategy.data_parallel_graph import give_first_values

_MAX_CACHED_STEPS = 512


class StagedSteps(RecordedSession):
    """Mixin of graph_opt's session classes; precedes one of TensorFlow's classes."""

    def __init__(
        self, target: str = "", graph: Any = None, config: Optional[SessionConfig] = None
    ) -> None:
        effective = effective_config(config)
        stock = None
        if effective is not None:
            checked_options(effective, target or "")
            stock = to_stock(effective, target or "")
        self.set_up(effective)
        base: Any = super()
        base.__init__(target, graph, stock)

    def set_up(self, config: Any) -> None:
        """Does what opening a session with this extended config does; None for none."""
        self._wanted_config = config
        self._step_options: Optional[StepOptions] = None
        self._threads = StageThreads()
        self._steps: Dict[Tuple[int, ...], Step] = {}
        self._some_read_weights = False  # Of the steps so far, as few sessions have such.
        self._ran, self._first_run = False, threading.Lock()
        self._reach: Optional[StageReach] = None
        self._fetch_map: Optional[FetchMap] = None
        self._name_map: Optional[NameMap] = None
        self._hooks = SessionHooks(self)
        # Each is called with the session and `operations_behind` a step that it has not run before.
        self._watchers: Sequence[Callable[[Any, Set[Any]], None]] = ()
        self._tables: Optional[WrittenTables] = None
        self._debugged = DebuggedSteps()
        self._shadow: Optional[ShadowSteps] = None
        self._input = InputWatch(self)
        self.watch_servers(config, self._threads.give_up)

    @property
    def stage_threads(self) -> StageThreads:
        """The threads that fill this session's buffers."""
        return self._threads

    def graph_report(self, **options: Any) -> GraphReport:
        """This session's graph before and after, as `graph_opt.graph_report` returns it."""
        return graph_report(self, **options)

    def prepare_step(
        self,
        fetches: Elements,
        targets: Elements,
        feeds: Elements,
        values: Sequence[Any] = (),
        runs_now: bool = True,
        is_partial: bool = False,
    ) -> Given:
        """Maps the fetches, and starts or ends threads as the step requires."""
        if runs_now:
            tell_of_step(self, fetches, targets, feeds, values)
        if not self._ran:
            self._prepare_graph([*fetches, *targets])
        self.learn_graph()
        if is_partial and not runs_now:
            assert self._fetch_map is not None
            if self._fetch_map.begin_partial(list(fetches), list(targets), list(feeds)):
                self._steps.clear()
        step = self._step_of(fetches, targets, feeds, is_partial=is_partial)
        if runs_now:
            self._prepare_run(step, (fetches, targets, feeds), values)
        else:
            assert self._fetch_map is not None
            self._fetch_map.refuse_compiled(fetches)
        return step.fetches, step.targets, step.feeds

    def _prepare_run(self, step: Step, given: Given, values: Sequence[Any]) -> None:
        """Does what a step needs that is about to run."""
        feeds = given[2]
        give_first_values(self, [*step.fetches, *step.targets], feeds)  # Before rows are read.
        if step.fills:
            self._prepare_stages(step, feeds, values)  # The caller is such a thread.
        elif not self._threads.are_as_needed(step):
            self.within_limit(self._prepare_stages, step, feeds, values)
        if step.trains:
            count_step()
        for hooks in self._hooks.before_steps:
            hooks.before_step(step, self.within_limit)
        if step.written is not None:
            self._note_write(step.written)
        if self._debugged.is_next:
            self._debugged.before_step(self._graph_of_session(), step, given)

    def _step_of(self, *given: Elements, is_partial: bool = False) -> Step:
        elements = (*given[0], None, *given[1], None, *given[2], is_partial)
        key = tuple(map(id, elements))
        step = self._steps.get(key)
        if step is None:
            step = self._resolve(given, is_partial, elements)
            if len(self._steps) >= _MAX_CACHED_STEPS:
                self._steps.clear()
            self._steps[key] = step
        return step

    def needs_more_feeds(self, given: Given, is_partial: bool = False) -> bool:
        """Whether a step reads weights that its model takes from a stage when it trains."""
        if not self._some_read_weights:
            return False
        return bool(self._step_of(*given, is_partial=is_partial).pipeline.reads)

    def more_feeds(self, given: Given, is_partial: bool = False) -> Dict[Any, Any]:
        """The weights themselves, for a step that reads them without training."""
        if not self._some_read_weights:
            return {}
        reads = self._step_of(*given, is_partial=is_partial).pipeline.reads
        if not reads:
            return {}
        values = self.within_limit(share_session(self).run, [direct for _, direct in reads])
        return {taken: value for (taken, _), value in zip(reads, values)}

    def goes_through_run(self, given: Given) -> bool:
        """Whether a compiled step runs as one of `run`."""
        return self._shadow is not None or self.needs_more_feeds(given)

    def run_step(self, given: Given, prepared: Any, run: Any, is_partial: bool) -> List[Any]:
        """Runs a step, and shadows it if that is asked for."""
        shadow = self._shadow
        if shadow is None:
            try:
                return list(run(*prepared))
            except tf.errors.InvalidArgumentError as error:
                instead = None if is_partial else self._without_others(error.op, given)
                if instead is None:
                    raise
            return list(run(*self._with_values(instead, given, prepared[2])))
        step = self._step_of(*given, is_partial=is_partial)
        results = shadow.run(self, step, given, prepared, run, is_partial)
        self._shadow = None if shadow.is_over(self) else shadow
        return results

    def _without_others(self, failed: Any, given: Given) -> Optional[Resolved]:
        """What to run in place of a step that failed at what it did not ask for, if anything."""
        assert self._fetch_map is not None
        step = self._step_of(*given)
        if failed is None or step.trains or step.takes or step.fills:
            return None
        return self._fetch_map.without_others(failed, *map(list, given))

    def _with_values(self, instead: Resolved, given: Given, fed: Any) -> Any:
        """A step in place of one that was prepared, with the values that this is fed."""
        pairs = zip(instead.feeds, self._step_of(*given).feeds)
        values = {key_of(feed): fed[key_of(prepared)] for feed, prepared in pairs}
        return instead.fetches, instead.targets, values

    def fail_early(self, given: Given, is_partial: bool = False) -> None:
        """Runs alone what a step on servers will fail at: taking from a stage that has ended.

        So the end of the input needs no answer of servers, which may be slow or gone by then.
        """
        if is_partial or not self._target_of_session():
            return
        takes = self._step_of(*given).takes
        for name in sorted(self._threads.exhausted(takes)) if takes else ():
            self.run_alone(takes[name])

    def step_ended(
        self, error: Optional[BaseException], given: Given, is_partial: bool = False
    ) -> None:
        """Notes rows and works that are done with; starts stages that gave weights for nothing."""
        self._input.after_step(error, self._step_of, given, is_partial)
        for hooks in self._hooks.after_steps:
            if hooks.matter:
                hooks.after_step(self._step_of(*given, is_partial=is_partial), error)
        if error is not None:
            self._threads.note_failed_step(
                self, error, lambda: self._step_of(*given, is_partial=is_partial).takes_from
            )

    def error_raised(self, error: tf.errors.OpError) -> tf.errors.OpError:
        """The error at a node of the user's graph, if it was raised at one of ours."""
        raised = super().error_raised(error)
        if self._reach is None:
            return raised
        message = with_users_node(raised, self._graph_of_session(), self._reach)
        return type(raised)(None, None, message)

    def message_for_script(self, error: BaseException) -> Optional[str]:
        """The same for an error that ranks had to be told of first."""
        if self._reach is None or not isinstance(error, tf.errors.OpError):
            return None
        return told_to_ranks(error, self._graph_of_session(), self._reach)

    def step_options(self, options: Any) -> Any:
        """What the script gives, and what DeepRec's options make of it."""
        self._debugged.note(options)
        if self._step_options is None:
            self._step_options = StepOptions(self._wanted_config, self._target_of_session())
        return self._step_options.of(options)

    def fed_value(self, tensor: Any, value: Any) -> Any:
        """This rank's rows of what is fed for a sharded table."""
        assert self._fetch_map is not None
        return self._fetch_map.fed_value(tensor, value)

    def fetched_values(self, fetches: Elements, values: List[Any]) -> List[Any]:
        """The results of a step, with whole tables in the place of parts."""
        assert self._fetch_map is not None
        return self._fetch_map.results(self, fetches, values)

    def knows_graph(self) -> bool:
        """Whether all users of deferred and of sharded variables are known."""
        return not self._ran or has_no_late_nodes(self._graph_of_session())

    def learn_graph(self) -> None:
        """Changes what the graph got since the last step and uses such variables."""
        graph = self._graph_of_session()
        if not has_no_late_nodes(graph):
            rewrite_late_nodes(graph)
        name_map = name_map_of(graph)
        if name_map is not self._name_map:
            assert self._reach is not None
            self._name_map = name_map
            self._fetch_map = fetch_map_of(graph, name_map, self._reach)
            self._steps.clear()
            self._hooks.learn_graph(name_map)

    def close(self) -> None:
        """Catches up rows that outlive the session, ends its threads and closes it.

        Raises:
          tf.errors.OpError: TensorFlow failed to close the session, or an update of the last steps
            failed.
        """
        failed = self._threads.stop_all(self)
        for hooks in self._hooks if self._ran else ():
            hooks.before_close()
        super().close()
        if failed is not None:
            raise failed

    def _prepare_graph(self, fetched: List[Any]) -> None:
        with self._first_run:
            if self._ran:
                return
            graph, target = self._graph_of_session(), self._target_of_session()
            optimize_before_first_run(graph, self._wanted_config, target, fetched)
            self.map_names(graph)

    def map_names(self, graph: Any) -> None:
        """Takes over what names stand for in a graph, once it has been optimized."""
        graph_use.note_run(graph)
        if has_our_ops(graph):  # E.g. a graph that was imported after it had been rewritten.
            export_users_graph(graph)
        self._reach = StageReach(graph)
        self.learn_graph()
        untrained = UntrainedGraph(graph)
        untrained.first_run(self)
        self._watchers = (
            untrained.before_step,
            LateTraining(graph).before_step,
            SavedInput(self._reach).before_step,
        )
        self._tables = WrittenTables(graph, self._reach)
        self._shadow = shadow_steps(self, self._wanted_config)
        self._ran = True
        for hooks in self._hooks:
            hooks.first_run()

    def _resolve(
        self, given: Sequence[Elements], is_partial: bool, elements: Tuple[Any, ...]
    ) -> Step:
        assert self._fetch_map and self._reach and self._name_map and self._tables
        fetches, targets, feeds = given
        fetched, run, fed, reached = self._fetch_map.resolved(fetches, targets, feeds, is_partial)
        for before_step in self._watchers:
            before_step(self, reached)
        fills = self._reach.filled_by(reached)
        if not fills and not self._name_map.is_stopped:
            self._reach.refuse_direct_reads(reached)
        conditions = self._reach.may_take_from(reached)
        pipeline, takes = self._reach.pipelines(reached), self._reach.takes(reached)
        self._some_read_weights = self._some_read_weights or bool(pipeline.reads)
        return Step(
            fetches=fetched,
            targets=run,
            feeds=fed,
            takes_from=self._reach.with_upstream(takes) - pipeline.drains,
            takes={} if fills else takes,
            may_take_from=ChosenStages(conditions) if conditions else None,
            fills=fills,
            resets=self._reach.reset_by(reached) | pipeline.resets,
            pipeline=pipeline,
            trains=bool(pipeline.trains) or is_training_step(reached),
            concerns=frozenset(type(each) for each in self._hooks if each.concern(reached)),
            written=self._tables.written_by(self._graph_of_session(), reached),
            given=elements,
        )

    def _prepare_stages(self, step: Step, feeds: Sequence[Any], values: Sequence[Any]) -> None:
        assert self._reach is not None
        if self._shadow is not None:
            self._shadow.forget(step.resets)
        self._threads.prepare(self, step, self._reach, feeds, values)

    def _note_write(self, write: TableWrite) -> None:
        assert self._tables is not None
        self._tables.before_step(self._graph_of_session(), write, self._threads.started)

    def _graph_of_session(self) -> Any:
        session: Any = self
        return session.graph

    def _target_of_session(self) -> str:
        session: Any = self
        target = session.sess_str
        return target.decode("utf-8") if isinstance(target, bytes) else target
