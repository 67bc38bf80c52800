"""What the training command and the demo have in common: quiet logs, clear errors, exit codes."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict

import tensorflow.compat.v1 as tf

from tools.bench.cluster.processes import ProcessEnded
from tools.bench.training.job import Job, Outcome, train

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130  # as the shell reports a program ended by Ctrl-C


def run_job(make_job: Callable[[], Job]) -> int:
    """Trains the job and prints how it went.

    Args:
      make_job: makes the job; errors in the data's files surface here.

    Returns:
      The exit code: 0, 1 with one clear line on standard error, or 130 after Ctrl-C.
    """
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    return exit_code_of(
        lambda: print(summary(train(make_job()))),
        "interrupted: the last checkpoint is whole, training can go on from it",
    )


def exit_code_of(run: Callable[[], None], interrupted: str = "interrupted") -> int:
    """0, or 1 after an error, or 130 after Ctrl-C; both are told in one line.

    Args:
      run: what is done.
      interrupted: the line after Ctrl-C.
    """
    try:
        run()
    except (ProcessEnded, OSError, ValueError, tf.errors.OpError) as error:
        print(f"error: {_clear_message(error)}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def summary(outcome: Outcome) -> str:
    """The outcome in a few lines."""
    rate = outcome.steps / outcome.seconds if outcome.seconds else 0.0
    lines = [f"{outcome.steps} steps, {rate:.1f} steps/s; {outcome.score}"]
    if outcome.report is not None:
        lines.append(str(outcome.report))
    lines.extend(waits(name, values) for name, values in outcome.metrics.items())
    return "\n".join(lines)


def waits(stage: str, metrics: Dict[str, int]) -> str:
    """One line that says how long each side of a stage's buffer waited for the other."""
    taken = max(1, metrics["take_count"])
    starved = metrics["take_wait_micros"] / taken / 1000.0
    full = metrics["put_wait_micros"] / taken / 1000.0
    return (
        f"buffer {stage}: {metrics['take_count']} batches; the taker waited {starved:.2f} ms and "
        f"the producer {full:.2f} ms a batch"
    )


def _clear_message(error: Any) -> str:
    """An error's message without TensorFlow's stack of graph construction."""
    return error.message if isinstance(error, tf.errors.OpError) else str(error)
