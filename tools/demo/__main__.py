"""`make demo`: DLRM trained alternately by the stock session and graph_opt's modes, and a report.

First with Adam, whose update of whole tables is what most models spend their time in. Then with
Adagrad, in all modes: everything in this process, and with the tables on a parameter server that is
a millisecond away. All sessions train copies of the same model on the same rows, A B C D A B C D,
so that whatever else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf
import tqdm

from tools.bench.argument_types import count, milliseconds, positive
from tools.bench.cluster.loopback import Cluster, start_clusters
from tools.bench.training import flags as shared_flags
from tools.bench.training.command import exit_code_of
from tools.bench.training.contenders import Contender, Setting, Turns, open_halves, open_trainer
from tools.bench.training.measurement import figures
from tools.bench.training.sessions import (
    ASYNC,
    BOTH,
    MODES,
    PREFETCHING_MODES,
    STOCK,
    SessionOptions,
)
from tools.bench.turns import Schedule, run_in_turns
from tools.bench.workloads.dlrm.workload import add_flags, workload_from_flags
from tools.bench.workloads.scoring import Score, evaluate
from tools.bench.workloads.workload import TrainingGraph, training_graph
from tools.demo.adam import AdamPart, adam_figures, adam_report, train_with_adam
from tools.demo.report import Part, report
from tools.demo.timeline import Lane, Panel, draw, optimized_lanes, stock_lanes

STEPS = 60
BUCKETS = 20000  # of each table: eight sessions' checkpoints should not fill a small disk
TRACED_STEPS = 5
ADAM_BUCKETS = 200000  # of each table
ADAM_LEARNING_RATE = 0.001
ADAM = Schedule(rounds=5, steps=16, warm_up=20, settle=2)
HALVES = Schedule(rounds=3, steps=40, warm_up=15, settle=5)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the demo as the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Train DLRM with and without graph_opt, alternately."
    )
    parser.add_argument("--rounds", type=positive, default=5, help="turns of each")
    parser.add_argument("--warm-up", type=count, default=40, help="untimed steps")
    parser.add_argument(
        "--delay-ms", type=milliseconds, default=1.0, help="to the parameter server"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("build/demo"), help="folder of the picture"
    )
    parser.add_argument(
        "--adam-buckets", type=positive, default=ADAM_BUCKETS, help="rows of a table with Adam"
    )
    parser.add_argument(
        "--adam-only",
        type=Path,
        metavar="FILE",
        help="stop after Adam, and write its figures",
    )
    add_flags(parser)
    shared_flags.add_learning_flags(parser, steps=STEPS)
    shared_flags.add_prefetching_flags(parser)
    parser.set_defaults(buckets=BUCKETS)
    flags = parser.parse_args(arguments)
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    return exit_code_of(lambda: _run(flags))


def _run(flags: argparse.Namespace) -> None:
    here = Setting(
        workload_from_flags(flags),
        shared_flags.learning_from_flags(flags),
        SessionOptions(prefetching=shared_flags.prefetching_from_flags(flags)),
    )
    adam = _adam(flags, here)
    if flags.adam_only:
        flags.adam_only.parent.mkdir(parents=True, exist_ok=True)
        flags.adam_only.write_text(json.dumps(adam_figures(adam), indent=2) + "\n", "utf-8")
        return
    schedule = Schedule(flags.rounds, flags.steps, flags.warm_up)
    parts = [
        _part("one process", here, schedule),
        _part(
            f"parameter server {flags.delay_ms:g} ms away",
            here._replace(servers=1, delay_ms=flags.delay_ms),
            schedule,
        ),
    ]
    picture = flags.output / "timeline.png"
    draw([part.panels for part in parts], picture)
    print(report(parts, flags))
    print(f"timeline of {TRACED_STEPS} steps: {picture}")


def _adam(flags: argparse.Namespace, here: Setting) -> AdamPart:
    """Trains with Adam and prints what came of it: the first figures that a user sees."""
    larger = argparse.Namespace(**dict(vars(flags), buckets=flags.adam_buckets))
    setting = here._replace(
        workload=workload_from_flags(larger),
        learning=here.learning._replace(optimizer="adam", learning_rate=ADAM_LEARNING_RATE),
    )
    schedule = ADAM._replace(rounds=flags.rounds, steps=min(ADAM.steps, flags.steps))
    part = train_with_adam(setting, schedule, _in_turns)
    title = (
        f"DLRM with Adam: 26 tables of {flags.adam_buckets} x {flags.dimension}, "
        f"batch {flags.batch}"
    )
    print(adam_report(part, title), flush=True)
    return part


def _part(title: str, setting: Setting, schedule: Schedule) -> Part:
    """Trains in all modes alternately, then times the halves alone, then scores all."""
    import graph_opt

    with contextlib.ExitStack() as stack:
        clusters: Dict[str, Cluster] = {}
        graphs: Dict[str, TrainingGraph] = {}
        started = start_clusters(len(MODES), setting.servers, setting.delay_ms)
        for mode, cluster in zip(_told(MODES, "graphs"), stack.enter_context(started)):
            clusters[mode] = cluster
            graphs[mode] = training_graph(setting.workload, setting.learning, cluster)
        folders = {mode: stack.enter_context(tempfile.TemporaryDirectory()) for mode in MODES}
        turns, panels = _train(title, setting, schedule, clusters, graphs, folders)
        with open_halves(setting, graphs[ASYNC], clusters[ASYNC]) as halves:
            turns.update(_in_turns(f"{title}: halves", list(halves.values()), HALVES))
        scores: Dict[str, Score] = {
            mode: evaluate(setting.workload, folders[mode]) for mode in _told(MODES, "scores")
        }
    return Part(title, turns, figures(turns), scores, graph_opt.report(graphs[BOTH].graph), panels)


def _train(
    title: str,
    setting: Setting,
    schedule: Schedule,
    clusters: Dict[str, Cluster],
    graphs: Dict[str, TrainingGraph],
    folders: Dict[str, str],
) -> Tuple[Turns, List[Panel]]:
    """Timed turns, then traced steps of all sessions; their checkpoints go to `folders`."""
    import graph_opt

    with contextlib.ExitStack() as stack:
        contenders = {
            mode: stack.enter_context(
                open_trainer(
                    setting,
                    mode,
                    graphs[mode],
                    clusters[mode],
                    hooks=[graph_opt.train.StepTraceHook()] if mode in PREFETCHING_MODES else [],
                    directory=folders[mode],
                )
            )
            for mode in MODES
        }
        turns = _in_turns(title, list(contenders.values()), schedule)
        panels = [
            Panel(f"{mode}, {title}", _lanes(contender, graphs))
            for mode, contender in contenders.items()
        ]
    return turns, panels


def _lanes(contender: Contender, graphs: Dict[str, TrainingGraph]) -> List[Lane]:
    """Traced steps. Without prefetch, lookups are what the same mode would run ahead with it."""
    import graph_opt

    if contender.name in PREFETCHING_MODES:
        return optimized_lanes(contender, TRACED_STEPS)
    found = graph_opt.report(graphs[ASYNC if contender.name == STOCK else BOTH].graph)
    moved = found.hidden if found is not None else frozenset()
    return stock_lanes(contender, graphs[contender.name].train_op, moved, TRACED_STEPS)


def _in_turns(title: str, contenders: Sequence[Contender], schedule: Schedule) -> Turns:
    steps_each = schedule.warm_up + schedule.rounds * (schedule.settle + schedule.steps)
    total = steps_each * len(contenders)
    with tqdm.tqdm(total=total, unit="step", mininterval=0.5, disable=None) as bar:

        def before_turn(name: str, round_: int) -> None:
            bar.set_description(f"{name} {round_ + 1}/{schedule.rounds}")

        if not bar.disable:  # In a line of its own, which leaves the bar room.
            bar.write(title, file=sys.stderr)
        bar.set_description("warm-up")
        counted = [_counted(contender, bar) for contender in contenders]
        return run_in_turns(counted, schedule, before_turn)


def _told(modes: Sequence[str], what: str) -> Iterable[str]:
    """The modes one after the other, with a bar that tells what is made of them."""
    told: Iterable[str] = tqdm.tqdm(modes, desc=what, unit="mode", leave=False, disable=None)
    return told


def _counted(contender: Contender, bar: tqdm.tqdm) -> Contender:
    def step() -> None:
        contender.step()
        bar.update()

    return contender._replace(step=step)


if __name__ == "__main__":
    sys.exit(main())
