"""Runs benchmarks: `python -m tools.bench [--quick] [--busy] [--output FOLDER] [NAME...]`.

Without names all of them run, each in a process of its own, so that none inherits another's
threads and memory, and one that fails leaves the others' figures. A run of all that was stopped
continues: what the same code has measured on the same machine is not measured again.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Dict, Optional, Sequence

import tensorflow.compat.v1 as tf

from tools.bench import charts, records
from tools.bench.foreign_load import BusyMachineError, watched
from tools.bench.machine import machine
from tools.bench.source import source


def _run_of(module: str) -> Callable[[bool], records.Outcome]:
    """The function `run` of a module of this package, which is imported when it is called."""

    def run(quick: bool) -> records.Outcome:
        imported = importlib.import_module("tools.bench." + module)
        outcome: records.Outcome = imported.run(quick)
        return outcome

    return run


# The order is that of a whole run: what is quick comes first.
BENCHES: Dict[str, Callable[[bool], records.Outcome]] = {
    "buffer": _run_of("buffer"),
    "stock_trap": _run_of("stock_trap"),
    "overhead": _run_of("overhead.benchmark"),
    "staleness": _run_of("staleness"),
    "pass": _run_of("pass_growth"),
    "group_lookup": _run_of("group_lookup"),
    "dynamic": _run_of("dynamic_tables.benchmark"),
    "adam": _run_of("adam.benchmark"),
    "collectives": _run_of("collectives.benchmark"),
    "scaling": _run_of("scaling.benchmark"),
    "deeprec": _run_of("deeprec.benchmark"),
    "accuracy": _run_of("accuracy.benchmark"),
    "tuning": _run_of("tuning.benchmark"),
    "serving": _run_of("serving.benchmark"),
    "train": _run_of("training.run_contest"),
    "server_scaling": _run_of("server_scaling.benchmark"),
}
OUTPUT = Path("build/bench")
LIMIT_SECONDS = 3000.0  # a benchmark that hangs must not keep the others from running


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the benchmarks named; 0 if all of them came to figures, whatever these are."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench", description="Prints tables and writes JSON files."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only tries that it works")
    parser.add_argument(
        "--busy",
        action="store_true",
        help="keep figures of rounds beside which other processes used the machine",
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the JSON files")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(
            "no benchmark is called {}; there are {}".format(
                " or ".join(unknown), ", ".join(BENCHES)
            )
        )
    tf.logging.set_verbosity(tf.logging.ERROR)  # every TF1 name is deprecated: that is known here
    if len(options.names) == 1:
        try:
            measure(options.names[0], options.quick, options.output, options.busy)
        except BusyMachineError as error:
            print("error: {}".format(error), file=sys.stderr)
            return 1
        return 0
    names = options.names or [
        name for name in BENCHES if options.quick or not is_measured(name, options.output)
    ]
    failed = [name for name in names if not _run_separately(name, options)]
    if failed:
        print("failed: {}".format(", ".join(failed)), file=sys.stderr)
    return 1 if failed else 0


def measure(name: str, quick: bool, output: Path, busy: bool = False) -> records.Outcome:
    """Runs one benchmark here, prints its table and writes its file.

    Args:
        name: one of `BENCHES`.
        quick: tiny sizes; the figures mean nothing.
        output: folder of the JSON file, made if missing.
        busy: whether figures count although other processes used the machine.

    Raises:
        BusyMachineError: they did, and in every attempt at a round.
    """
    print("==> {}{}".format(name, " (quick: these figures mean nothing)" if quick else ""))
    started, code = time.monotonic(), source()
    with watched(refuses=not (quick or busy)) as rounds:
        outcome = BENCHES[name](quick)
    path = output / "{}.json".format(name)
    records.write(path, name, outcome, rounds, {**code, "quick": True} if quick else code)
    print(records.table(outcome))
    for written in [path, *charts.write(name, outcome, output)]:
        print("==> {}".format(written))
    print("==> {:.0f} s".format(time.monotonic() - started), flush=True)
    return outcome


def is_measured(name: str, output: Path) -> bool:
    """Whether there are figures of this code on this machine; says so if there are."""
    path = output / "{}.json".format(name)
    if not path.exists():
        return False
    found = json.loads(path.read_text(encoding="utf-8"))
    if found.get("source", {}) != source() or found["machine"] != machine():
        return False
    print("==> {}: {} is of this code and machine; remove it to measure again".format(name, path))
    return True


def _run_separately(name: str, options: argparse.Namespace) -> bool:
    command = [sys.executable, "-m", "tools.bench", name, "--output", str(options.output)]
    command += [flag for flag in ("--quick", "--busy") if vars(options)[flag[2:]]]
    try:
        return subprocess.run(command, timeout=LIMIT_SECONDS, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        print("{} took more than {:.0f} s".format(name, LIMIT_SECONDS), file=sys.stderr)
        return False


if __name__ == "__main__":
    sys.exit(main())
