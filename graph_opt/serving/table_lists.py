"""Where an export and its updates have the files of tables.

    SERVED/assets/graph_opt_tables.txt       lists the files in SERVED/assets/graph_opt_tables
    SERVED/updates/3/graph_opt_tables.txt    lists those of an update
    SERVED/updates/newest                    names the update that servers start from

`ops_src/kernels/served/served_tables.cc` reads the same. A list has the id of the export, which its
updates have, too, and then the path of a file in each line.
"""

from __future__ import annotations

import os
import re
from typing import List, NamedTuple, Sequence

from graph_opt.compat import tf
from graph_opt.saved_models.files import ASSETS

ASSET = "graph_opt_tables.txt"
"""Name of a list; that of an export is an asset of the SavedModel."""
FILES = "graph_opt_tables"
UPDATES = "updates"
NEWEST = "newest"
UPDATE_SIGNATURE = "update_tables"
"""The signature by which a server gets an update."""

_HEAD = "graph_opt tables 1 "


class TableList(NamedTuple):
    """Files of tables.

    Attributes:
      export_id: Of the export that they belong to.
      paths: The files.
    """

    export_id: str
    paths: Sequence[str]


def file_name(number: int, table: str) -> str:
    """What the file of a table is called."""
    return "{:04d}-{}.table".format(number, re.sub("[^A-Za-z0-9_.-]", "_", table)[:100])


def write_list(path: str, export_id: str, files: Sequence[str]) -> None:
    """Writes a list; paths of files are relative to its folder."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in (_HEAD + export_id, *files)))
        file.flush()
        os.fsync(file.fileno())


def read_list(path: str) -> TableList:
    """Reads a list.

    Raises:
      FileNotFoundError: There is no such file.
      ValueError: It is no list.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        head, *lines = file.read().splitlines() or [""]
    if not head.startswith(_HEAD):
        raise ValueError("{} is no list of table files".format(path))
    folder = os.path.dirname(path)
    return TableList(head[len(_HEAD) :], [os.path.join(folder, line) for line in lines if line])


def export_list(served: str) -> TableList:
    """The files of an export.

    Raises:
      tf.errors.InvalidArgumentError: It has none, or the list is damaged.
    """
    path = os.path.join(served, ASSETS, ASSET)
    try:
        return read_list(path)
    except FileNotFoundError as error:
        raise _invalid(
            "{}: has no mapped tables; give a folder that graph-opt export wrote with --map-tables "
            "or --table-dtype".format(served)
        ) from error
    except (OSError, ValueError) as error:
        text = "{}: cannot be read, export again: {}"
        raise _invalid(text.format(path, getattr(error, "strerror", None) or error)) from error


def update_numbers(served: str) -> List[int]:
    """Numbers of the updates in an export's folder, ascending."""
    folder = os.path.join(served, UPDATES)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(int(name) for name in names if name.isdigit())


def _invalid(message: str) -> Exception:
    return tf.errors.InvalidArgumentError(None, None, message)
