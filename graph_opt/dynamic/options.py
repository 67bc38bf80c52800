"""What a dynamic table is made with, and the JSON that its ops are given."""

from __future__ import annotations

import json
from typing import Any, Dict, NamedTuple, Optional, Union

from graph_opt.sharding.initializers import Constant, Drawn, stream_key

# Eviction by value: the least valuable rows go when there is no room.
LRU = "lru"
LFU = "lfu"
EPOCH_LRU = "epoch_lru"
EPOCH_LFU = "epoch_lfu"
CUSTOM = "custom"


class CounterAdmission(NamedTuple):
    """A key gets a row once it has been looked up so many times.

    Attributes:
      filter_freq: Number of occurrences.
    """

    filter_freq: int


class BloomAdmission(NamedTuple):
    """As `CounterAdmission`, in less memory: rare keys may be counted too high.

    Attributes:
      filter_freq: Number of occurrences.
      expected_keys: Number of keys that the filter is sized for.
      false_positive_probability: That of a key being admitted too early.
    """

    filter_freq: int
    expected_keys: int
    false_positive_probability: float


class ProbabilityAdmission(NamedTuple):
    """A key gets a row with a probability, drawn at each of its occurrences.

    Attributes:
      probability: In (0, 1].
      seed: Of the draws; None for one that follows from the table's name.
    """

    probability: float
    seed: Optional[int] = None


class StepsToLive(NamedTuple):
    """Rows that have not been updated for so many steps are removed at checkpoints.

    Attributes:
      steps: Number of steps.
    """

    steps: int


class L2Threshold(NamedTuple):
    """Rows with half a squared norm below the threshold are removed at checkpoints.

    Attributes:
      threshold: Of 0.5 · Σw².
    """

    threshold: float


class LeastValuable(NamedTuple):
    """The least valuable rows are removed where the table has more than its capacity.

    Attributes:
      kind: LRU, LFU, EPOCH_LRU, EPOCH_LFU or CUSTOM.
    """

    kind: str


class Tiers(NamedTuple):
    """Where rows are.

    Attributes:
      memory_bytes: Rows beyond it are in a file.
      path: Folder of the file.
      file_bytes: Of the file, at most; 0 for any size.
    """

    memory_bytes: int
    path: str
    file_bytes: int = 0


class RowLimit(NamedTuple):
    """The most rows, none of which goes: keys that need more are an error.

    Attributes:
      rows: Number of rows.
      option: What the user calls the limit, for messages.
    """

    rows: int
    option: str = ""


class Bank(NamedTuple):
    """Key k starts with row k % rows of a matrix.

    Attributes:
      rows: Number of rows of the matrix.
    """

    rows: int


Admission = Union[CounterAdmission, BloomAdmission, ProbabilityAdmission]
Eviction = Union[StepsToLive, L2Threshold, LeastValuable]
Initial = Union[Bank, Constant, Drawn]


class DynamicTableOptions(NamedTuple):
    """What a dynamic table is made with.

    Attributes:
      initial: How new rows start.
      no_permission: What a key reads that was not admitted.
      admission: Which keys get a row; None for all.
      eviction: Which rows are removed; None for none.
      capacity: Number of rows at most, of which some go for new ones; 0 for any number.
      limit: Number of rows at most, beyond which new keys are an error, and until then keys that no
        lookup has given a row read `no_permission`; None for any number. Without `admission` and
        `capacity` only.
      tiers: Where rows are; None for memory.
      reserved_bytes: Address space for rows; 0 for the engine's own choice.
      record_frequency: Whether lookups count keys, as often as they occur in a batch, though no
        rule needs it. Where nothing does, lookups write nothing and are quicker.
      notes_times: Whether it is known when rows were last looked up and written. Their versions
        then are times, in microseconds since 1970, and not steps.
    """

    initial: Initial
    no_permission: float = 0.0
    admission: Optional[Admission] = None
    eviction: Optional[Eviction] = None
    capacity: int = 0
    limit: Optional[RowLimit] = None
    tiers: Optional[Tiers] = None
    reserved_bytes: int = 0
    record_frequency: bool = False
    notes_times: bool = False

    @property
    def counts_occurrences(self) -> bool:
        """Whether it matters how many times a batch has a key."""
        counted = isinstance(self.admission, (CounterAdmission, BloomAdmission))
        if counted or self.record_frequency:
            return True
        return isinstance(self.eviction, LeastValuable) and self.eviction.kind in (LFU, EPOCH_LFU)

    def to_json(self, name: str, dim: int) -> str:
        """The attribute `options` of the ops that make a table.

        Args:
          name: Of the table: seeds follow from it.
          dim: Number of columns.

        Example:
          >>> DynamicTableOptions(Bank(4096)).to_json("table", 16)
          '{"counts_lookups": false, "dim": 16, "initial": {"kind": "bank"}}'
        """
        fields: Dict[str, Any] = {"dim": dim, "initial": _initial(self.initial, name)}
        if not self.record_frequency:
            fields["counts_lookups"] = False
        if self.no_permission:
            fields["no_permission"] = self.no_permission
        if self.admission is not None:
            fields["admission"] = _admission(self.admission, name)
        if self.eviction is not None:
            fields["eviction"] = _eviction(self.eviction)
        if self.capacity:
            fields["capacity"] = self.capacity
        if self.limit is not None:
            fields["limit"] = self.limit._asdict()
        if self.tiers is not None:
            fields["tiers"] = self.tiers._asdict()
        if self.reserved_bytes:
            fields["reserved_bytes"] = self.reserved_bytes
        if self.notes_times:
            fields["notes_times"] = True
        return json.dumps(fields, sort_keys=True)


def _initial(initial: Initial, name: str) -> Dict[str, Any]:
    if isinstance(initial, Bank):
        return {"kind": "bank"}
    if isinstance(initial, Constant):
        return {"kind": "constant", "value": initial.value}
    return {
        "kind": initial.distribution,
        "first": initial.first,
        "second": initial.second,
        "key": str(stream_key(name, initial.seed)),
    }


def _admission(admission: Admission, name: str) -> Dict[str, Any]:
    if isinstance(admission, CounterAdmission):
        return {"kind": "counter", "filter_freq": admission.filter_freq}
    if isinstance(admission, BloomAdmission):
        return {"kind": "bloom", **admission._asdict()}
    key = stream_key(name + "/admission", admission.seed)
    return {"kind": "probability", "probability": admission.probability, "key": str(key)}


def _eviction(eviction: Eviction) -> Dict[str, Any]:
    if isinstance(eviction, StepsToLive):
        return {"kind": "steps_to_live", "steps_to_live": eviction.steps}
    if isinstance(eviction, L2Threshold):
        return {"kind": "l2", "l2_threshold": eviction.threshold}
    return {"kind": eviction.kind}
