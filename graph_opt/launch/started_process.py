"""A process of a training: its output line by line, and how it ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from typing import IO, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.launch.starter_pipe import StarterPipe

_CHUNK = 1 << 16
_DRAIN_SECONDS = 2.0  # for what processes that it started, and that may outlive it, still write
_TRACEBACK = "Traceback (most recent call last):"
_OF_A_GRAPH = "Graph execution error:"
_NODE = re.compile("Node: '.*'")
_AROUND = re.compile(r"=+$|\d+ root error\(s\) found\.$|(\(\d+\) )?([A-Z_]+: )?From /job:\S*:$")
# TensorFlow's lines in C++ and Python, absl's, those of the warnings module, and our own notices.
_OF_A_LOG = re.compile(
    r"\d{4}-\d\d-\d\d |[IWEF]\d{4,8} |(DEBUG|INFO|WARNING)\b|\S+:\d+: \w*Warning: |graph_opt: |"
    r"graph-opt run: .*(TensorFlow stays as it is|it is shown TensorFlow 1)"
)
_ADVICE_FOLLOWS = "Instructions for updating:"
_WITH_MESSAGE = (1, 2)  # of sys.exit("..."), and of argparse
_MOST_LINES = 200
_MOST_CHARACTERS = 300

Sink = Callable[[bytes], Any]


class Task(NamedTuple):
    """What a process is to run.

    Attributes:
      name: What it is called, such as `0` (of a rank) or `worker 1`.
      command: The program and its arguments.
      environment: All of its environment variables.
      given: What it reads from standard input; None for nothing.
      inherited: File descriptors of this process that stay open in it.
      folder: Its working directory; None for that of this process.
    """

    name: str
    command: Sequence[str]
    environment: Dict[str, str]
    given: Optional[bytes] = None
    inherited: Tuple[int, ...] = ()
    folder: Optional[str] = None


class Output:
    """A stream to which several processes write whole lines.

    Args:
      stream: Where the lines go.
      on_broken: Called once when nobody reads the stream any more.

    Attributes:
      is_terminal: Whether somebody reads the lines as they are written.
    """

    def __init__(self, stream: IO[bytes], on_broken: Callable[[], Any]) -> None:
        self._stream = stream
        self._on_broken = on_broken
        self._lock = threading.Lock()
        self._is_broken = False
        self.is_terminal = stream.isatty()

    def write(self, line: bytes) -> None:
        """Writes a line, which ends in a line feed or carriage return."""
        with self._lock:
            if self._is_broken:
                return
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):
                self._is_broken = True
                self._on_broken()


class StartedProcess:
    """A task that was started, in a process group of its own, and that sees this process end.

    Args:
      task: What it runs.
      sinks: Called with each line of standard output and of standard error, in threads.
      on_end: Called with this object, in a thread, when the process has ended.

    Attributes:
      task: The same.
      was_told_to_end: Whether it was sent a signal by `end`.
      ended_at: When it ended, by `time.monotonic`; None while it runs.
    """

    def __init__(
        self, task: Task, sinks: Sequence[Sink], on_end: Callable[[StartedProcess], Any]
    ) -> None:
        self.task = task
        self.was_told_to_end = False
        self.ended_at: Optional[float] = None
        self._last_lines = _LastLines()
        self._starter = StarterPipe()
        with self._starter.reader as inherited:
            self._process = subprocess.Popen(
                list(task.command),
                env={**task.environment, **self._starter.environment},
                stdin=subprocess.DEVNULL if task.given is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=(*task.inherited, inherited.fileno()),
                cwd=task.folder,
            )
        sources = (self._process.stdout, self._process.stderr)
        watchers: Sequence[Sink] = (_ignore, self._last_lines.add)
        self._forwarders = [
            _started(_forward, source, sink, watch)
            for source, sink, watch in zip(sources, sinks, watchers)
        ]
        if task.given is not None:
            _started(self._give, task.given)
        _started(self._wait, on_end)

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.name

    @property
    def exit_code(self) -> Optional[int]:
        """As a shell has it: 128 + signal if one ended the process; None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    @property
    def cause(self) -> str:
        """How it ended, in words; with the error that it printed, if it ended by that."""
        code = self._process.returncode
        if code < 0:
            return "was ended by {}{}".format(
                _signal_name(-code),
                " (as Linux does when memory runs out)" if -code == signal.SIGKILL else "",
            )
        said = self._last_lines.error(code)
        return "ended with exit code {}{}".format(code, ": " + said if code and said else "")

    def end(self, number: int) -> None:
        """Sends a signal to it and to the processes that it started, if it still runs."""
        if self._process.poll() is not None:
            return
        self.was_told_to_end = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _wait(self, on_end: Callable[[StartedProcess], Any]) -> None:
        self._process.wait()
        self.ended_at = time.monotonic()
        self._starter.writer.close()
        for forwarder in self._forwarders:
            forwarder.join(_DRAIN_SECONDS)
        on_end(self)

    def _give(self, given: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(given)


class _LastLines:
    """What of a process's standard error may tell why it failed."""

    def __init__(self) -> None:
        self._last = ""
        self._is_advised = False
        self._exception: List[str] = []  # of the last traceback: the line that it ends with, and on
        self._is_in_traceback = False

    def add(self, line: bytes) -> None:
        """Takes the next line."""
        text = line.decode("utf-8", "replace").strip()
        if not text:
            return
        self._last = "" if self._is_advised or _OF_A_LOG.match(text) else text
        self._is_advised = text == _ADVICE_FOLLOWS
        if text == _TRACEBACK:
            self._exception = []
            self._is_in_traceback = True
        elif self._is_in_traceback and line[:1].isspace():
            return
        elif self._is_in_traceback:
            self._exception = [text]
            self._is_in_traceback = False
        elif self._exception and len(self._exception) < _MOST_LINES:
            self._exception.append(text)

    def error(self, code: int) -> str:
        """The exception of the last traceback; if there was none, the last line, if it tells.

        Args:
          code: The exit code: a script that ends by `sys.exit(3)` need not have said why.
        """
        if not self._exception:
            tells = code in _WITH_MESSAGE or "error" in self._last.lower()
            return self._last[:_MOST_CHARACTERS] if tells else ""
        kind, _, message = self._exception[0].partition(": ")
        if message == _OF_A_GRAPH:
            message = _message_of_node(self._exception) or message
        text = ": ".join(part for part in (kind.rpartition(".")[2], message) if part)
        return text[:_MOST_CHARACTERS]


def _message_of_node(lines: Sequence[str]) -> str:
    """What an op said; TensorFlow puts it behind the node, where that was made and where it ran."""
    nodes = [place for place, text in enumerate(lines, 1) if _NODE.match(text)]
    after = nodes[-1] if nodes else len(lines)
    return next((text for text in lines[after:] if not _AROUND.match(text)), "")


def _forward(source: IO[bytes], sink: Sink, watch: Sink) -> None:
    begun = b""
    while True:
        chunk = os.read(source.fileno(), _CHUNK)
        # A progress bar ends its lines with carriage returns, and must not wait for more.
        lines = (begun + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\r\0")
        *whole, begun = lines.replace(b"\n", b"\n\0").split(b"\0")
        if not chunk and begun:
            whole.append(begun + b"\n")
        for line in whole:
            watch(line)
            sink(line)
        if not chunk:
            source.close()
            return


def _ignore(_: bytes) -> None:
    pass


def _started(target: Callable[..., Any], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    return thread


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal {}".format(number)
