"""The ranks of a training as processes of this machine: if one fails, all end."""

from __future__ import annotations

import contextlib
import queue
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from graph_opt.cli.exit_codes import INTERRUPTED
from graph_opt.cli.rank_process import Output, RankProcess, names_of

# When one rank has failed the others mostly end by themselves, with errors of their own.
LEAVE_SECONDS = 5.0
STOP_SECONDS = 5.0
_Orders = List[Tuple[float, int]]


class _Ended(NamedTuple):
    """A rank's process has ended."""

    rank: RankProcess


class _Signal(NamedTuple):
    """This process got a signal."""

    number: int


class RankGroup:
    """Runs a command once for each rank.

    Output goes to this process's, each line with its rank in front. When a rank fails, the others
    get some seconds to end, and are ended then. Ctrl-C and SIGTERM are passed on; a second Ctrl-C
    kills.

    Args:
      command: What each rank runs.
      environments: All environment variables of each rank.
      given: What each rank reads from standard input; None for nothing.
      on_failure: Told a failed rank and how it ended, as soon as it has ended.
      patience: Seconds that the others get then.

    Example:
      >>> RankGroup([sys.executable, "train.py"], environments).run()
      0
    """

    def __init__(
        self,
        command: Sequence[str],
        environments: Sequence[Dict[str, str]],
        given: Optional[bytes] = None,
        on_failure: Callable[[int, str], Any] = lambda rank, cause: None,
        patience: float = LEAVE_SECONDS,
    ) -> None:
        self._command = command
        self._environments = environments
        self._given = given
        self._on_failure = on_failure
        self._patience = patience
        # The one queue whose put may be called by a handler that interrupts its get.
        self._events: queue.SimpleQueue[Union[_Ended, _Signal]] = queue.SimpleQueue()
        self._running: List[RankProcess] = []
        self._ended: List[RankProcess] = []
        self._orders: _Orders = []  # which signal is sent when to those that still run
        self._got: List[int] = []

    def run(self) -> int:
        """Waits until all ranks have ended.

        Returns:
          0 if all succeeded; else the exit code of the rank that failed first, 128 + signal if a
          signal ended it or this process got one.
        """
        with self._signals_passed_on():
            try:
                self._start()
                self._wait()
            finally:
                for rank in self._running:
                    rank.end(signal.SIGKILL)
        return self._outcome()

    def _start(self) -> None:
        def broken() -> None:
            self._events.put(_Signal(signal.SIGPIPE))

        outputs = [Output(stream.buffer, broken) for stream in (sys.stdout, sys.stderr)]
        for rank, environment in enumerate(self._environments):
            self._running.append(
                RankProcess(
                    rank,
                    self._command,
                    environment,
                    self._given,
                    outputs,
                    lambda ended: self._events.put(_Ended(ended)),
                )
            )

    def _wait(self) -> None:
        while self._running:
            try:
                event = self._events.get(timeout=self._until_next_order())
            except queue.Empty:
                self._send(self._orders.pop(0)[1])
                continue
            if isinstance(event, _Ended):
                self._take_leave(event.rank)
            else:
                self._pass_on(event.number)

    def _until_next_order(self) -> Optional[float]:
        return max(0.0, self._orders[0][0] - time.monotonic()) if self._orders else None

    def _take_leave(self, rank: RankProcess) -> None:
        self._running.remove(rank)
        self._ended.append(rank)
        if rank.exit_code and not rank.was_told_to_end:
            self._on_failure(rank.rank, rank.cause)
            if not self._orders:
                self._order((self._patience, signal.SIGTERM), (STOP_SECONDS, signal.SIGKILL))

    def _pass_on(self, number: int) -> None:
        self._got.append(number)
        if self._got.count(signal.SIGINT) > 1:
            self._order((0.0, signal.SIGKILL))
        elif number == signal.SIGINT:
            self._order(
                (0.0, signal.SIGINT), (STOP_SECONDS, signal.SIGTERM), (STOP_SECONDS, signal.SIGKILL)
            )
        else:
            self._order((0.0, signal.SIGTERM), (STOP_SECONDS, signal.SIGKILL))

    def _order(self, *steps: Tuple[float, int]) -> None:
        """Replaces what is to come; each step comes so many seconds after the one before."""
        moment = time.monotonic()
        self._orders = []
        for seconds, number in steps:
            moment += seconds
            self._orders.append((moment, number))

    def _send(self, number: int) -> None:
        for rank in self._running:
            rank.end(number)

    def _outcome(self) -> int:
        if self._got:
            name = signal.Signals(self._got[0]).name
            _say("got {}: all ranks have ended".format(name))
            return INTERRUPTED if self._got[0] == signal.SIGINT else 128 + self._got[0]
        failed = [rank for rank in self._ended if rank.exit_code and not rank.was_told_to_end]
        if not failed:
            return 0
        first = next((rank for rank in failed if not rank.followed_another), failed[0])
        _say("rank {} {}{}".format(first.rank, first.cause, self._of_the_others(first)))
        return first.exit_code or 0

    def _of_the_others(self, first: RankProcess) -> str:
        """What became of the others, since the first rank to fail may not be to blame."""
        before = self._ended[: self._ended.index(first)]
        left = sorted(rank.rank for rank in before if not rank.exit_code)
        told = sorted(rank.rank for rank in self._ended if rank.was_told_to_end)
        text = "; before that, {} had ended without an error".format(names_of(left)) if left else ""
        if told:
            text += "; {} did not end on {} own and {} ended".format(
                names_of(told),
                "its" if len(told) == 1 else "their",
                "was" if len(told) == 1 else "were",
            )
        return text

    @contextlib.contextmanager
    def _signals_passed_on(self) -> Iterator[None]:
        def handler(number: int, _: Optional[FrameType]) -> None:
            self._events.put(_Signal(number))

        in_main = threading.current_thread() is threading.main_thread()
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if in_main else ()
        before = [(number, signal.signal(number, handler)) for number in numbers]
        try:
            yield
        finally:
            for number, handled in before:
                signal.signal(number, handled)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        print("graph-opt run: " + text, file=sys.stderr, flush=True)
