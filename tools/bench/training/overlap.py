"""What prefetching could gain at most, and how much of that it gains.

    floor              = the longest of: main alone, lookups alone, CPU seconds / cores
    overlap_efficiency = (in line - ahead) / (in line - floor)

All of them are seconds a step: of the mode whose lookups run ahead, and of the one that does the
same work in line (async and stock; with fused lookups both and fused). Main and lookups that run
side by side cannot be faster than the slower of them, nor than the cores that compute them.
"""

from __future__ import annotations

from typing import NamedTuple

NOTHING_TO_GAIN = 1.05  # in line over floor: nearer than this, the quotient is noise over noise


class Seconds(NamedTuple):
    """Seconds a step of one round.

    Attributes:
        in_line: the session that looks up and computes in one step.
        ahead: the session whose lookups run ahead.
        main_alone: the main graph with its lookups' results at hand.
        lookups_alone: the prefetch stage with nobody to compute on what it brings.
        cpu: CPU seconds of a step over cores, those of the proxy included.
    """

    in_line: float
    ahead: float
    main_alone: float
    lookups_alone: float
    cpu: float

    @property
    def floor(self) -> float:
        """The shortest step that perfect overlap could give."""
        return max(self.main_alone, self.lookups_alone, self.cpu)

    @property
    def efficiency(self) -> float:
        """Share of the possible gain that was gained: 1 is all of it, below 0 is a loss."""
        return (self.in_line - self.ahead) / (self.in_line - self.floor)

    @property
    def has_room(self) -> bool:
        """Whether the session in line is far enough above the floor for an efficiency."""
        return self.in_line > NOTHING_TO_GAIN * self.floor
