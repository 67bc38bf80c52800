"""Memory of one server and of two, of a DLRM: with variables, and with tables mapped from files.

memory_mb               of all processes: pages that both have in memory count once
tables_mb               of the mapped tables alone
tables_two_over_one     the same of two processes, as a part of that of one
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy as np

from tools.bench.records import Goal, Outcome, Record, from_runs
from tools.bench.serving.models import FULL, MODELS, QUICK, export
from tools.bench.serving.server import Server

MODEL = "dlrm"
SERVERS = (1, 2)
GOAL = Goal("<=", 1.1)
_READ_AHEAD = 0.99  # of the tables; the rest are their files' first pages


def measure(quick: bool) -> Outcome:
    """Measures both."""
    import graph_opt

    sizes = QUICK if quick else FULL
    records: List[Record] = []
    with tempfile.TemporaryDirectory() as folder:
        model, request = str(Path(folder) / "model"), str(Path(folder) / "request.npz")
        export(MODEL, sizes, Path(model))
        whole = MODELS[MODEL].request(sizes)
        np.savez(request, **{name: values[:32] for name, values in whole.items()})
        for mode, is_mapped in (("exported", False), ("mapped", True)):
            served = str(Path(folder) / mode)
            written = graph_opt.export_fused(model, served, map_tables=is_mapped)
            arguments = [served, ",".join(written.fused_tags), written.library, request]
            files = (Path(served) / "assets" / "graph_opt_tables").glob("*.table")
            size = sum(file.stat().st_size for file in files) if is_mapped else 0
            records.extend(_records(mode, _memory(arguments, size)))
    return Outcome(tuple(records))


def _memory(arguments: List[str], table_bytes: int) -> Dict[int, Dict[str, float]]:
    """Bytes of one server, and of two."""
    found: Dict[int, Dict[str, float]] = {}
    with contextlib.ExitStack() as stack:
        servers: List[Server] = []
        for count in SERVERS:
            servers.append(stack.enter_context(Server(arguments)))
            while servers[-1].memory()["resident_tables"] < _READ_AHEAD * table_bytes:
                pass  # They are read ahead aside.
            each = [server.memory() for server in servers]
            found[count] = {key: float(sum(one[key] for one in each)) for key in each[0]}
    return found


def _records(mode: str, memory: Dict[int, Dict[str, float]]) -> Iterator[Record]:
    def record(figure: str, value: float, **named: Any) -> Record:
        return from_runs(figure, workload=MODEL, mode=mode, runs=[value], **named)

    for count, bytes_of in memory.items():
        params = {"servers": count}
        yield record("memory_mb", bytes_of["process"] / 1e6, unit="MB", params=params)
        if mode == "mapped":
            yield record("tables_mb", bytes_of["tables"] / 1e6, unit="MB", params=params)
    if mode == "mapped":
        ratio = memory[SERVERS[-1]]["tables"] / memory[SERVERS[0]]["tables"]
        yield record("tables_two_over_one", ratio, params={}, goal=GOAL)
