"""The ranks of a training as processes of this machine: if one fails, all end."""

from __future__ import annotations

import re
import signal
from typing import Any, Callable, Dict, List, Optional, Sequence

from graph_opt.launch.process_group import (
    LEAVE_SECONDS,
    ProcessGroup,
    exit_code_of_signal,
    say,
)
from graph_opt.launch.started_process import StartedProcess, Task

_NAMED = re.compile(r"\brank (\d+)(?:: | failed| ended| has ended| was ended)")
# What a rank says when another one has left.
_CONSEQUENCES = ("Horovod has been shut down", "Connection closed by peer", "Connection reset by")


class RankGroup(ProcessGroup):
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
        super().__init__(
            [
                Task(str(rank), command, environment, given)
                for rank, environment in enumerate(environments)
            ]
        )
        self._on_failure = on_failure
        self._patience = patience

    def on_end(self, process: StartedProcess) -> None:
        """Ends the others when a rank has failed."""
        if process.exit_code and not process.was_told_to_end:
            self._on_failure(_rank_of(process), process.cause)
            if not self.is_ending:
                self.end_after(self._patience)

    def outcome(self) -> int:
        """0 if all succeeded; else the exit code of the rank that failed first, or of a signal."""
        if self.got:
            name = signal.Signals(self.got[0]).name
            say("run", "got {}: all ranks have ended".format(name))
            return exit_code_of_signal(self.got[0])
        failed = [rank for rank in self.ended if rank.exit_code and not rank.was_told_to_end]
        if not failed:
            return 0
        first = next((rank for rank in failed if not _followed_another(rank)), failed[0])
        say("run", "rank {} {}{}".format(first.name, first.cause, self._of_the_others(first)))
        return first.exit_code or 0

    def _of_the_others(self, first: StartedProcess) -> str:
        """What became of the others, since the first rank to fail may not be to blame."""
        before = self.ended[: self.ended.index(first)]
        left = sorted(_rank_of(rank) for rank in before if not rank.exit_code)
        told = sorted(_rank_of(rank) for rank in self.ended if rank.was_told_to_end)
        text = (
            "; before that, {} had ended without an error".format(_names_of(left)) if left else ""
        )
        if told:
            text += "; {} did not end on {} own and {} ended".format(
                _names_of(told),
                "its" if len(told) == 1 else "their",
                "was" if len(told) == 1 else "were",
            )
        return text


def _rank_of(process: StartedProcess) -> int:
    return int(process.name)


def _followed_another(process: StartedProcess) -> bool:
    """Whether it failed since another rank had left, as far as its error tells."""
    cause = process.cause
    named = {int(number) for number in _NAMED.findall(cause)}
    return bool(named - {_rank_of(process)}) or any(words in cause for words in _CONSEQUENCES)


def _names_of(ranks: Sequence[int]) -> str:
    """`rank 0`, or `ranks 0 and 2`."""
    texts: List[str] = [str(rank) for rank in ranks]
    if len(texts) == 1:
        return "rank " + texts[0]
    return "ranks {} and {}".format(", ".join(texts[:-1]), texts[-1])
