"""Command-line flags that all training runs share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Dict, Sequence, Tuple

from tools.bench.argument_types import count, milliseconds, positive
from tools.bench.training.job import Job
from tools.bench.training.sessions import (
    DEFAULT_CAPACITY,
    DEFAULT_THREADS_NUM,
    MODES,
    ONLY_AT_THE_END,
    STOCK,
    Prefetching,
    SessionOptions,
)
from tools.bench.workloads.dlrm import workload as dlrm
from tools.bench.workloads.wide import workload as wide
from tools.bench.workloads.workload import OPTIMIZERS, Learning, Workload

WORKLOADS: Dict[str, Any] = {"dlrm": dlrm, "wide": wide}


def workload_parser(
    arguments: Sequence[str], description: str
) -> Tuple[argparse.ArgumentParser, Any]:
    """A parser with `--workload` and the flags of the workload that `arguments` choose.

    Returns:
      The parser, and the workload's module, whose `workload_from_flags` reads those flags.
    """
    first = argparse.ArgumentParser(add_help=False)
    first.add_argument("--workload", choices=sorted(WORKLOADS), default="dlrm")
    chosen, _ = first.parse_known_args(arguments)
    parser = argparse.ArgumentParser(description=description, parents=[first])
    workload = WORKLOADS[chosen.workload]
    workload.add_flags(parser)
    return parser, workload


def add_training_flags(parser: argparse.ArgumentParser, steps: int) -> None:
    """Adds the flags that `job_from_flags` reads; `steps` is the default number of steps."""
    parser.add_argument(
        "--mode",
        choices=MODES,
        default=STOCK,
        help="stock: TensorFlow alone; async: graph_opt runs the lookups ahead; fused: it makes "
        "them one op; both (%(default)s)",
    )
    add_learning_flags(parser, steps)
    add_prefetching_flags(parser)
    _add_cluster_flags(parser)
    _add_session_flags(parser)


def job_from_flags(workload: Workload, flags: argparse.Namespace) -> Job:
    """The training run that the flags of `add_training_flags` ask for."""
    return Job(
        workload=workload,
        learning=learning_from_flags(flags),
        session=SessionOptions(
            mode=flags.mode,
            prefetching=prefetching_from_flags(flags),
            checkpoint_directory=flags.checkpoint_dir,
            checkpoint_steps=flags.checkpoint_steps or ONLY_AT_THE_END,
            summary_steps=flags.summary_steps,
            intra_op_threads=flags.intra_op_threads,
            inter_op_threads=flags.inter_op_threads,
        ),
        steps=flags.steps,
        servers=flags.ps,
        delay_ms=flags.delay_ms,
    )


def learning_from_flags(flags: argparse.Namespace) -> Learning:
    """What the flags of `add_learning_flags` say about learning."""
    return Learning(flags.optimizer, flags.learning_rate, flags.seed)


def prefetching_from_flags(flags: argparse.Namespace) -> Prefetching:
    """What the flags of `add_prefetching_flags` say."""
    return Prefetching(flags.threads_num, flags.capacity, flags.unordered, flags.config)


def add_learning_flags(parser: argparse.ArgumentParser, steps: int) -> None:
    """Adds batch, steps, optimizer and data folder; `steps` is the default number of steps."""
    group = parser.add_argument_group("learning")
    group.add_argument("--batch", type=positive, default=512, help="rows a step (%(default)s)")
    group.add_argument(
        "--steps", type=count, default=steps, help="steps to train, 0: all data (%(default)s)"
    )
    group.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default=Learning().optimizer)
    group.add_argument("--learning-rate", type=float, default=Learning().learning_rate)
    group.add_argument("--seed", type=count, default=1, help="of initial values and generated data")
    group.add_argument(
        "--resource-variables",
        action="store_true",
        help="TensorFlow's newer variables in place of TF1's ref variables",
    )
    group.add_argument(
        "--data-dir",
        type=Path,
        default=Path("build/data"),
        help="where generated rows are kept (%(default)s)",
    )


def add_prefetching_flags(parser: argparse.ArgumentParser) -> None:
    """Adds graph_opt's options of asynchronous lookups."""
    group = parser.add_argument_group("asynchronous lookups")
    group.add_argument(
        "--threads-num", type=positive, help=f"threads of lookups ({DEFAULT_THREADS_NUM})"
    )
    group.add_argument("--capacity", type=positive, help=f"batches held ready ({DEFAULT_CAPACITY})")
    group.add_argument("--unordered", action="store_true", help="batches may overtake each other")
    group.add_argument(
        "--config", help="session options as a text proto, see configs/; flags win over it"
    )


def _add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--ps",
        type=count,
        nargs="?",
        const=1,
        default=0,
        help="keep the variables on this many parameter-server processes (1 if no number follows)",
    )
    group.add_argument(
        "--delay-ms",
        type=milliseconds,
        default=0.0,
        help="latency to and from the parameter servers, each way, by a proxy (%(default)s)",
    )


def _add_session_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("session")
    group.add_argument(
        "--checkpoint-dir", help="checkpoints and summaries; training goes on from the newest"
    )
    group.add_argument(
        "--checkpoint-steps", type=count, default=1000, help="0: only at the end (%(default)s)"
    )
    group.add_argument("--summary-steps", type=count, default=100, help="0: none (%(default)s)")
    group.add_argument("--intra-op-threads", type=count, default=0, help="0: one a core")
    group.add_argument("--inter-op-threads", type=count, default=0, help="0: one a core")
