"""How many threads a stage needs and how many batches it holds ready, from who waited for whom.

    main waits                    ──> one more thread; if threads wait, too: more room
    main does not, threads wait   ──> one thread fewer, or room for one batch less

A change is kept only if it pays: one that grows the stage must make it faster, one that shrinks it
must not make it slower. Otherwise it is undone, and tried again after twice as many decisions. If
threads that were added wait for room, they get it before they are given up: with one place in the
buffer, batches that leave in order let only one thread put at a time.

The rule for more room is that of tf.data's autotuned prefetch (`PrefetchAutotuner`): it helps only
a buffer that is both empty and full at times.

Nothing here knows of sessions or clocks: `Tuning.observe` is a function of what was measured.
"""

from __future__ import annotations

import math
import statistics
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence

from graph_opt.ops.stage_spec import CAPACITY, THREADS

# Rows that miss 16 updates already slow the learning of a small model down (`option_warnings`).
MOST = 8
# A decision takes so many windows if their rates agree, and more until the error of their mean is
# small. The best and the worst fifth of them do not count: other programs use the machine, too.
DECISION_WINDOWS, MOST_WINDOWS = 5, 20
_SMALL_ERROR = 0.015
_FIFTH = 5
SHORTEST_WINDOW = 0.1
LONGEST_WINDOW = 1.0
LEAST_BATCHES = 4
# Shares of the time that main waits: from the first on, growing is worth a try; up to the second,
# shrinking is.
_STARVED, _FED = 0.03, 0.01
# How many threads wait for room, on average, where one more batch could help, where a thread is too
# many, and where the buffer is nearly always full.
_SOME_WAIT, _ONE_TOO_MANY, _FULL = 0.05, 1.25, 0.5
_GAIN, _LOSS = 1.03, 0.98
_FIRST_PAUSE = 8


class Setting(NamedTuple):
    """The numbers of a stage's threads, and of the batches that its buffer may hold."""

    threads: int
    capacity: int

    def __str__(self) -> str:
        return "threads_num {}, capacity {}".format(self.threads, self.capacity)


class Window(NamedTuple):
    """What happened at a buffer within a short time.

    Attributes:
      rate: Batches taken a second.
      starved: Share of the time that main waited for a batch.
      idle: How many threads waited for room, on average.
      largest_bytes: Bytes of the largest batch taken so far.
      error: Of the rate, as a share of it, if this is the mean of several windows.
    """

    rate: float
    starved: float
    idle: float
    largest_bytes: int = 0
    error: float = 0.0


class _Try(NamedTuple):
    """A change of setting that has yet to prove itself.

    Attributes:
      move: Which of `_MOVES` it is.
      before: The setting that it changed.
      window: What was measured with that.
      chances: How many more decisions may find that it does not pay.
    """

    move: str
    before: Setting
    window: Window
    chances: int


class _Move(NamedTuple):
    """A way to change the setting, and when it is worth a try."""

    option: str
    grows: bool
    change: Callable[[Setting], Setting]
    is_due: Callable[[Window], bool]


_MOVES: Dict[str, _Move] = {
    "more room": _Move(
        CAPACITY,
        True,
        lambda now: now._replace(capacity=min(2 * now.capacity, MOST)),
        lambda seen: seen.starved > _STARVED and seen.idle > _SOME_WAIT,
    ),
    "more threads": _Move(
        THREADS,
        True,
        lambda now: now._replace(threads=min(now.threads + max(1, now.threads // 2), MOST)),
        lambda seen: seen.starved > _STARVED,
    ),
    "fewer threads": _Move(
        THREADS,
        False,
        lambda now: now._replace(threads=now.threads - 1),
        lambda seen: seen.starved <= _FED and seen.idle > _ONE_TOO_MANY,
    ),
    "less room": _Move(
        CAPACITY,
        False,
        lambda now: now._replace(capacity=now.capacity - 1),
        lambda seen: seen.starved <= _FED and seen.idle > _FULL,
    ),
}


class Tuning:
    """Finds the setting of one stage.

    Args:
      tuned: Which of `THREADS` and `CAPACITY` may change.
      start: The setting that the stage begins with.
      least: The smallest setting it may get.
      memory_bytes: What its batches may take: those in the buffer, and one for each thread.

    Attributes:
      setting: What the stage should have now.
      window_seconds: How long the next window should be.
      settled: Whether there has been nothing left to try.

    Example:
      >>> tuning = Tuning((THREADS,), Setting(1, 1), Setting(1, 1), 512 << 20)
      >>> for _ in range(DECISION_WINDOWS):
      ...   tuning.observe(Window(rate=100.0, starved=0.5, idle=0.0))
      >>> tuning.setting.threads
      2
    """

    def __init__(
        self, tuned: Sequence[str], start: Setting, least: Setting, memory_bytes: int
    ) -> None:
        self.setting = start
        self.window_seconds = SHORTEST_WINDOW
        self.settled = False
        self._tuned = tuple(tuned)
        self._least = least
        self._memory_bytes = memory_bytes
        self._batch_bytes = 0
        self._windows: List[Window] = []
        self._skipped = 1
        self._try: Optional[_Try] = None
        self._pauses: Dict[str, int] = {}
        self._failures: Dict[str, int] = {}
        self._first: Optional[Window] = None
        self._last: Optional[Window] = None
        self._limit = ""

    def observe(self, window: Window) -> None:
        """Takes note of a window and, after enough of them, changes the setting."""
        self._batch_bytes = max(self._batch_bytes, window.largest_bytes)
        if not self._fits(self.setting):
            self._change(self._largest_that_fits())
            return
        if self._skipped:
            self._skipped -= 1
            return
        self._windows.append(window)
        if len(self._windows) < DECISION_WINDOWS:
            return
        seen = _mean(self._windows)
        if seen.error <= _SMALL_ERROR or len(self._windows) == MOST_WINDOWS:
            self._decide(seen)

    @property
    def is_trying(self) -> bool:
        """Whether a change of its setting has yet to prove itself."""
        return self._try is not None

    def begin_again(self) -> None:
        """Forgets the windows of the next decision: another stage has changed meanwhile."""
        self._windows = []
        self._skipped = 1

    def __str__(self) -> str:
        """What was chosen and why, in one line."""
        if self._last is None or self._first is None:
            return "{} so far, too few batches to choose by".format(self.setting)
        waits = "it is waited for {:.0%} of the time".format(self._last.starved)
        if self.setting != Setting(1, 1):
            waits += " ({:.0%} at first)".format(self._first.starved)
        reasons = [waits]
        failed = [move for move in _MOVES if self._failures.get(move)]
        if failed:
            reasons.append("{} did not pay".format(" and ".join(failed)))
        if self._limit:
            reasons.append(self._limit)
        chosen = "{}{}".format(self.setting, "" if self.settled else " so far")
        return "{}: {}".format(chosen, "; ".join(reasons))

    def _decide(self, seen: Window) -> None:
        self._windows = []
        self._first = self._first or seen
        self._last = seen
        self._pauses = {move: left - 1 for move, left in self._pauses.items() if left > 1}
        tried, self._try = self._try, None
        if tried is not None and not _pays(tried, seen):
            if tried.chances > 0:
                self._try = tried._replace(chances=tried.chances - 1)
                self._give_room(seen)
                return
            self._pause(tried.move)
            self._change(tried.before)
            self._last = tried.window
            return
        if tried is not None:
            self._failures.pop(tried.move, None)
        move = self._next_move(seen)
        if move is not None:
            # A new thread may need a while to show, and what is refused once waits long.
            self._try = _Try(move, self.setting, seen, chances=int(_MOVES[move].grows))
            self._change(_MOVES[move].change(self.setting))
            return
        self.settled = True
        self.window_seconds = min(2 * self.window_seconds, LONGEST_WINDOW)

    def _give_room(self, seen: Window) -> None:
        """Lets threads that are tried not wait for each other, as those with an order may."""
        move = _MOVES["more room"]
        if move.option in self._tuned and move.is_due(seen):
            wanted = move.change(self.setting)
            if self._fits(wanted):
                self._change(wanted)

    def _next_move(self, seen: Window) -> Optional[str]:
        self._limit = ""
        for name, move in _MOVES.items():
            if move.option not in self._tuned or not move.is_due(seen) or name in self._pauses:
                continue
            wanted = move.change(self.setting)
            if wanted == self.setting:
                self._limit = "{} would be more than {}".format(name, MOST)
            elif not self._fits(wanted):
                self._limit = "autotune_memory_mb = {} leaves no room for {}".format(
                    self._memory_bytes >> 20, name
                )
            elif wanted.threads >= self._least.threads and wanted.capacity >= self._least.capacity:
                return name
        return None

    def _pause(self, move: str) -> None:
        failures = self._failures.get(move, 0)
        self._failures[move] = failures + 1
        self._pauses[move] = _FIRST_PAUSE << min(failures, 8)

    def _change(self, setting: Setting) -> None:
        self.setting = setting
        self.window_seconds = SHORTEST_WINDOW
        self.begin_again()

    def _fits(self, setting: Setting) -> bool:
        bytes_needed = (setting.threads + setting.capacity) * self._batch_bytes
        return bytes_needed <= self._memory_bytes or setting == self._smallest()

    def _smallest(self) -> Setting:
        return Setting(
            self._least.threads if THREADS in self._tuned else self.setting.threads,
            self._least.capacity if CAPACITY in self._tuned else self.setting.capacity,
        )

    def _largest_that_fits(self) -> Setting:
        """The nearest smaller setting: it loses room first, then threads."""
        self._try = None
        setting, smallest = self.setting, self._smallest()
        while not self._fits(setting):
            if setting.capacity > smallest.capacity:
                setting = setting._replace(capacity=setting.capacity - 1)
            else:
                setting = setting._replace(threads=setting.threads - 1)
        return setting


def _pays(tried: _Try, seen: Window) -> bool:
    before = tried.window
    if _MOVES[tried.move].grows:
        # More threads that are kept though they do not pay would get others after them.
        doubt = math.hypot(seen.error, before.error)
        return seen.rate >= (_GAIN + doubt) * before.rate
    return seen.rate >= _LOSS * before.rate and seen.starved <= _STARVED


def _mean(windows: Sequence[Window]) -> Window:
    """The mean of each number, without its extremes."""
    left_out = len(windows) // _FIFTH
    rate, starved, idle = (
        statistics.mean(sorted(numbers)[left_out : len(numbers) - left_out])
        for numbers in list(zip(*windows))[:3]
    )
    error = statistics.stdev(window.rate for window in windows) / math.sqrt(len(windows)) / rate
    largest_bytes = max(window.largest_bytes for window in windows)
    return Window(rate, starved, idle, largest_bytes, error)
