"""The tasks of a cluster as processes: the servers end with the workers."""

from __future__ import annotations

import collections
import signal
from typing import IO, Counter, Dict, Iterable, List, NamedTuple, Optional, Sequence

from graph_opt.launch.bottom_lines import BottomLines
from graph_opt.launch.cluster_tasks import CHIEF, PS, ClusterTask
from graph_opt.launch.process_group import (
    LEAVE_SECONDS,
    ProcessGroup,
    exit_code_of_signal,
    say,
)
from graph_opt.launch.started_process import Output, Sink, StartedProcess, Task

_SERVER_LEFT = 1


class PlacedTask(NamedTuple):
    """A task of a cluster, and what it runs.

    Attributes:
      place: Which task it is.
      task: What it runs.
      log: A file that gets all it prints, open for writing.
    """

    place: ClusterTask
    task: Task
    log: IO[bytes]


class ClusterGroup(ProcessGroup):
    """Runs the tasks of a cluster until all workers have ended, then ends the servers.

    Output goes to this process's, each line with the task's name in front, and to a log for each
    task. A task that fails is started again while it has restarts left. A worker that fails for
    good leaves the others at work; without a server or the chief they would wait forever, so then
    all are ended. Ctrl-C and SIGTERM reach the workers first, which may still need the servers.

    Args:
      tasks: The tasks.
      restarts: How often each may be started again.
      patience: Seconds that the others get when the chief or a server is gone.
      bottom: Keeps bars, and what else it shows, below other lines of a terminal.

    Example:
      >>> ClusterGroup(tasks, restarts=0).run()
      0
    """

    def __init__(
        self,
        tasks: Sequence[PlacedTask],
        restarts: int,
        patience: float = LEAVE_SECONDS,
        bottom: Optional[BottomLines] = None,
    ) -> None:
        super().__init__([one.task for one in tasks], bottom)
        self._placed: Dict[str, PlacedTask] = {one.task.name: one for one in tasks}
        self._restarts = restarts
        self._patience = patience
        self._restarted: Counter[str] = collections.Counter()
        self._failed: List[StartedProcess] = []

    def sinks_of(self, task: Task, outputs: Sequence[Output]) -> List[Sink]:
        """The console, with the task's name in front, and the task's log."""
        log = self._placed[task.name].log

        def both(to_console: Sink) -> Sink:
            def sink(line: bytes) -> None:
                log.write(line)
                log.flush()
                to_console(line)

            return sink

        return [both(sink) for sink in super().sinks_of(task, outputs)]

    def on_end(self, process: StartedProcess) -> None:
        """Starts it again, or ends the others if they cannot go on without it."""
        if not process.was_told_to_end and self._has_failed(process):
            if self._start_again(process):
                return
            self._take_failure(process)
        if self.running and all(self._is_server(one) for one in self.running):
            self.end_after(0.0)

    def outcome(self) -> int:
        """0 if all workers succeeded, else the largest exit code of those that did not."""
        if self.got:
            self._say("got {}: all tasks have ended".format(signal.Signals(self.got[0]).name))
            return exit_code_of_signal(self.got[0])
        if not self._failed:
            return 0
        told = [one for one in self.ended if one.was_told_to_end and not self._is_server(one)]
        for cause in dict.fromkeys(process.cause for process in self._failed):
            names = _names_of(process for process in self._failed if process.cause == cause)
            self._say("{} {}".format(names, cause))
        if told:
            self._say("did not end on their own and were ended: " + _names_of(told))
        return max(process.exit_code or _SERVER_LEFT for process in self._failed)

    def send(self, number: int) -> None:
        """Sends a signal to the workers; to the servers when none is left, or to kill."""
        workers = [one for one in self.running if not self._is_server(one)]
        for process in workers if workers and number != signal.SIGKILL else list(self.running):
            process.end(number)

    def _has_failed(self, process: StartedProcess) -> bool:
        return bool(process.exit_code) or self._is_server(process)  # A server serves until the end.

    def _start_again(self, process: StartedProcess) -> bool:
        count = self._restarted[process.name]
        if self.is_ending or count >= self._restarts:
            return False
        self._restarted[process.name] = count + 1
        self._say(
            "{} {}; it is started again ({} of {})".format(
                process.name, process.cause, count + 1, self._restarts
            )
        )
        left = [one.name for one in self.ended if one.exit_code == 0]
        if left:
            self._say(
                "its session waits forever for {}, which has ended, unless the script's "
                "tf.ConfigProto has device_filters=['/job:ps', '/job:<its job>/task:<its "
                "number>']".format(left[0])
            )
        self.start(process.task)
        return True

    def _take_failure(self, process: StartedProcess) -> None:
        self._failed.append(process)
        if self._is_server(process) or self._placed[process.name].place.job == CHIEF:
            if not self.is_ending and self.running:
                what = "has failed" if process.exit_code else "has ended before the workers"
                self._say("{} {}: the others are ended".format(process.name, what))
                self.end_after(self._patience)
        elif not self.is_ending and not all(self._is_server(one) for one in self.running):
            self._say("{} {}; the others go on".format(process.name, process.cause))

    def _is_server(self, process: StartedProcess) -> bool:
        return self._placed[process.name].place.job == PS

    def _say(self, text: str) -> None:
        self.bottom.above(lambda: say("cluster", text))


def _names_of(processes: Iterable[StartedProcess]) -> str:
    return ", ".join(process.name for process in processes)
