"""A model in all the ways in which it is exported, in a folder that other processes read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

from tools.bench.records import Outcome
from tools.bench.serving import frozen
from tools.bench.serving.models import FULL, MODELS, QUICK, export

STOCK, EXPORTED, REPEATED = "stock", "exported", "repeated"
_LIST = "exports.json"


class Exports(NamedTuple):
    """What is in a folder.

    Attributes:
      row_bytes: Bytes of tables that a request of one row reads, on average.
      library: The ops of fused lookups.
      tags: Of the graph, by the mode whose name its SavedModel has.
    """

    row_bytes: float
    library: str
    tags: Dict[str, List[str]]


def write(name: str, quick: bool, folder: str) -> Outcome:
    """Exports a model, by a process that then has all ops of graph_opt; there are no figures."""
    import graph_opt

    made, stock = MODELS[name], str(Path(folder) / STOCK)
    row_bytes = export(name, QUICK if quick else FULL, Path(stock))
    options: Dict[str, Dict[str, Any]] = {EXPORTED: {}}
    model = stock
    if made.is_frozen:
        graph = frozen.read(Path(stock))
        model, options[EXPORTED] = graph.path, {"inputs": graph.inputs, "outputs": graph.outputs}
    if made.repeated:
        options[REPEATED] = {"repeated": made.repeated}
    options.update((dtype, {"table_dtype": dtype}) for dtype in made.table_dtypes)
    exports = Exports(row_bytes, "", {STOCK: ["serve"]})
    for mode, given in options.items():
        written = graph_opt.export_fused(model, str(Path(folder) / mode), **given)
        exports.tags[mode] = list(written.fused_tags)
        exports = exports._replace(library=written.library)
    (Path(folder) / _LIST).write_text(json.dumps(exports._asdict()), encoding="utf-8")
    return Outcome(())


def read(folder: str) -> Exports:
    """What `write` has written."""
    return Exports(**json.loads((Path(folder) / _LIST).read_text(encoding="utf-8")))
