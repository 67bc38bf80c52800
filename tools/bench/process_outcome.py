"""Parts of a benchmark in processes of their own, which no other part disturbs."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tools.bench.records import Absent, Outcome, read

Measure = Callable[..., Outcome]


class PartFailed(RuntimeError):
    """A part of a benchmark came to nothing; the message says why."""


def outcome_of_process(measure: Measure, arguments: Sequence[Any], limit_seconds: float) -> Outcome:
    """Calls a function in a new process; figures are those that a file would have.

    Args:
        measure: of a module that can be imported.
        arguments: of it, which can be pickled.
        limit_seconds: after this long it is killed.

    Raises:
        PartFailed: it failed, or ran for too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        call, output = Path(folder) / "call.pickle", Path(folder) / "outcome.json"
        call.write_bytes(pickle.dumps((measure, tuple(arguments))))
        command = [sys.executable, "-m", "tools.bench.process_outcome", str(call), str(output)]
        try:
            subprocess.run(command, timeout=limit_seconds, check=True)
        except subprocess.CalledProcessError as error:
            raise PartFailed("it ended with exit code {}".format(error.returncode)) from error
        except subprocess.TimeoutExpired as error:
            raise PartFailed("it took more than {:.0f} s".format(limit_seconds)) from error
        return read(output)


def nothing_of(where: Tuple[str, str, Any], figures: Sequence[str], reason: object) -> Outcome:
    """What there is to say of a part that came to nothing.

    Args:
        where: workload, mode and params.
        figures: that it would have had.
        reason: why it has none.
    """
    return Outcome((), tuple(Absent(figure, *where, str(reason)) for figure in figures))


def with_figures(outcome: Outcome) -> Outcome:
    """An outcome of all parts.

    Raises:
        RuntimeError: it has no figures.
    """
    if not outcome.records:
        raise RuntimeError("nothing came to figures: {}".format(outcome.absent[0].reason))
    return outcome


def main(call: Path, output: Path) -> None:
    """Calls the function in a file, and writes the outcome into another."""
    measure, arguments = pickle.loads(call.read_bytes())
    tf.logging.set_verbosity(tf.logging.ERROR)  # every TF1 name is deprecated: that is known here
    tf.disable_v2_behavior()
    output.write_text(json.dumps(measure(*arguments).to_dict()), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
