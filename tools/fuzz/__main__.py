"""`make fuzz`: tries random models of all kinds, with fresh seeds, until time is out.

python -m tools.fuzz --seconds 600 --seed 1 --kinds fused,exact --models 2000
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, Iterator, List, Optional

from tools.fuzz.job import Failure, Job, Work, command_of
from tools.fuzz.properties import properties_in

_MODELS_OF_A_JOB = 100  # so many that importing TensorFlow costs less than they do
_POLL_SECONDS = 0.1


class _Tally:
    """What has been done.

    Attributes:
      models, seconds: By kind.
      failures: In the order in which they were found.
    """

    def __init__(self, kinds: List[str]) -> None:
        self.models = dict.fromkeys(kinds, 0)
        self.seconds = dict.fromkeys(kinds, 0.0)
        self.failures: List[Failure] = []

    def add(self, job: Job, was_stopped: bool) -> None:
        """Adds what a job has done."""
        notes, failure, kind = job.notes(), job.failure(was_stopped), job.work.kind
        self.models[kind] += notes.models
        self.seconds[kind] += notes.seconds
        if failure is not None:
            self.failures.append(failure)
            print("FAILED: {}, seed {}".format(kind, job.work.seed), flush=True)
        elif not was_stopped:
            print("{}: {} models".format(kind, self.models[kind]), flush=True)


def main(arguments: Optional[List[str]] = None) -> int:
    """Tries models; 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=None, help="of all seeds; default: a new one")
    parser.add_argument("--kinds", help="with commas between them; default: all")
    parser.add_argument("--models", type=int, help="of each kind; default: as time allows")
    parser.add_argument(
        "--silent-seconds",
        type=float,
        default=300.0,
        help="that a model may take; then its stacks are printed, and it has failed",
    )
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--tests", type=Path, default=Path(__file__).resolve().parents[2] / "tests")
    options = parser.parse_args(arguments)
    properties = properties_in(options.tests)
    kinds = options.kinds.split(",") if options.kinds else sorted(properties)
    unknown = [kind for kind in kinds if kind not in properties]
    if unknown or not kinds:
        parser.error("no kind {}; there are {}".format(unknown, sorted(properties)))
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    print("seed {}, {:g} s".format(seed, options.seconds), flush=True)
    tally = _Tally(kinds)
    work = _work({kind: properties[kind] for kind in kinds}, seed, options.models)
    with tempfile.TemporaryDirectory(prefix="fuzz_") as folder:
        _try_all(work, tally, options, Path(folder))
    _print_tally(tally)
    return 1 if tally.failures else 0


def _work(properties: Dict[str, str], seed: int, models: Optional[int]) -> Iterator[Work]:
    """Rounds in which each kind has its turn, until each has had so many models."""
    for done in itertools.count(0, _MODELS_OF_A_JOB):
        size = _MODELS_OF_A_JOB if models is None else min(_MODELS_OF_A_JOB, models - done)
        if size <= 0:
            return
        for kind, test in properties.items():
            own = random.Random("{}/{}/{}".format(seed, kind, done)).randrange(2**32)
            yield Work(kind, test, own, size)


def _try_all(
    work: Iterator[Work], tally: _Tally, options: argparse.Namespace, folder: Path
) -> None:
    end = time.monotonic() + options.seconds
    jobs: List[Job] = []
    numbers = itertools.count()
    # An exception could come between the start of a process and its place among the jobs.
    interrupts: List[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        while time.monotonic() < end and not interrupts:
            for job in [job for job in jobs if job.has_ended()]:
                jobs.remove(job)
                tally.add(job, was_stopped=False)
            for one in itertools.islice(work, options.processes - len(jobs)):
                jobs.append(Job(one, folder / str(next(numbers)), options.silent_seconds))
            if not jobs:
                return
            time.sleep(_POLL_SECONDS)
    finally:
        if interrupts:
            print("interrupted", flush=True)
        signal.signal(signal.SIGINT, handler)
        for job in jobs:
            job.kill()
            tally.add(job, was_stopped=True)


def _print_tally(tally: _Tally) -> None:
    rows = [("kind", "models", "failures", "CPU seconds a model")]
    for kind, models in tally.models.items():
        failures = sum(one.work.kind == kind for one in tally.failures)
        each = "{:.2f}".format(tally.seconds[kind] / models) if models else ""
        rows.append((kind, str(models), str(failures), each))
    print()
    for row in rows:
        print("{:<12}{:>8}{:>10}  {:>19}".format(*row).rstrip())
    for failure in tally.failures:
        print("\n{}, seed {}: {}".format(failure.work.kind, failure.work.seed, failure.error))
        if failure.example:
            print(failure.example)
        print(command_of(failure.work))


if __name__ == "__main__":
    sys.exit(main())
