"""Requests of 1, 32 and 512 rows by one client and by two: how long they take, and how many.

    stock      TensorFlow, with the exported graph
    xla        the same, compiled by XLA where it can, of some models
    session    a frozen graph in graph_opt.Session, with fuse_inference
    exported   the graph that graph_opt.export_fused wrote, in TensorFlow's session
    mapped     the same with its tables in mapped files, of which memory alone is measured
    repeated   the same, with what is the same in all rows computed once, where a model says so
    int8       exported with tables of int8, and likewise float16, where a model says so

Of a frozen graph, `exported` is made of its file, so that its tables are variables again. It is
measured with 1 row and 512, by one client.

All but `session` are open in one process, which like a server has the ops of fused lookups alone:
with graph_opt's own library, TensorFlow would catch up rows before it reads variables. They take
turns; a client is a thread that sends one request after another. Where a record has "client": "c",
requests are sent through TensorFlow's C API, as by a server (`c_session.py`), and with "client":
"python", by `Session.run`, by one client alone, as two would wait for each other in Python.
Sessions take turns with TensorFlow in a process of their own. Figures:

    latency_p50_ms, latency_p99_ms   of a request
    rows_per_s                       of all clients
    p50_over_stock, rows_over_stock  how many times as fast as stock, in each round
    p50_over_exported                of tables of low precision: as fast as those of float32

The floor of a latency has the rows of tables at the speed of memory, plus the dense layers alone on
rows that are fed, with all other feeds.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from tools.bench.adam.traffic import MemoryCopy
from tools.bench.process_outcome import PartFailed, nothing_of, outcome_of_process, with_figures
from tools.bench.records import Goal, Outcome, Record, from_runs
from tools.bench.serving import exports, memory
from tools.bench.serving.c_session import CSession
from tools.bench.serving.exports import EXPORTED, STOCK
from tools.bench.serving.models import FULL, MODELS, QUICK, Arrays
from tools.bench.turns import in_turns, ratios, seconds_per_call

LIMIT_SECONDS = 900.0
ROWS = (1, 32, 512)
CLIENTS = (1, 2)
_FROZEN_ROWS, _FROZEN_CLIENTS = (1, 512), (1,)
_TRIED = ("wide", "din_one_user", "functions", "wide_frozen")
_XLA_FLAGS = "--tf_xla_cpu_global_jit"  # XLA leaves CPUs alone without it

_XLA, _SESSION = "xla", "session"
_IN_C = "c "  # in front of a mode

P50_GOALS = {("wide", 1): Goal(">=", 4.0), ("dlrm", 1): Goal(">=", 1.5)}
RATE_GOALS = {("wide", 512): Goal(">=", 3.0)}
REPEATED_GOALS = {("din_one_user", 512): Goal(">=", 3.0)}

Call = Callable[[], Any]
Goals = Dict[Tuple[str, int], Goal]


class Effort(NamedTuple):
    """How long is measured: rounds, and the seconds of a turn."""

    rounds: int
    seconds: float


class Turn(NamedTuple):
    """What clients saw in a turn: seconds of each request, and rows a second of all."""

    latencies: Sequence[float]
    rows_per_s: float


def run(quick: bool = False) -> Outcome:
    """Measures all models; `quick` tries some of them."""
    outcome = Outcome(())
    for name in _TRIED if quick else MODELS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                in_session = (measure_session,) if MODELS[name].is_frozen else ()
                for part in (exports.write, measure, *in_session):
                    outcome += outcome_of_process(part, [name, quick, folder], LIMIT_SECONDS)
            except PartFailed as error:
                outcome += nothing_of((name, EXPORTED, {}), ["p50_over_stock"], error)
    try:
        outcome += outcome_of_process(memory.measure, [quick], LIMIT_SECONDS)
    except PartFailed as error:
        outcome += nothing_of((memory.MODEL, "mapped", {}), ["tables_two_over_one"], error)
    return with_figures(outcome)


def measure(name: str, quick: bool, folder: str) -> Outcome:
    """Measures one model in all modes that need no more than the ops of fused lookups."""
    os.environ["TF_XLA_FLAGS"] = _XLA_FLAGS
    written = exports.read(folder)
    tf.load_op_library(written.library)
    opened = {
        mode: _open(tf.Session, None, tags, str(Path(folder) / mode))
        for mode, tags in written.tags.items()
    }
    if MODELS[name].with_xla:
        compiled = tf.ConfigProto()
        compiled.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
        opened[_XLA] = _open(tf.Session, compiled, written.tags[STOCK], str(Path(folder) / STOCK))
    return _measured(name, quick, opened, written.row_bytes)


def measure_session(name: str, quick: bool, folder: str) -> Outcome:
    """Measures a frozen graph in a session that fuses its lookups."""
    import graph_opt

    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = True
    options.group_embedding_options.fuse_inference = True
    written, stock = exports.read(folder), str(Path(folder) / STOCK)
    tags = written.tags[STOCK]
    opened = {
        STOCK: _open(tf.Session, None, tags, stock),
        _SESSION: _open(graph_opt.Session, config, tags, stock),
    }
    found = _measured(name, quick, opened, written.row_bytes)
    return Outcome(tuple(record for record in found.records if record.mode == _SESSION))


def _measured(name: str, quick: bool, opened: Dict[str, Any], row_bytes: float) -> Outcome:
    is_frozen = MODELS[name].is_frozen
    sizes, effort = FULL, Effort(5, 0.08)
    if quick:
        sizes, effort = QUICK, Effort(2, 0.0)
    records: List[Record] = []
    with contextlib.ExitStack() as stack:
        sessions = {mode: stack.enter_context(each) for mode, each in opened.items()}
        whole = MODELS[name].request(sizes)
        bandwidth = MemoryCopy().bytes_per_s(0.02 if quick else 1.0)
        for rows in _FROZEN_ROWS if is_frozen else ROWS:
            request = {key: array[:rows] for key, array in whole.items()}
            calls = _calls(sessions, request, MODELS[name].table_dtypes)
            floor = _floor(sessions[STOCK], row_bytes, request, bandwidth, quick)
            for clients in _FROZEN_CLIENTS if is_frozen else CLIENTS:
                contestants = {
                    mode: functools.partial(_turn, call, clients, rows, effort.seconds)
                    for mode, call in calls.items()
                    if clients == 1 or mode.startswith(_IN_C)
                }
                if contestants:
                    turns = in_turns(contestants, effort.rounds, swaps=True)
                    records.extend(_records(name, rows, clients, turns, floor))
    return Outcome(tuple(records))


class _Open(NamedTuple):
    """An export in a session; `dense` is the signature of its dense layers alone, if it has one.

    `in_c` is the same in a session of TensorFlow's C API.
    """

    session: Any
    signature: Any
    dense: Optional[Any]
    in_c: CSession

    def tensor(self, info: Any) -> Any:
        """A tensor of a signature."""
        return self.session.graph.get_tensor_by_name(info.name)


@contextlib.contextmanager
def _open(make: Any, config: Any, tags: List[str], folder: str) -> Iterator[_Open]:
    graph = tf.Graph()
    with make(graph=graph, config=config) as session, CSession(folder, tags) as in_c:
        meta_graph = tf.saved_model.loader.load(session, tags, folder)
        signatures = dict(meta_graph.signature_def)
        yield _Open(session, signatures["serving_default"], signatures.get("dense"), in_c)


def _calls(sessions: Dict[str, _Open], request: Arrays, low: Sequence[str]) -> Dict[str, Call]:
    """What sends a request to each mode, by mode: through the C API with `_IN_C` before it."""
    calls = {mode: _call(opened, request) for mode, opened in sessions.items() if mode not in low}
    if _SESSION in sessions:
        return calls
    in_c = {mode: opened for mode, opened in sessions.items() if mode != _XLA}
    return {**calls, **{_IN_C + mode: _c_call(opened, request) for mode, opened in in_c.items()}}


def _call(opened: _Open, request: Arrays) -> Call:
    """Sends a request by Python, without looking up tensors by name each time."""
    names = sorted(request)
    feeds = [opened.tensor(opened.signature.inputs[name]) for name in names]
    scores = opened.tensor(opened.signature.outputs["scores"])
    send = opened.session.make_callable([scores], feeds)
    return functools.partial(send, *[request[name] for name in names])


def _c_call(opened: _Open, request: Arrays) -> Call:
    inputs, outputs = opened.signature.inputs, opened.signature.outputs
    feeds = {inputs[name].name: array for name, array in sorted(request.items())}
    return opened.in_c.call(outputs["scores"].name, feeds)


def _turn(call: Call, clients: int, rows: int, seconds: float) -> Turn:
    call()
    latencies: List[float] = []
    started = time.perf_counter()
    end = started + seconds

    def send() -> None:
        taken: List[float] = []
        while not taken or time.perf_counter() < end:
            before = time.perf_counter()
            call()
            taken.append(time.perf_counter() - before)
        latencies.extend(taken)

    threads = [threading.Thread(target=send) for _ in range(clients - 1)]
    for thread in threads:
        thread.start()
    send()
    for thread in threads:
        thread.join()
    return Turn(latencies, len(latencies) * rows / (time.perf_counter() - started))


def _floor(
    opened: _Open, row_bytes: float, request: Arrays, bandwidth: float, quick: bool
) -> float:
    """Seconds of the dense layers on rows that are fed, and of reading the rows from memory."""
    rows = len(next(iter(request.values())))
    signature = opened.signature
    inputs = {signature.inputs[name].name: array for name, array in request.items()}
    looked_up = signature.outputs["rows"].name
    values = opened.session.run(looked_up, inputs)
    if opened.dense is None:
        fed, scores = {looked_up: values, **inputs}, signature.outputs["scores"]
    else:
        fed, scores = {opened.dense.inputs["rows"].name: values}, opened.dense.outputs["scores"]
    call = opened.in_c.call(scores.name, fed)
    seconds = seconds_per_call(call, 0.0 if quick else 0.5, burn_in=5)
    return seconds + rows * row_bytes / bandwidth


def _records(
    name: str, rows: int, clients: int, turns: Dict[str, List[Turn]], floor: float
) -> Iterator[Record]:
    medians = {mode: [_percentile(turn, 50) for turn in taken] for mode, taken in turns.items()}
    rates = {mode: [turn.rows_per_s for turn in taken] for mode, taken in turns.items()}
    for label, taken in turns.items():
        prefix = _IN_C if label.startswith(_IN_C) else ""
        mode, stock = label[len(prefix) :], prefix + STOCK
        params = {"rows": rows, "clients": clients, "client": "c" if prefix else "python"}
        record = functools.partial(from_runs, workload=name, mode=mode, params=params)
        runs, least = medians[label], 1e3 * floor if prefix else None
        yield record("latency_p50_ms", runs=runs, unit="ms", floor=least)
        tails = [_percentile(turn, 99) for turn in taken]
        yield record("latency_p99_ms", runs=tails, unit="ms")
        yield record("rows_per_s", runs=rates[label], unit="1/s")
        if mode == STOCK:
            continue
        if mode in MODELS[name].table_dtypes:
            over = ratios(medians[_IN_C + EXPORTED], medians[label])
            yield record("p50_over_exported", runs=over)
        p50_goals, rate_goals = _goals(mode, clients) if prefix else ({}, {})
        yield record(
            "p50_over_stock",
            runs=ratios(medians[stock], medians[label]),
            goal=p50_goals.get((name, rows)),
        )
        yield record(
            "rows_over_stock",
            runs=ratios(rates[label], rates[stock]),
            goal=rate_goals.get((name, rows)),
        )


def _goals(mode: str, clients: int) -> Tuple[Goals, Goals]:
    """Goals of latency and of throughput, by model and number of rows."""
    if clients == 1 and mode == EXPORTED:
        return P50_GOALS, RATE_GOALS
    if clients == 1 and mode == exports.REPEATED:
        return REPEATED_GOALS, {}
    return {}, {}


def _percentile(turn: Turn, percent: float) -> float:
    """In milliseconds."""
    return 1e3 * float(np.percentile(turn.latencies, percent))
