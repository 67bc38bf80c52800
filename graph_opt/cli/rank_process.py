"""One rank of a training as a process: its output with a prefix, and how it ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from typing import IO, Any, Callable, Dict, List, Optional, Sequence

_CHUNK = 1 << 16
_DRAIN_SECONDS = 2.0  # for what a rank's own processes, which may outlive it, still write
_TRACEBACK = "Traceback (most recent call last):"
_OF_A_GRAPH = "Graph execution error:"
_NODE = re.compile("Node: '.*'")
_NAMED = re.compile(r"\brank (\d+)(?:: | failed| ended| has ended| was ended)")
_MOST_LINES = 200
_MOST_CHARACTERS = 300
# What a rank says when another one has left.
_CONSEQUENCES = ("Horovod has been shut down", "Connection closed by peer", "Connection reset by")


class Output:
    """A stream to which several ranks write whole lines.

    Args:
      stream: Where the lines go.
      on_broken: Called once when nobody reads the stream any more.
    """

    def __init__(self, stream: IO[bytes], on_broken: Callable[[], Any]) -> None:
        self._stream = stream
        self._on_broken = on_broken
        self._lock = threading.Lock()
        self._is_broken = False

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


class RankProcess:
    """A started rank, in a process group of its own.

    Args:
      rank: Its number.
      command: What it runs.
      environment: All of its environment variables.
      given: What it reads from standard input, if anything.
      outputs: Where standard output and standard error go.
      on_end: Called with this object, in a thread, when the process has ended.

    Attributes:
      rank: The same.
      was_told_to_end: Whether it was sent a signal by `end`.
    """

    def __init__(
        self,
        rank: int,
        command: Sequence[str],
        environment: Dict[str, str],
        given: Optional[bytes],
        outputs: Sequence[Output],
        on_end: Callable[[RankProcess], Any],
    ) -> None:
        self.rank = rank
        self.was_told_to_end = False
        self._last_lines = _LastLines()
        self._process = subprocess.Popen(
            list(command),
            env=environment,
            stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        sources = (self._process.stdout, self._process.stderr)
        watchers: Sequence[Callable[[bytes], Any]] = (_ignore, self._last_lines.add)
        self._forwarders = [
            _started(self._forward, source, output, watch)
            for source, output, watch in zip(sources, outputs, watchers)
        ]
        if given is not None:
            _started(self._give, given)
        _started(self._wait, on_end)

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
        said = self._last_lines.error()
        return "ended with exit code {}{}".format(code, ": " + said if code and said else "")

    @property
    def followed_another(self) -> bool:
        """Whether it failed since another rank had left, as far as its error tells."""
        cause = self.cause
        named = {int(number) for number in _NAMED.findall(cause)}
        return bool(named - {self.rank}) or any(words in cause for words in _CONSEQUENCES)

    def end(self, number: int) -> None:
        """Sends a signal to the rank and the processes that it started, if it still runs."""
        if self._process.poll() is not None:
            return
        self.was_told_to_end = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _wait(self, on_end: Callable[[RankProcess], Any]) -> None:
        self._process.wait()
        for forwarder in self._forwarders:
            forwarder.join(_DRAIN_SECONDS)
        on_end(self)

    def _give(self, given: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(given)

    def _forward(self, source: IO[bytes], output: Output, watch: Callable[[bytes], Any]) -> None:
        prefix = "[{}] ".format(self.rank).encode()
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
                output.write(prefix + line)
            if not chunk:
                source.close()
                return


class _LastLines:
    """What of a process's standard error may tell why it failed."""

    def __init__(self) -> None:
        self._last = ""
        self._exception: List[str] = []  # of the last traceback: the line that it ends with, and on
        self._is_in_traceback = False

    def add(self, line: bytes) -> None:
        """Takes the next line."""
        text = line.decode("utf-8", "replace").strip()
        if not text:
            return
        self._last = text
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

    def error(self) -> str:
        """The exception of the last traceback; if there was none, the last line."""
        if not self._exception:
            return self._last[:_MOST_CHARACTERS]
        kind, _, message = self._exception[0].partition(": ")
        if message == _OF_A_GRAPH:
            message = _message_of_node(self._exception) or message
        text = ": ".join(part for part in (kind.rpartition(".")[2], message) if part)
        return text[:_MOST_CHARACTERS]


def _message_of_node(lines: Sequence[str]) -> str:
    """What an op said; TensorFlow puts it behind the node and where that was made."""
    after = next((place for place, text in enumerate(lines, 1) if _NODE.match(text)), len(lines))
    return lines[after] if after < len(lines) else ""


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


def names_of(ranks: Sequence[int]) -> str:
    """`rank 0`, or `ranks 0 and 2`."""
    texts: List[str] = [str(rank) for rank in ranks]
    if len(texts) == 1:
        return "rank " + texts[0]
    return "ranks {} and {}".format(", ".join(texts[:-1]), texts[-1])
