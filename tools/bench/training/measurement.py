"""Timing stock and optimized training alternately, and the floor that no schedule can go below.

    python -m tools.bench.training.measurement --workload dlrm --ps --delay-ms 1 --rounds 5

prints one JSON object. Each call is a process of its own, since TensorFlow's gRPC server lives as
long as the process it is in.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
from typing import Any, Dict, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from tools.bench import machine
from tools.bench.argument_types import count, positive
from tools.bench.training import flags as shared_flags
from tools.bench.training.contenders import (
    FLOORS,
    LOOKUPS_ALONE,
    MAIN_ALONE,
    Contender,
    Setting,
    Turns,
    open_alone,
    open_halves,
)
from tools.bench.training.overlap import Seconds
from tools.bench.training.sessions import ASYNC, SERVER_MODES, STOCK
from tools.bench.turns import Schedule, run_in_turns

MILLISECONDS = 1000.0


class Figures(NamedTuple):
    """Medians over the turns; None where a contender took no part.

    Attributes:
      seconds: wall seconds per step, by contender.
      cpu_seconds: CPU seconds per step of all processes, by contender.
      ratios_to_stock: stock seconds over those of the other modes, by mode.
      floor: of mode "async": the longest of main alone, lookups alone and CPU seconds over cores.
      overlap_efficiency: (stock - async) / (stock - floor); None where stock is at the floor.
    """

    seconds: Dict[str, float]
    cpu_seconds: Dict[str, float]
    ratios_to_stock: Dict[str, float]
    floor: Optional[float]
    overlap_efficiency: Optional[float]


def figures(turns: Turns, cores: Optional[int] = None) -> Figures:
    """The figures that follow from the turns.

    Args:
      turns: as `run_in_turns` returns them; of one or two calls merged.
      cores: CPU cores that all processes share; None: those that this process may use.
    """
    seconds = {
        name: statistics.median(turn.seconds_per_step for turn in runs)
        for name, runs in turns.items()
    }
    cpu = {
        name: statistics.median(turn.cpu_seconds_per_step for turn in runs)
        for name, runs in turns.items()
    }
    ratios = {
        mode: seconds[STOCK] / seconds[mode]
        for mode in SERVER_MODES
        if STOCK in seconds and mode != STOCK and mode in seconds
    }
    floor = None
    efficiency = None
    if ASYNC in ratios and MAIN_ALONE in seconds and LOOKUPS_ALONE in seconds:
        # The work that must be done, by the leaner of the two.
        on_all_cores = min(cpu[STOCK], cpu[ASYNC]) / (cores or machine.cores())
        stock, ahead, main, lookups = map(
            seconds.__getitem__, (STOCK, ASYNC, MAIN_ALONE, LOOKUPS_ALONE)
        )
        overlap = Seconds(stock, ahead, main, lookups, on_all_cores)
        floor = overlap.floor
        efficiency = overlap.efficiency if stock > floor else None
    return Figures(seconds, cpu, ratios, floor, efficiency)


def measure(
    setting: Setting, schedule: Schedule, modes: Sequence[str] = (STOCK, ASYNC) + FLOORS
) -> Turns:
    """Opens contenders and runs them alternately.

    Args:
      setting: what and where.
      schedule: how often and how long.
      modes: contenders to run; the halves need "async" among them.

    Returns:
      The timed turns of each, by name.

    Example:
      >>> turns = measure(Setting(workload, servers=1, delay_ms=1.0), Schedule())
      >>> figures(turns).ratios_to_stock["async"]
      1.21
    """
    if ASYNC not in modes and any(mode in FLOORS for mode in modes):
        raise ValueError(f"modes {', '.join(FLOORS)} are cut from mode {ASYNC}: add it")
    opened: Dict[str, Contender] = {}
    with contextlib.ExitStack() as stack:
        for mode in (mode for mode in modes if mode not in FLOORS):
            opened[mode] = trainer = stack.enter_context(open_alone(setting, mode))
            if mode == ASYNC and any(mode in FLOORS for mode in modes):
                assert trainer.training is not None
                halves = open_halves(setting, trainer.training, trainer.cluster)
                opened.update(stack.enter_context(halves))
        return run_in_turns([opened[mode] for mode in modes], schedule)


def as_json(turns: Turns, found: Figures) -> Dict[str, Any]:
    """Plain dicts, lists and numbers; times in seconds."""
    runs = {
        name: [
            {
                "seconds_per_step": turn.seconds_per_step,
                "cpu_seconds_per_step": {
                    role: used / turn.steps for role, used in turn.cpu_seconds.items()
                },
                "buffers": turn.buffers,
            }
            for turn in taken
        ]
        for name, taken in turns.items()
    }
    return {"figures": found._asdict(), "turns": runs}


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Measures as the command line says and prints JSON; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser, workload = shared_flags.workload_parser(
        arguments, "Time stock and optimized training alternately."
    )
    defaults = Schedule()
    parser.add_argument(
        "--modes",
        nargs="+",
        choices=SERVER_MODES + FLOORS,
        default=[STOCK, ASYNC, *FLOORS],
        metavar="MODE",
        help=", ".join(SERVER_MODES + FLOORS),
    )
    parser.add_argument("--rounds", type=positive, default=defaults.rounds)
    parser.add_argument("--warm-up", type=count, default=defaults.warm_up)
    parser.add_argument("--settle", type=count, default=defaults.settle)
    shared_flags.add_training_flags(parser, steps=defaults.steps)
    given = parser.parse_args(arguments)
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    job = shared_flags.job_from_flags(workload.workload_from_flags(given), given)
    setting = Setting(job.workload, job.learning, job.session, job.servers, job.delay_ms)
    schedule = Schedule(given.rounds, given.steps, given.warm_up, given.settle)
    turns = measure(setting, schedule, given.modes)
    print(json.dumps(as_json(turns, figures(turns)), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
