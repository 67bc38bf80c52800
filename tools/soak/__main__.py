"""`make soak`: trains on a cluster whose tasks are killed at random, and counts batches.

python -m tools.soak --seconds 600 --seed 1
"""

from __future__ import annotations

import argparse
import functools
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional

import tqdm

from tools.soak.batch_notes import ProcessNotes, read_notes, violations
from tools.soak.training_cluster import TrainingCluster

_SERVERS, _WORKERS = 2, 3
_TASKS = ["chief", "worker 0", "worker 1"]
_KILLED = ["ps 0", "ps 1", "chief", "worker 0", "worker 1"]
_PAUSE_SECONDS = (5.0, 20.0)  # between a recovery and the next kill
_BATCHES_AFTER = 20  # that every worker must use before a task counts as recovered
_RECOVERY_SECONDS = 180.0
_END_SECONDS = 60.0
_INTERRUPTED = 130
_BAR = "soak: {percentage:3.0f}%|{bar}| {elapsed}, {remaining} left"


class Size(NamedTuple):
    """What a process takes."""

    megabytes: int
    threads: int


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the soak; 1 if a batch was lost or doubled, or the training did not recover."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=None, help="of the kills; default: a new one")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    text = "seed {}, {:g} s once {} servers and {} workers train"
    print(text.format(seed, options.seconds, _SERVERS, _WORKERS), flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="soak_") as folder:
            return _soak(Path(folder), random.Random(seed), options.seconds)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED


def _soak(folder: Path, choices: random.Random, seconds: float) -> int:
    flags = ["--ps", str(_SERVERS), "--workers", str(_WORKERS), "--restarts", "1000000"]
    cluster = TrainingCluster(folder, flags)
    faults = []
    try:
        _wait_for_all(cluster)
        before = _sizes(cluster)
        recoveries = _kill_for(cluster, choices, seconds)
        after = _sizes(cluster)
        cluster.end_training()
        code = cluster.wait(_END_SECONDS)
        if code:
            faults.append("graph-opt cluster ended with exit code {}".format(code))
        _print_sizes(before, after)
        print("{} recoveries".format(recoveries))
    except (TimeoutError, OSError) as error:
        faults.append(str(error))
    finally:
        cluster.close()
    notes = read_notes(folder / "batches")
    _print_batches(notes)
    faults += [fault for one in notes for fault in violations(one)]
    for fault in faults:
        print("FAILED: {}".format(fault))
    print("failed" if faults else "no batch was lost or doubled within a session's life")
    return 1 if faults else 0


def _kill_for(cluster: TrainingCluster, choices: random.Random, seconds: float) -> int:
    start = time.monotonic()
    recoveries = 0
    with tqdm.tqdm(total=seconds, bar_format=_BAR, mininterval=1.0, disable=None) as bar:

        def moved_on() -> bool:
            bar.update(min(time.monotonic() - start, seconds) - bar.n)
            return True

        def is_after(moment: float) -> bool:
            return moved_on() and time.monotonic() > moment

        while True:
            pause = choices.uniform(*_PAUSE_SECONDS)
            end = time.monotonic() + pause
            if end > start + seconds:
                bar.update(seconds - bar.n)  # There is no time for another kill.
                return recoveries
            cluster.wait_for(functools.partial(is_after, end), 2 * pause, "paused")
            task = choices.choice(_KILLED)
            cluster.kill(task)
            took = _wait_for_all(cluster, moved_on)
            recoveries += 1
            bar.write("killed {}: all train again after {:.1f} s".format(task, took))
            sys.stdout.flush()


def _wait_for_all(cluster: TrainingCluster, watch: Callable[[], bool] = lambda: True) -> float:
    """Waits until each worker has used some more batches; returns the seconds that took."""
    goals = {task: cluster.used(task) + _BATCHES_AFTER for task in _TASKS}
    return cluster.wait_for(
        lambda: watch() and all(cluster.used(task) >= goal for task, goal in goals.items()),
        _RECOVERY_SECONDS,
        "not all workers train",
    )


def _sizes(cluster: TrainingCluster) -> Dict[str, Size]:
    return {task: _size(pid) for task, pid in sorted(cluster.tasks().items())}


def _size(pid: int) -> Size:
    text = Path("/proc/{}/status".format(pid)).read_text()
    values = dict(line.split(":", 1) for line in text.splitlines())
    return Size(int(values["VmRSS"].split()[0]) // 1024, int(values["Threads"]))


def _print_sizes(before: Dict[str, Size], after: Dict[str, Size]) -> None:
    for task in before:
        if task in after:
            print(
                "{}: {} MB, {} threads at the start; {} MB, {} threads at the end".format(
                    task, *before[task], *after[task]
                )
            )


def _print_batches(notes: List[ProcessNotes]) -> None:
    for one in notes:
        print(
            "{}: {} batches used in {} sessions, {} handed out".format(
                one.name, one.used, len(one.lives), len(one.made)
            )
        )


if __name__ == "__main__":
    sys.exit(main())
