"""Turns of about the same time for contenders of very different speed, in an order that swaps.

    round 1: A B C    round 2: C B A    round 3: A B C    ...

Whatever one contender leaves behind for the next (cold caches, threads that come to rest) then
meets each of its neighbours, and no contender is always the first.
"""

from __future__ import annotations

from typing import Callable, Sequence

from tools.bench.training.contenders import Contender
from tools.bench.training.measurement import Turns

LEAST_STEPS = 2
MOST_STEPS = 200
_SETTLING_SHARE = 5  # one untimed step for so many timed ones


def run_in_timed_turns(
    contenders: Sequence[Contender],
    rounds: int,
    seconds: float,
    before_round: Callable[[], None] = lambda: None,
) -> Turns:
    """Runs the contenders in turns, after a warm-up of each.

    Args:
        contenders: open contenders.
        rounds: turns of each.
        seconds: about how long a turn takes; one of a slow contender takes two steps.
        before_round: called before each round.

    Returns:
        The timed turns of each contender, by name.
    """
    steps = {contender.name: _warmed_up(contender, seconds) for contender in contenders}
    turns: Turns = {contender.name: [] for contender in contenders}
    for round_ in range(rounds):
        before_round()
        for contender in contenders if round_ % 2 == 0 else reversed(contenders):
            settling = steps[contender.name] // _SETTLING_SHARE
            if settling:
                contender.run(settling)
            turns[contender.name].append(contender.run(steps[contender.name]))
    return turns


def _warmed_up(contender: Contender, seconds: float) -> int:
    """Steps of a turn; the first steps also prepare the graph, and so tell nothing."""
    contender.run(1)
    fits = int(seconds / contender.run(1).seconds_per_step)
    if fits > LEAST_STEPS:
        fits = int(seconds / contender.run(fits).seconds_per_step)
    return min(max(fits, LEAST_STEPS), MOST_STEPS)
