"""What prefetching could gain at most, and how much of that it gains.

    floor              = the longest of: main alone, lookups alone, CPU seconds / cores
    overlap_efficiency = (stock - async) / (stock - floor)

All of them are seconds a step. Main and lookups that run side by side cannot be faster than the
slower of them, nor than the cores that compute them.
"""

from __future__ import annotations

from typing import NamedTuple

NOTHING_TO_GAIN = 1.05  # stock over floor: nearer than this, the quotient is noise over noise


class Seconds(NamedTuple):
    """Seconds a step of one round.

    Attributes:
        stock: the stock session.
        ours: the optimized session.
        main_alone: the main graph with its lookups' results at hand.
        lookups_alone: the prefetch stage with nobody to compute on what it brings.
        cpu: CPU seconds of a step over cores.
    """

    stock: float
    ours: float
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
        return (self.stock - self.ours) / (self.stock - self.floor)

    @property
    def has_room(self) -> bool:
        """Whether stock is far enough above the floor for the efficiency to mean anything."""
        return self.stock > NOTHING_TO_GAIN * self.floor
