"""What a step costs, from what a few ranks on one machine took."""

from __future__ import annotations

import statistics
from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np

from tools.bench.collectives.figures import Found, times_of
from tools.bench.collectives.floor import EXCHANGE_ALONE
from tools.bench.collectives.modes import FUSED, HOROVOD, LOCAL, SHARDED
from tools.bench.scaling.load import Load, Lookups, replicated_bytes

MESSAGES = 4  # three for the tables, one for all other variables
NETWORK_BYTES_PER_S = 25e9 / 8  # Assumed, not measured: ranks on one machine have no network.


class Measured(NamedTuple):
    """What a number of ranks took, for a step of each.

    Attributes:
      ranks: how many there were.
      sent: bytes that a rank sent for sharded tables.
      sent_replicated: bytes that it sent where every rank has all tables; none if not measured.
      local_s: CPU time of a rank that trains without messages.
      divided_s: CPU time with sharded tables.
      replicated_s: CPU time where every rank has all tables; none if not measured.
    """

    ranks: int
    sent: List[float]
    sent_replicated: List[float]
    local_s: List[float]
    divided_s: List[float]
    replicated_s: List[float]


class Messages(NamedTuple):
    """What messages of few bytes took among a number of ranks.

    Attributes:
      ranks: how many there were.
      seconds: time of a message.
      first_cpu_s: CPU time of the first rank for a message. It hears from each other rank before
        Horovod lets them send.
    """

    ranks: int
    seconds: List[float]
    first_cpu_s: List[float]


class Costs(NamedTuple):
    """Of a rank that has a core of its own.

    Attributes:
      local_s: a step without messages.
      s_per_byte: CPU time for each byte of sharded tables that a rank sends or receives, with all
        that is done to its row: found, gathered, copied, summed and updated.
      replicated_s_per_byte: the same where every rank has all tables.
      message_s: time of a message of few bytes between two ranks.
      message_s_per_rank: CPU time that each further rank costs the first one in a message.
    """

    local_s: float
    s_per_byte: float
    replicated_s_per_byte: float
    message_s: float
    message_s_per_rank: float

    def of_message(self, ranks: int) -> float:
        """Time of a message of few bytes among so many ranks."""
        if ranks == 1:
            return 0.0
        return self.message_s + self.message_s_per_rank * (ranks - 2)

    def of_step(self, load: Load) -> float:
        """Time of a step with sharded tables: that of its busiest rank."""
        return (
            self.local_s
            + self.s_per_byte * load.through()
            + MESSAGES * self.of_message(load.ranks)
            + load.passing() / NETWORK_BYTES_PER_S
        )

    def of_replicated_step(self, lookups: Lookups, ranks: int) -> float:
        """Time of a step where every rank has all tables; its messages are in the bytes."""
        sent = replicated_bytes(lookups, ranks)
        through = 2 * sent
        return self.local_s + self.replicated_s_per_byte * through + sent / NETWORK_BYTES_PER_S


def measured_by(found: Found) -> Measured:
    """What ranks found that trained `wide`."""
    modes = found[0]["modes"]
    ranks = len(found)

    def cpu(mode: str) -> List[float]:
        turns: Dict[str, Any] = times_of(found).cpu
        return [seconds / ranks for seconds in turns.get(mode, ())]

    def sent(mode: str) -> List[float]:
        return [each["modes"][mode]["traffic"]["table_bytes"] for each in found if mode in modes]

    return Measured(
        ranks,
        sent(SHARDED),
        sent(HOROVOD),
        cpu(LOCAL),
        cpu(FUSED),
        cpu(HOROVOD),
    )


def messages_by(found: Found) -> Messages:
    """What ranks found that trained next to nothing, and so sent messages of few bytes."""
    wall = times_of(found).wall[EXCHANGE_ALONE]
    first = [cpu for _, cpu in found[0]["turns"][EXCHANGE_ALONE]]
    return Messages(
        len(found), [each / MESSAGES for each in wall], [each / MESSAGES for each in first]
    )


def costs_of(measured: Sequence[Measured], messages: Sequence[Messages]) -> Costs:
    """Costs from the fewest ranks measured, which have a core each, and from messages.

    CPU time of messages is taken from all numbers of ranks: ranks that wait for a core use none.
    """
    first = min(measured, key=lambda each: each.ranks)
    local = statistics.median(first.local_s)
    divided = statistics.median(first.divided_s) - local
    replicated = statistics.median(first.replicated_s) - local
    return Costs(
        local,
        max(0.0, divided) / (2 * statistics.mean(first.sent)),
        max(0.0, replicated) / (2 * statistics.mean(first.sent_replicated)),
        statistics.median(min(messages, key=lambda each: each.ranks).seconds),
        _slope({each.ranks: statistics.median(each.first_cpu_s) for each in messages}),
    )


def _slope(values: Dict[int, float]) -> float:
    """By least squares; 0 for a single value, and for values that fall."""
    if len(values) < 2:
        return 0.0
    return max(0.0, float(np.polyfit(list(values), list(values.values()), 1)[0]))
