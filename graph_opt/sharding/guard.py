"""Makes errors of one rank errors of all: in the same step, with the rank and the cause.

A step that fails before it has sent anything sends the error in place of its ids, so that all ranks
fail in this step, and may go on with the next batch. One that fails later leaves the others in the
middle of theirs: it says why outside of messages, and ends the group.
"""

from __future__ import annotations

import atexit
import contextlib
import re
import sys
import weakref
from typing import Any, Callable, Iterator, List, MutableMapping, MutableSet, Optional

from graph_opt.compat import tf
from graph_opt.compat.outer_graphs import outermost_graph
from graph_opt.compat.sessions import session_config
from graph_opt.compat.step_calls import failed_node, own_message, run_steps_through
from graph_opt.compat.unwatched_sessions import unwatched_sessions
from graph_opt.config.options import session_options
from graph_opt.ops.all_to_all import find_causes
from graph_opt.ops.exchange import exchange_failure, is_agreed
from graph_opt.ops.joined_exchanges import joined
from graph_opt.reporting.stderr import say
from graph_opt.sharding.held_sessions import HeldSession
from graph_opt.sharding.message_errors import MessageErrors, is_of_shutdown
from graph_opt.sharding.plan_agreement import ADVICE, PlanAgreement, TrainsAloneError
from graph_opt.sharding.plan_digest import encode, plan_of
from graph_opt.sharding.rank_failure import FailureBoard, RankFailure, failure_of
from graph_opt.sharding.rank_watch import RankWatch
from graph_opt.sharding.row_service import RowService
from graph_opt.sharding.step_clock import StepClock
from graph_opt.sharding.step_messages import (
    ENDS,
    StepMessages,
    is_collective,
    messages_of,
    name_of,
)
from graph_opt.sharding.store import or_none
from graph_opt.sharding.table_variables import has_tables
from graph_opt.sharding.transport import Transport

# The other ranks get nothing of the second one.
_SAME_NAME = re.compile(r"same name as another tensor")
_TWICE = (
    "failed: {}: it sends message '{}' while one of this name is under way: run such steps one at "
    "a time, and give the messages of a step different names"
)
_OF_A_RANK = re.compile(r"^rank \d+[ :]", re.MULTILINE)
# A rank that trains on its own may be doing so before it trains with the others.
_ALONE_SECONDS = 30.0
_ANOTHER_STEP = (
    "rank {} is in another step (it has sent '{}'), and so never comes to this one, which looks up "
    "rows that other ranks have ('{}'): run such a step on all ranks, fetch what it gives "
    "together with the training step, or evaluate in a graph of its own, which reads a checkpoint"
)
_ENDED = (
    "has no input left, and others may wait for it at '{}', which is sent whether or not all ranks "
    "have a batch: send it after the lookups (tf.control_dependencies), or wrap the dataset in "
    "sok.end_together(dataset, 'empty')"
)


class _StepAloneError(Exception):
    """No other rank comes to a step."""


class RankGuard:
    """Watches the steps of one rank.

    Args:
      transport: How it reaches the others.
    """

    def __init__(self, transport: Transport) -> None:
        rank, size, store = transport.rank, transport.size, transport.store
        self.transport = transport
        self.board: Optional[FailureBoard] = None
        self.watch: Optional[RankWatch] = None
        self._plans: Optional[PlanAgreement] = None
        self.rows: Optional[RowService] = None
        self._clock = StepClock()
        if store is not None:
            self.board = FailureBoard(store, rank, size)
            self.watch = RankWatch(self.board, self._clock, self.give_up)
            self._plans = PlanAgreement(store, rank, size)
            self.rows = RowService(
                store, self.board, self._check, size, lambda: self._clock.seconds_in_step() > 0
            )
        self.errors = MessageErrors(self.board)

    def run(
        self, session: Any, fetches: List[Any], targets: List[Any], feeds: List[Any], run: Any
    ) -> Any:
        """Runs a step; raises what ended the group, if a message fails because of that.

        Raises:
          tf.errors.OpError: The step has failed on this rank or another; ranks are about to run
            different graphs, or to add up what is a sum already; or it has waited for them longer
            than `stall_seconds`.
        """
        held = None
        if self.rows is not None and has_tables(session.graph):
            held = self.rows.hold(session)
        messages = messages_of(session.graph, fetches, targets, feeds)
        if not (messages.operations or messages.trains):
            result = run()
            if held is not None:
                run_now = [getattr(one, "op", one) for one in (*fetches, *targets)]
                held.note_written(run_now, feeds)
            return result
        if messages.fault is not None:
            raise tf.errors.InvalidArgumentError(None, None, messages.fault)
        self._raise_known_cause()
        limit = _stall_seconds(session)
        if limit and self.watch is not None:
            self.watch.start()
        if not messages.operations:
            self._note_alone()
            return run()
        with self._clock.step(messages, limit) as sent:
            with contextlib.nullcontext() if held is None else held.comparing():
                or_none(lambda: self._compare_plans(messages, limit))
            try:
                with self._holding(held, messages), joined(
                    [self.transport.place + one for one in messages.joined]
                ):
                    result = run()
                    self.errors.input_has_ended = False
                    return result
            except tf.errors.OpError as error:
                raised = self._explained(session.graph, messages, sent, error)
                self.errors.input_has_ended |= raised.error_code == tf.errors.OUT_OF_RANGE
                if raised is error:
                    raise
                raise raised from None

    def give_up(self, failure: RankFailure) -> None:
        """Ends the group: this rank can not take part in what the others wait for."""
        board = self.board
        if board is not None:
            or_none(lambda: board.tell(failure))
        self.transport.fail(failure.text)

    def _holding(self, held: Optional[HeldSession], messages: StepMessages) -> Any:
        """While a session with sharded tables runs a step that all ranks run."""
        if held is None or self.rows is None or not (messages.messages or messages.stages):
            return contextlib.nullcontext()
        return self.rows.step(held)

    def _compare_plans(self, messages: StepMessages, limit: float) -> None:
        ours = messages.messages or messages.stages
        if not ours or self._plans is None or self.board is None or self in messages.compared_by:
            return
        try:
            self._plans.agree(
                encode(plan_of(messages)),
                lambda: self._check_together(messages),
                limit or _ALONE_SECONDS,
            )
        except TrainsAloneError as error:
            text = "trains without any message to the others: " + ADVICE
            failure = RankFailure(error.rank, tf.errors.INVALID_ARGUMENT, text)
            raise self.board.tell(failure).error() from None
        except _StepAloneError as error:
            self._clock.discount()
            raise tf.errors.InvalidArgumentError(None, None, str(error)) from None
        except tf.errors.InvalidArgumentError as error:
            if messages.stages:  # whose threads may have begun to exchange
                self.give_up(failure_of(self.transport.rank, error))
            raise
        messages.compared_by.add(self)

    def _note_alone(self) -> None:
        if self._plans is not None:
            or_none(self._plans.note_step_without_messages)

    def _raise_known_cause(self) -> None:
        if self.watch is not None and self.watch.cause is not None:
            raise self.watch.cause.error()

    def _check(self) -> None:
        """Raises an error if another rank has failed or ended."""
        found = None if self.board is None else self.board.cause() or self.board.ended()
        if found is not None:
            raise found.error()

    def _check_together(self, messages: StepMessages) -> None:
        """Raises an error if the others can not come to this step while they wait for this rank."""
        self._check()
        if self.board is None:
            return
        ours = [messages.messages, *(stage.messages for stage in messages.stages)]
        name = next(one.name for several in ours for one in several)
        steps = self._clock.state().steps
        for rank, state in self.board.last_states().items():
            waits = state.in_step and state.message and not state.by_stage
            if waits and state.steps == steps:
                raise _StepAloneError(_ANOTHER_STEP.format(rank, state.message, name))

    def _explained(
        self, graph: Any, messages: StepMessages, sent: List[int], error: tf.errors.OpError
    ) -> tf.errors.OpError:
        if self.errors.has_found(error) or _is_of_message(graph, error):
            if _SAME_NAME.search(str(error.message)):
                self.give_up(_sent_twice(self.transport.rank, graph, error))
            return self.errors.explained(error)
        if _all_know(own_message(error)) or not messages.messages:
            return error
        if messages.stages and messages.may_take_again(error):
            return error
        unsent = messages.unsent_after(failed_node(error))
        waits = bool(unsent) and error.error_code not in ENDS
        if messages.sent() != sent or messages.stages or waits:
            self.give_up(failure_of(self.transport.rank, error))
            return error
        return self._agreed(messages, unsent, error) if messages.exchanges else error

    def _agreed(
        self, messages: StepMessages, unsent: List[str], error: tf.errors.OpError
    ) -> tf.errors.OpError:
        """Tells all ranks in place of the ids; returns the error that all raise in this step.

        Ranks with a batch wait at `unsent`: that ends the group.
        """
        if error.error_code == tf.errors.CANCELLED:
            return error  # the session was closed
        transport = self.transport
        with tf.Graph().as_default() as graph, unwatched_sessions() as session_class:
            _unguarded.add(graph)
            agreed = [
                exchange_failure(
                    int(error.error_code),
                    own_message(error),
                    transport.size,
                    transport.all_to_all,
                    exchange,
                )
                for exchange in messages.exchanges
            ]
            with session_class() as session:
                try:
                    told = session.run(agreed)
                except tf.errors.OpError:
                    return error  # the group has ended meanwhile
        code, text, others_go_on = told[0]
        if unsent and others_go_on:
            ended = _ENDED.format(unsent[0])
            self.give_up(RankFailure(transport.rank, tf.errors.OUT_OF_RANGE, ended))
        text = text.decode("utf-8")
        if text.startswith("rank {}: ".format(transport.rank)):
            return error
        return tf.errors.exception_type_from_error_code(int(code))(None, None, text)


_of_graph: MutableMapping[Any, RankGuard] = weakref.WeakKeyDictionary()
_unguarded: MutableSet[Any] = weakref.WeakSet()
_limits: MutableMapping[Any, float] = weakref.WeakKeyDictionary()
_of_process: Optional[RankGuard] = None


def guard_graph(transport: Transport) -> None:
    """Watches the steps of the current graph, which sends messages of ours."""
    graph = outermost_graph()
    if transport.size == 1 or graph is None or graph in _of_graph:
        return
    _of_graph[graph] = _guard_of(transport)
    run_steps_through(_guarded)


@contextlib.contextmanager
def guarded_eagerly(transport: Transport) -> Iterator[None]:
    """In this block, an eager message that fails says what ended the group."""
    try:
        yield
    except tf.errors.OpError as error:
        if transport.size == 1 or not tf.executing_eagerly():
            raise
        raised = _guard_of(transport).errors.explained(error)
        if raised is error:
            raise
        raise raised from None


def guard_process(transport: Transport) -> None:
    """Watches all steps of a process that is one rank, and says why it ends."""
    global _of_process
    if transport.size == 1 or _of_process is not None:
        return
    _of_process = guard = _guard_of(transport)
    run_steps_through(_guarded)
    find_causes(guard.errors.cause_of)
    atexit.register(find_causes, None)
    if guard.board is not None and guard.watch is not None:
        or_none(guard.board.enter)
        guard.watch.start()
        atexit.register(or_none, guard.board.leave)
        if guard.rows is not None:
            atexit.register(or_none, guard.rows.close_all)
        _tell_uncaught_errors(guard)


def row_service_of(transport: Transport) -> Optional[RowService]:
    """What serves the rows of this rank; None if there is one rank, or nothing carries it."""
    return None if transport.size == 1 else _guard_of(transport).rows


def _guarded(
    session: Any, fetches: List[Any], targets: List[Any], feeds: List[Any], run: Callable[[], Any]
) -> Any:
    guard = _of_graph.get(session.graph) or _of_process
    if guard is None or session.graph in _unguarded:
        return run()
    return guard.run(session, fetches, targets, feeds, run)


def _guard_of(transport: Transport) -> RankGuard:
    if transport.guard is None:
        transport.guard = RankGuard(transport)
    guard: RankGuard = transport.guard
    return guard


def _stall_seconds(session: Any) -> float:
    if session not in _limits:
        _limits[session] = float(session_options(session_config(session)).stall_seconds)
    return _limits[session]


def _tell_uncaught_errors(guard: RankGuard) -> None:
    before = sys.excepthook

    def hook(kind: Any, error: Any, trace: Any) -> None:
        if guard.board is not None and issubclass(kind, Exception):
            or_none(lambda: _tell_uncaught(guard, error))
        before(kind, error, trace)

    sys.excepthook = hook


def _tell_uncaught(guard: RankGuard, error: BaseException) -> None:
    if is_of_shutdown(str(error)):  # e.g. in a tf.function, where no step was watched
        found = guard.errors.explained(tf.errors.UnknownError(None, None, str(error)))
        say("rank {}: {}".format(guard.transport.rank, found.message.partition("\n")[0]))
    elif not _all_know(str(error)) and guard.board is not None:
        guard.board.tell(failure_of(guard.transport.rank, error))


def _is_of_message(graph: Any, error: tf.errors.OpError) -> bool:
    if is_of_shutdown(str(error.message)):
        return True
    try:
        return is_collective(graph.get_operation_by_name(failed_node(error)))
    except (KeyError, ValueError):
        return False


def _sent_twice(rank: int, graph: Any, error: tf.errors.OpError) -> RankFailure:
    message = name_of(graph.get_operation_by_name(failed_node(error)))
    return RankFailure(rank, error.error_code, _TWICE.format(type(error).__name__, message))


def _all_know(text: str) -> bool:
    """Whether an error is of all ranks already: agreed on, or found to end the group."""
    return is_agreed(text) or _OF_A_RANK.search(text) is not None
