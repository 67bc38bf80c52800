"""What tasks noted about batches, and whether a session lost or doubled one.

A session's life begins when it is opened, and ends when a task of the cluster is lost. The next one
begins with the source's first batch again, as TensorFlow's one-shot iterators do. Within a life,
steps must use the batches that the source handed out, in order: none missing, none twice. What was
prefetched when a life ends is dropped with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import List, NamedTuple


class ProcessNotes(NamedTuple):
    """The notes of one process.

    Attributes:
      name: Its task and process id.
      made: Numbers of the batches that the source handed out, of all lives.
      lives: For each session, numbers of the batches that its steps used, in order.
    """

    name: str
    made: List[int]
    lives: List[List[int]]

    @property
    def used(self) -> int:
        """How many batches were used."""
        return sum(map(len, self.lives))


def read_notes(folder: Path) -> List[ProcessNotes]:
    """The notes of all processes that left some."""
    return [_read(path) for path in sorted(folder.glob("*.txt"))]


def violations(notes: ProcessNotes) -> List[str]:
    """What is wrong with the batches of a process; empty if nothing is."""
    found = []
    for number, used in enumerate(notes.lives, 1):
        wrong = next((place for place, batch in enumerate(used) if batch != place), None)
        if wrong is not None:
            told = "{}: step {} of session {} used batch {}, not {}"
            found.append(told.format(notes.name, wrong + 1, number, used[wrong], wrong))
        if used and used[-1] not in notes.made:
            found.append("{}: session {} used a batch that nobody made".format(notes.name, number))
    if notes.used > len(notes.made):
        found.append("{}: more batches were used than made".format(notes.name))
    return found


def _read(path: Path) -> ProcessNotes:
    made: List[int] = []
    lives: List[List[int]] = []
    text = path.read_text()
    for line in text[: text.rfind("\n") + 1].splitlines():
        note, number = line.split()
        if note == "life":
            lives.append([])
        elif note == "made":
            made.append(int(number))
        else:
            lives[-1].append(int(number))
    return ProcessNotes(path.stem, made, lives)
