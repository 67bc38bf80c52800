"""What there is to know of a format of files, besides how it is read and written."""

from __future__ import annotations

import os
from typing import Callable, Mapping, NamedTuple, Optional, Sequence

from graph_opt.table_files.layouts import DYNAMIC, Layout
from graph_opt.table_files.tables import Array, Choice, Source, Target


class Request(NamedTuple):
    """What to convert.

    Attributes:
      sources: A path, or several checkpoints that have the parts of the tables.
      target: The path to write.
      source_format: Name of a format.
      target_format: Name of a format.
      chosen: The tables; none for all, which a checkpoint does not tell.
      source_layout: How rows lie in a checkpoint that is read.
      layout: How they lie in a checkpoint that is written.
      others: The checkpoint whose other tensors a new one gets; None: the source, if it is one.
      asked: Which keys the rows of tables shall be of.
      weights_only: Whether slots are left out, so that a file may lack some.
    """

    sources: Sequence[str]
    target: str
    source_format: str
    target_format: str
    chosen: Sequence[Choice]
    source_layout: Layout
    layout: Layout
    others: Optional[str]
    asked: Mapping[str, Array]
    weights_only: bool

    @property
    def makes_dynamic(self) -> bool:
        """Whether dynamic tables are written."""
        return self.layout.rule == DYNAMIC


class Format(NamedTuple):
    """A format; all functions raise ValueError for a path or a request that is none of theirs.

    Attributes:
      is_at: Whether there is something of it at a path.
      source: Opens what is to be read.
      target: Prepares what is to be written; writes nothing.
      keeps_keys: Whether tables of any keys stay what they are; else rows are numbered, unless
        dynamic tables are asked for.
      in_parts: Whether several paths may have the parts of tables.
      ending: What follows the path in the name of a file that is there if anything is.
    """

    is_at: Callable[[str], bool]
    source: Callable[[Request], Source]
    target: Callable[[Request, Source], Target]
    keeps_keys: bool = False
    in_parts: bool = False
    ending: str = ""


def has_file(path: str, ending: str) -> bool:
    """Whether a path is a folder with a file of some ending."""
    return os.path.isdir(path) and any(name.endswith(ending) for name in os.listdir(path))
