"""What ranks have trained, put together as the variables of one process."""

from __future__ import annotations

from pathlib import Path
from typing import List

import numpy as np

from tools.bench.workloads.scoring import Score, evaluate_weights
from tools.bench.workloads.workload import Workload, evaluation_graph

_TABLE = "table:"  # before the name of its column
_EMBEDDING = "/{}_embedding/embedding_weights:0"


def score_of_ranks(workload: Workload, folder: Path, mode: str, ranks: int) -> Score:
    """Scores what the ranks of a mode have written, with TensorFlow's own lookups.

    Args:
      workload: what they trained on.
      folder: where `rank.py --keep-weights` has written.
      mode: the mode.
      ranks: how many there were.
    """
    parts = []
    for rank in range(ranks):
        with np.load(str(folder / "{}.{}.npz".format(mode, rank))) as file:
            parts.append({name: file[name] for name in file.files})
    whole = {name: value for name, value in parts[0].items() if not name.startswith(_TABLE)}
    graph, _, _ = evaluation_graph(workload)
    names = [variable.name for variable in graph.get_collection("trainable_variables")]
    for name in parts[0]:
        if name.startswith(_TABLE):
            ending = _EMBEDDING.format(name[len(_TABLE) :])
            (variable,) = (each for each in names if each.endswith(ending))
            whole[variable] = _joined([part[name] for part in parts])
    return evaluate_weights(workload, whole)


def _joined(parts: List[np.ndarray]) -> np.ndarray:
    """A table of whose rows rank r has every N-th, from row r on."""
    table = np.empty((sum(map(len, parts)), parts[0].shape[1]), parts[0].dtype)
    for rank, part in enumerate(parts):
        table[rank :: len(parts)] = part
    return table
