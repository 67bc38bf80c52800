"""Records the steps of this process's sessions: what they were fed, what they returned.

step ──► listener: names, feeds, initial values ──► prepared, optimized ──► around: runs, results
"""

from __future__ import annotations

import dataclasses
import os
import threading
import weakref
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    List,
    MutableMapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
)

from graph_opt.checking import variable_values
from graph_opt.checking.ahead_of_updates import ahead_of_updates
from graph_opt.checking.fetched_values import fetched_values
from graph_opt.checking.records import Facts, Step, Variables, digest_of
from graph_opt.checking.step_kinds import StepKind, kind_of, stages_taken_from
from graph_opt.checking.unrepeatable import unrepeatable_parts
from graph_opt.compat import tf
from graph_opt.compat.sessions import Elements, SteppedSession, share_session
from graph_opt.compat.step_calls import before_sessions_close, run_steps_through
from graph_opt.config.options import SWITCHES
from graph_opt.runtime.lock_step import go_in_lock_step
from graph_opt.session.graph_records import asked_of, report_of
from graph_opt.session.session_log import session_reports
from graph_opt.session.stage_threads import apply_gradients
from graph_opt.session.step_listeners import tell_steps_to

_Known = TypeVar("_Known")


@dataclasses.dataclass(frozen=True)
class Recording:
    """How to record.

    Attributes:
      folder: Where initial values are written.
      given: Where those of another run are, which this one starts from; "" to start from its own.
      most_updates: After how many steps that train the process is ended; 0 for never.
      in_lock_step: Whether no lookup runs ahead of the updates before it.
      saves: Called with the prefix of each checkpoint before it is written.
      ended: Called when there were as many steps as that, to end the process.
    """

    folder: str
    given: str = ""
    most_updates: int = 0
    in_lock_step: bool = False
    saves: Optional[Callable[[str], None]] = None
    ended: Optional[Callable[[], None]] = None


class _OfSession:
    """What is known of a session."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.streams: Dict[int, int] = {}
        self.counts: Dict[int, int] = {}
        self.since_update: Dict[int, int] = {}
        self.assigned: Set[str] = set()
        self.uses_batches = False
        self.trained = False
        self.is_recorded = False
        self.is_told = False
        self.kinds: Dict[Tuple[str, ...], StepKind] = {}
        self.takes: Dict[Tuple[str, ...], FrozenSet[str]] = {}

    def stream(self) -> int:
        """Number of the calling thread among those that run steps."""
        return self.streams.setdefault(threading.get_ident(), len(self.streams) + 1)


class _Pending(threading.local):
    """The step that the calling thread is about to run."""

    def __init__(self) -> None:
        self.fetches: Elements = []
        self.fed: Dict[str, str] = {}
        self.unordered: FrozenSet[str] = frozenset()
        self.has_files = False
        self.trains = False
        self.is_own = False


class Recorder:
    """Records all sessions of the process from the call of `start` on.

    Args:
      recording: How.
      add: Called with each `Step`, with `Variables` and, at the end, with `Facts`.
    """

    def __init__(self, recording: Recording, add: Callable[[Any], None]) -> None:
        self._recording = recording
        self._add = add
        self._lock = threading.RLock()
        self._sessions: MutableMapping[Any, _OfSession] = weakref.WeakKeyDictionary()
        self._graphs: MutableMapping[Any, Set[Any]] = weakref.WeakKeyDictionary()
        self._count = 0
        self._updates = 0
        self._pending = _Pending()
        self._copied: List[str] = []
        self._checkpoints: List[str] = []
        self._asked: Set[str] = set()
        self._ahead: Set[str] = set()
        self._replaced: Dict[str, str] = {}
        self._divided: Set[str] = set()
        self._unrepeatable: List[str] = []
        self._reached_limit = False
        self._is_exact = False
        self._targets: Set[str] = set()
        self._outlived = ""
        self._is_over = False

    def start(self) -> None:
        """Begins to record."""
        tell_steps_to(self._step_begins)
        run_steps_through(self._run_step)
        before_sessions_close(self._session_closes)

    def finish(self) -> None:
        """Records the variables of sessions that are still open, and what is known of the run."""
        with self._lock:
            if self._is_over:
                return
            for session in list(self._sessions):
                self._session_closes(session, None)
            self._is_over = True
            for graph, operations in list(self._graphs.items()):
                self._unrepeatable += unrepeatable_parts(graph, operations)
            if any(len(state.streams) > 1 for state in self._sessions.values()):
                self._unrepeatable.append("steps with results in several threads of the script")
            self._add(self._facts())

    def _facts(self) -> Facts:
        return Facts(
            sessions=tuple(session.title for session in session_reports()),
            asked=tuple(name for name in SWITCHES if name in self._asked),
            ahead=tuple(sorted(self._ahead)),
            replaced=tuple(self._replaced.items()),
            unrepeatable=tuple(dict.fromkeys(self._unrepeatable)),
            copied=tuple(self._copied),
            checkpoints=tuple(dict.fromkeys(self._checkpoints)),
            reached_limit=self._reached_limit,
            exact=self._is_exact,
            on_servers=bool(self._targets),
            outlived=self._outlived,
            divided=tuple(sorted(self._divided)),
        )

    def _step_begins(
        self,
        session: Any,
        fetches: Elements,
        targets: Elements,
        feeds: Elements,
        values: Sequence[Any],
    ) -> None:
        if self._pending.is_own or self._is_over:
            return
        self._look_for_values(session)
        state = self._state_of(session)
        kind = _known(state.kinds, kind_of, fetches, targets, feeds)
        if kind.saves:
            self._note_checkpoints([text for text in map(_text, values) if text])
        if kind.uses_batch and not kind.saves:
            self._graphs.setdefault(session.graph, set()).update(
                [tensor.op for tensor in fetches] + list(targets)
            )
        if kind.uses_batch and not state.uses_batches:
            state.uses_batches = True
            self._bring_initial_values(session, state)
        elif not state.uses_batches:
            state.assigned = (state.assigned | kind.assigned) - kind.restored
        pending = self._pending
        pending.fetches, pending.fed = list(fetches), {}
        pending.has_files = kind.is_of_saver
        if not kind.is_of_saver:  # What savers are fed and return are names of files.
            pending.fed = {tensor.name: digest_of(value) for tensor, value in zip(feeds, values)}
        pending.trains, pending.unordered = kind.trains, kind.unordered

    def _note_checkpoints(self, prefixes: Sequence[str]) -> None:
        self._checkpoints += prefixes
        if self._recording.saves is not None:
            for prefix in prefixes:
                self._recording.saves(prefix)

    def _look_for_values(self, session: Any) -> None:
        """Notes whether variables on a server have values before the process's first step there."""
        target = tf.compat.as_str(session.sess_str or "")
        with self._lock:
            if not target or target in self._targets:
                return
            self._targets.add(target)
        self._pending.is_own = True
        try:
            if variable_values.has_any(session):
                self._outlived = target
        finally:
            self._pending.is_own = False

    def _run_step(
        self, session: Any, fetches: Elements, targets: Elements, feeds: Elements, run: Any
    ) -> Any:
        if not isinstance(session, SteppedSession) or self._pending.is_own or self._is_over:
            return run()
        state = self._state_of(session)
        trains = self._pending.trains
        if trains:
            self._end_if_enough()
            state.trained = True
            self._updates += 1
        if self._recording.in_lock_step:
            apply_gradients(session)
            stages = _known(state.takes, stages_taken_from, fetches, targets, feeds)
            go_in_lock_step(share_session(session)).ask(stages)
        names, fed = [tensor.name for tensor in self._pending.fetches], self._pending.fed
        unordered = self._pending.unordered
        types = [tensor.op.type for tensor in self._pending.fetches]
        # Threads of queue runners run steps, too, whose order nobody knows.
        is_main = threading.current_thread() is threading.main_thread()
        is_recorded = (names or is_main) and not self._pending.has_files
        try:
            results = run()
        except Exception as error:
            if is_recorded:
                self._record(state, fed, (), trains, type(error).__name__)
            raise
        if is_recorded:
            values = fetched_values(names, types, results)
            left_out = unordered.union(_parts(session))
            kept = tuple(one for one in values if one.name not in left_out)
            self._record(state, fed, kept, trains)
        if trains and not state.is_told:
            state.is_told = True
            self._tell_early(session)
        return results

    def _tell_early(self, session: Any) -> None:
        """Notes what is known so far, in case that the process does not live to its end."""
        with self._lock:
            if not self._is_over:
                self._note_report(session.graph)
                self._add(self._facts()._replace(cut_off=True))

    def _record(
        self,
        state: _OfSession,
        fed: Dict[str, str],
        fetched: Tuple[Any, ...],
        trains: bool,
        raised: str = "",
    ) -> None:
        with self._lock:
            if self._is_over:
                return
            stream = state.stream()
            number = state.counts[stream] = state.counts.get(stream, 0) + 1
            since = 0 if trains else state.since_update.get(stream, 0) + 1
            state.since_update[stream] = since
            place = state.number, stream, number, since, self._updates
            self._add(Step(*place, fed, fetched, trains, raised))

    def _end_if_enough(self) -> None:
        most = self._recording.most_updates
        if not most or self._updates < most:
            return
        self._reached_limit = True
        self.finish()
        if self._recording.ended is not None:
            self._recording.ended()

    def _state_of(self, session: Any) -> _OfSession:
        with self._lock:
            state = self._sessions.get(session)
            if state is None:
                self._count += 1
                state = self._sessions[session] = _OfSession(self._count)
                if self._recording.in_lock_step:
                    go_in_lock_step(share_session(session))
            return state

    def _bring_initial_values(self, session: Any, state: _OfSession) -> None:
        """Keeps what initializers have set for other runs, or takes what they have kept."""
        name = "session_{}".format(state.number)
        self._pending.is_own = True
        try:
            if not self._recording.given:
                values = variable_values.values_by_name(session, state.assigned)
                variable_values.save(os.path.join(self._recording.folder, name), values)
                return
            kept = variable_values.saved(os.path.join(self._recording.given, name))
            if kept is not None:
                wanted = {one: value for one, value in kept.items() if one in state.assigned}
                self._copied += variable_values.assign(session, wanted)
        finally:
            self._pending.is_own = False

    def _session_closes(self, session: Any, error: Optional[BaseException]) -> None:
        state = self._sessions.get(session)
        if state is None or state.is_recorded or self._is_over:
            return
        state.is_recorded = True
        self._note_report(session.graph)
        if not state.trained:
            return
        self._pending.is_own = True
        try:
            values = variable_values.recorded(session)
        except (tf.errors.OpError, RuntimeError):
            return  # It has failed, or was closed in a way that nobody told of.
        finally:
            self._pending.is_own = False
        with self._lock:
            self._add(Variables(state.number, self._updates, values))

    def _note_report(self, graph: Any) -> None:
        asked, report = asked_of(graph), report_of(graph)
        self._ahead.update(ahead_of_updates(graph))
        self._divided.update(variable_values.divided(graph))
        if asked is not None:
            requests = zip(SWITCHES, asked.requests)
            self._asked.update(name for name, wanted in requests if wanted is not None)
            ahead = asked.async_embedding
            self._is_exact = self._is_exact or (ahead is not None and ahead.exact)
        if report is not None:
            self._replaced.update(report.replaced)


def _parts(session: Any) -> Iterable[str]:
    """Tensors in whose place a step returns this rank's part of a variable."""
    return variable_values.parts(session.graph)


def _known(
    known: Dict[Tuple[str, ...], _Known],
    find: Callable[[Elements, Elements, Elements], _Known],
    fetches: Elements,
    targets: Elements,
    feeds: Elements,
) -> _Known:
    """What is found of a step, once for all steps with the same names."""
    key = tuple(one.name for one in (*fetches, *targets, *feeds))
    if key not in known:
        known[key] = find(fetches, targets, feeds)
    return known[key]


def _text(value: Any) -> str:
    """A file that is fed to a saver; "" for anything else."""
    single = getattr(value, "item", lambda: value)() if getattr(value, "size", 1) == 1 else value
    return tf.compat.as_str(single) if isinstance(single, (str, bytes)) else ""
