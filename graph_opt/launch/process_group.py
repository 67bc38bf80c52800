"""Processes of this machine that are started together, and end together."""

from __future__ import annotations

import contextlib
import queue
import signal
import sys
import threading
import time
from types import FrameType
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from graph_opt.launch.bottom_lines import BottomLines
from graph_opt.launch.started_process import Output, Sink, StartedProcess, Task

STOP_SECONDS = 5.0
# When one that the others need has failed these mostly end by themselves, with errors of their own.
LEAVE_SECONDS = 5.0
_SHORTEST_WAIT = 0.001
_Orders = List[Tuple[float, int]]


class _Ended(NamedTuple):
    """A process has ended."""

    process: StartedProcess


class _Signal(NamedTuple):
    """This process got a signal."""

    number: int


class ProcessGroup:
    """Runs tasks, each as a process.

    Output goes to this process's, each line with the task's name in front. Ctrl-C and SIGTERM are
    passed on; a second Ctrl-C kills. Subclasses say what follows when one of them has ended, and
    what the outcome is.

    Args:
      tasks: What to run.
      bottom: Keeps their bars, and what else it shows, below other lines of a terminal.

    Attributes:
      bottom: The same.
      running: The processes that still run.
      ended: The others, in the order in which they ended.
      got: The signals that this process got.
    """

    def __init__(self, tasks: Sequence[Task], bottom: Optional[BottomLines] = None) -> None:
        self._tasks = tasks
        self.bottom = BottomLines() if bottom is None else bottom
        # The one queue whose put may be called by a handler that interrupts its get.
        self._events: queue.SimpleQueue[Union[_Ended, _Signal]] = queue.SimpleQueue()
        self._orders: _Orders = []  # which signal is sent when to those that still run
        self.running: List[StartedProcess] = []
        self.ended: List[StartedProcess] = []
        self.got: List[int] = []

    def run(self) -> int:
        """Waits until all processes have ended, and returns the exit code of the whole."""
        with self._signals_passed_on():
            try:
                self._start_all()
                self._wait()
            finally:
                for process in self.running:
                    process.end(signal.SIGKILL)
        return self.outcome()

    def on_end(self, process: StartedProcess) -> None:
        """Called when a process has ended; it is among `ended` already."""
        raise NotImplementedError

    def outcome(self) -> int:
        """Says what the outcome was, if there is anything to say, and returns the exit code."""
        raise NotImplementedError

    def sinks_of(self, task: Task, outputs: Sequence[Output]) -> List[Sink]:
        """Where the lines of a task go that it prints, and those of its standard error."""
        prefix = "[{}] ".format(task.name).encode()

        def sink_to(output: Output) -> Sink:
            key = "{} {}".format(task.name, outputs.index(output))

            def sink(line: bytes) -> None:
                if self.bottom.is_terminal and output.is_terminal and line.endswith(b"\r"):
                    bar = line.decode("utf-8", "replace").rstrip()
                    self.bottom.show_bar(key, bar and prefix.decode() + bar)
                else:
                    self.bottom.above(lambda: output.write(prefix + line), instead_of=key)

            return sink

        return [sink_to(output) for output in outputs]

    def _start_all(self) -> None:
        def broken() -> None:
            self._events.put(_Signal(signal.SIGPIPE))

        self._outputs = [Output(stream.buffer, broken) for stream in (sys.stdout, sys.stderr)]
        for task in self._tasks:
            self.start(task)

    def start(self, task: Task) -> None:
        """Starts one more process."""
        self.running.append(
            StartedProcess(
                task,
                self.sinks_of(task, self._outputs),
                lambda ended: self._events.put(_Ended(ended)),
            )
        )

    def _wait(self) -> None:
        while self.running:
            try:
                event = self._next_event()
            except queue.Empty:
                self.send(self._orders.pop(0)[1])
                continue
            if isinstance(event, _Ended):
                self.running.remove(event.process)
                self.ended.append(event.process)
                # What one that it started still writes may have held up news of its end.
                self.ended.sort(key=lambda process: process.ended_at or 0.0)
                self.on_end(event.process)
            else:
                self._pass_on(event.number)

    def _next_event(self) -> Union[_Ended, _Signal]:
        seconds = self._until_next_order()
        # If a timeout passes before get begins to wait, Python 3.7 to 3.10 wait forever.
        if seconds is not None and seconds < _SHORTEST_WAIT:
            return self._events.get_nowait()
        return self._events.get(timeout=seconds)

    @property
    def is_ending(self) -> bool:
        """Whether signals will be sent to those that still run."""
        return bool(self._orders)

    def _until_next_order(self) -> Optional[float]:
        return max(0.0, self._orders[0][0] - time.monotonic()) if self._orders else None

    def _pass_on(self, number: int) -> None:
        self.got.append(number)
        if self.got.count(signal.SIGINT) > 1:
            self.order((0.0, signal.SIGKILL))
        elif number == signal.SIGINT:
            self.order(
                (0.0, signal.SIGINT), (STOP_SECONDS, signal.SIGTERM), (STOP_SECONDS, signal.SIGKILL)
            )
        else:
            self.end_after(0.0)

    def end_after(self, seconds: float) -> None:
        """Sends SIGTERM after so many seconds, and some seconds later kills what still runs."""
        self.order((seconds, signal.SIGTERM), (STOP_SECONDS, signal.SIGKILL))

    def order(self, *steps: Tuple[float, int]) -> None:
        """Sends signals later, in the place of what was ordered before.

        Args:
          *steps: Seconds after the step before, and the signal.
        """
        moment = time.monotonic()
        self._orders = []
        for seconds, number in steps:
            moment += seconds
            self._orders.append((moment, number))

    def send(self, number: int) -> None:
        """Sends a signal to those that still run."""
        for process in self.running:
            process.end(number)

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


def exit_code_of_signal(number: int) -> int:
    """As a shell reports a program that a signal has ended."""
    return 128 + number


def say(command: str, text: str) -> None:
    """Prints one line on standard error, even if nobody reads it."""
    with contextlib.suppress(OSError):
        print("graph-opt {}: {}".format(command, text), file=sys.stderr, flush=True)
