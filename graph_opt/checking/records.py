"""What is recorded of a run, and the file that carries it from process to process.

Of a fetched tensor with at most `WHOLE_ELEMENTS` elements every value is recorded; of a larger one,
so many values at even distances, and a digest of all. Neither TensorFlow nor a graph is needed to
read a record.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import pickle
from typing import Any, BinaryIO, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

WHOLE_ELEMENTS = 4096
VARIABLE_ELEMENTS = 1 << 22  # 16 MiB of float32
_DIGEST_BYTES = 8
NO_RANK = -1
LOOKUPS, WEIGHTS = "lookups", "weights"


class Value(NamedTuple):
    """A tensor that was fetched, or the value of a variable.

    Attributes:
      name: The tensor, or the variable.
      shape: Its shape.
      digest: Of all its bytes; equal for values that are equal bit for bit.
      numbers: Its elements, or some at even distances, in one dimension; None for text.
      is_whole: Whether `numbers` has all elements.
    """

    name: str
    shape: Tuple[int, ...]
    digest: str
    numbers: Optional[np.ndarray] = None
    is_whole: bool = True


class Step(NamedTuple):
    """One `session.run`, or another way to run a step.

    Attributes:
      session: Number of its session, from 1, in the order in which sessions run their first step.
      stream: Number of the thread among those that run steps of the session, from 1.
      number: Its place among the steps of the stream, from 1.
      since_update: Its place among the stream's steps since the last one that trains, from 0.
      updates: How many steps of the process that train had begun by then, itself included.
      fed: Digest of what was fed, by tensor.
      fetched: What it returned.
      trains: Whether it trains.
      raised: The name of the error's class; "" if it returned.
      rank: The rank that ran it; -1 if there are none.
    """

    session: int
    stream: int
    number: int
    since_update: int
    updates: int
    fed: Dict[str, str]
    fetched: Tuple[Value, ...]
    trains: bool = True
    raised: str = ""
    rank: int = NO_RANK

    @property
    def place(self) -> Tuple[int, ...]:
        """Where it is found in another run, in which a hook may run more or fewer steps by time."""
        return self.rank, self.session, self.stream, self.updates, self.since_update


class Variables(NamedTuple):
    """The variables of a session that has trained, when it ended.

    Attributes:
      session: Its number.
      updates: How many steps had trained.
      values: The variables.
      rank: The rank that had them; -1 if there are none.
    """

    session: int
    updates: int
    values: Tuple[Value, ...]
    rank: int = NO_RANK


class Facts(NamedTuple):
    """What else is known of a run at its end.

    Attributes:
      sessions: What became of the sessions that were asked to optimize, a line each.
      asked: Names of the options that turn an optimization on, as far as a session set them.
      ahead: What runs ahead of updates in a session: `LOOKUPS`, `WEIGHTS`.
      replaced: Name of each tensor that something else computes, and what that is.
      unrepeatable: What may differ from run to run, a line each.
      copied: Variables whose initial values were those of another run.
      checkpoints: Where checkpoints were saved.
      cut_off: Whether the process ended before it could read the variables at the end.
      reached_limit: Whether the run was ended after as many steps as were asked for.
      exact: Whether lookups that run ahead were to be exact.
      on_servers: Whether a session talked to a server.
      outlived: The server whose variables had values before the run's first step; "" for none.
      divided: Variables of which each rank has a part.
    """

    sessions: Tuple[str, ...] = ()
    asked: Tuple[str, ...] = ()
    ahead: Tuple[str, ...] = ()
    replaced: Tuple[Tuple[str, str], ...] = ()
    unrepeatable: Tuple[str, ...] = ()
    copied: Tuple[str, ...] = ()
    checkpoints: Tuple[str, ...] = ()
    cut_off: bool = False
    reached_limit: bool = False
    exact: bool = False
    on_servers: bool = False
    outlived: str = ""
    divided: Tuple[str, ...] = ()


@dataclasses.dataclass
class Run:
    """All that was recorded of a run.

    Attributes:
      steps: In the order in which they ended.
      variables: Of each session that has trained.
      facts: Those of the first training step if the process was killed before it could say more.
      failure: How the process ended, in words; "" if it ended well.
      seconds: How long it took.
    """

    steps: List[Step] = dataclasses.field(default_factory=list)
    variables: List[Variables] = dataclasses.field(default_factory=list)
    facts: Facts = dataclasses.field(default_factory=Facts)
    failure: str = ""
    seconds: float = 0.0

    @property
    def updates(self) -> int:
        """How many steps trained."""
        return max((step.updates for step in self.steps), default=0)


def value_of(name: str, value: Any, most: int = WHOLE_ELEMENTS) -> Value:
    """What is recorded of an array, a number or text."""
    array = np.asarray(value)
    if array.dtype.kind not in "biufcV":
        return Value(name, array.shape, digest_of(array))
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind == "V":  # bfloat16 is no type of NumPy's
        flat = flat.astype(np.float32)
    return Value(name, array.shape, digest_of(array), evenly(flat, most), array.size <= most)


def evenly(flat: np.ndarray, most: int) -> np.ndarray:
    """At most so many elements of a vector, at even distances."""
    if flat.size <= most:
        return flat.copy()
    return flat[np.linspace(0, flat.size - 1, most).astype(np.int64)]


def digest_of(value: Any) -> str:
    """A digest of all bytes of an array, and of its shape and type."""
    array = np.asarray(value)
    digest = hashlib.sha1("{}{}".format(array.dtype, array.shape).encode("utf-8"))
    if array.dtype.kind in "OSU":
        for element in array.reshape(-1).tolist():
            text = element if isinstance(element, bytes) else str(element).encode("utf-8")
            digest.update(b"%d:" % len(text) + text)
    else:
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[: 2 * _DIGEST_BYTES]


class RecordFile:
    """The file, to which what is recorded is added at once."""

    def __init__(self, path: str) -> None:
        self._file: BinaryIO = open(path, "wb")

    def add(self, entry: Any) -> None:
        """Adds a `Step`, `Variables` or `Facts`."""
        pickle.dump(entry, self._file)
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class GrowingRecord:
    """The record of a run that still goes on: how many of its steps have trained.

    Args:
      path: The file; it need not be there yet.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._read = 0  # bytes
        self._updates = 0

    def updates(self) -> int:
        """How many steps have trained so far; reads what was added since the last call."""
        with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
            with open(self._path, "rb") as file:
                file.seek(self._read)
                while True:
                    entry = pickle.load(file)
                    self._read = file.tell()
                    if isinstance(entry, Step):
                        self._updates = max(self._updates, entry.updates)
        return self._updates


def read_run(path: str) -> Run:
    """The record in a file, as far as it was written; empty if there is none."""
    run = Run()
    try:
        with open(path, "rb") as file:
            while True:
                add_to(run, pickle.load(file))
    except (OSError, EOFError, pickle.UnpicklingError):
        return run


def add_to(run: Run, entry: Any) -> None:
    """Adds a `Step`, `Variables` or `Facts` to a run."""
    if isinstance(entry, Step):
        run.steps.append(entry)
    elif isinstance(entry, Variables):
        run.variables.append(entry)
    else:
        run.facts = entry
