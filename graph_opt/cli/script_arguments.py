"""The arguments of the commands that run scripts: `run`, `check` and `cluster`; and of `proxy`."""

from __future__ import annotations

import argparse
from typing import Any

from graph_opt.cli.argument_types import address, number_from, number_of
from graph_opt.cli.export_arguments import add_requests
from graph_opt.cli.shared_arguments import add_config


def add_run(commands: Any) -> None:
    """Adds the command to the parser's."""
    command = commands.add_parser(
        "run",
        summary="run an unmodified script with graph_opt",
        example="graph-opt run train.py --epochs 3",
        description="Runs an unmodified script, for TensorFlow 1 or for TensorFlow 2 in graph "
        "mode; the config given here overrides the config of every session that the script opens.",
        usage="graph-opt run [-np N] [--config FILE] [--set KEY=VALUE]... [--no-infer-io-stage] "
        "[--tf1 | --no-tf1] [--sok] [--report FILE] {SCRIPT | -m MODULE} [ARGUMENT]...",
    )
    _add_ranks(
        command,
        "start the script N times on this machine, as ranks that Horovod connects. On several "
        "machines: horovodrun -H ... graph-opt run ...",
    )
    add_config(command)
    _add_script(command)


def add_check(commands: Any) -> None:
    """Adds the command to the parser's."""
    command = commands.add_parser(
        "check",
        summary="check that a script computes the same with and without graph_opt",
        example="graph-opt check --steps 200 train.py",
        description="Runs an unmodified script twice, stock and rewritten, each time in a process "
        "of its own and from the same seeds and initial values. Compares what the steps return "
        "and the variables at the end. Exit code: 0 equal bit for bit or within rounding, 1 "
        "different, 2 could not be checked. With --ps, each run has a cluster of its own with one "
        "worker, started as by graph-opt cluster; with -np, all ranks of a Horovod training are "
        "compared.",
        usage="graph-opt check [--steps N] [--json FILE] [-np N | --ps N [--no-chief]] "
        "[--config FILE] "
        "[--set KEY=VALUE]... [--no-infer-io-stage] [--tf1 | --no-tf1] [--sok] [--report FILE] "
        "{SCRIPT | -m MODULE} [ARGUMENT]...",
    )
    command.add_argument(
        "--steps",
        type=number_from(1, "a number of steps"),
        default=0,
        metavar="N",
        help="end each run after N steps that train; by default when the script ends",
    )
    command.add_argument("--json", metavar="FILE", help="write the result as JSON, too")
    add_requests(command)
    _add_ranks(command, "run the script as N ranks that Horovod connects")
    numbers = {"type": number_from(1), "metavar": "N"}
    command.add_argument(
        "--ps", dest="servers", default=0, help="run the script on N parameter servers", **numbers
    )
    command.add_argument(
        "--workers",
        default=1,
        help="with --ps: 1, since the updates of several workers arrive in no fixed order",
        **numbers,
    )
    _add_chief(command)
    add_config(command)
    _add_script(command)


def add_cluster(commands: Any) -> None:
    """Adds the command to the parser's."""
    command = commands.add_parser(
        "cluster",
        summary="run a script as the parameter servers and workers of a cluster on this machine",
        example="graph-opt cluster --ps 2 --workers 2 train.py",
        description="Runs an unmodified script once for each task of a cluster on this machine. "
        "Each task finds its place in TF_CONFIG, or in its arguments, in which {job}, {index}, "
        "{ps_hosts} and {worker_hosts} are filled in. The servers end when all workers have ended.",
        usage="graph-opt cluster [--ps N] [--workers N] [--no-chief] [--evaluator] "
        "[--delay-ms D] [--gbit G] [--logs FOLDER] [--restarts N] [--config FILE] "
        "[--set KEY=VALUE]... [--no-infer-io-stage] [--tf1 | --no-tf1] [--sok] [--report FILE] "
        "[--] {SCRIPT | -m MODULE} [ARGUMENT]...",
    )
    numbers = {"type": number_from(1), "default": 1, "metavar": "N"}
    command.add_argument("--ps", dest="servers", help="number of parameter servers (1)", **numbers)
    command.add_argument("--workers", help="number of workers, chief included (1)", **numbers)
    _add_chief(command)
    command.add_argument(
        "--evaluator",
        dest="has_evaluator",
        action="store_true",
        help="add a task that evaluates (tf.estimator.train_and_evaluate)",
    )
    _add_network(command)
    command.add_argument(
        "--logs",
        metavar="FOLDER",
        help="folder for the log of each task (default: a new temporary folder, which is printed)",
    )
    command.add_argument(
        "--restarts",
        type=number_from(0),
        default=0,
        metavar="N",
        help="restart a task that fails, up to N times",
    )
    add_config(command)
    _add_script(command)


def add_proxy(commands: Any) -> None:
    """Adds the command to the parser's."""
    command = commands.add_parser(
        "proxy",
        summary="make connections on this machine as slow as a network",
        example="graph-opt proxy --delay-ms 1 localhost:2222",
        description="Prints a port for each target, in order, and forwards connections to that "
        "port until standard input is closed. SIGUSR1 cuts all connections, until SIGUSR2.",
    )
    _add_network(command)
    command.add_argument(
        "--count",
        action="store_true",
        help="for each line of standard input, print how many gRPC calls and bytes have passed; "
        "a line with a number first sets --delay-ms for what is sent from then on",
    )
    command.add_argument("targets", nargs="+", type=address, metavar="HOST:PORT")


def _add_ranks(command: argparse.ArgumentParser, text: str) -> None:
    kind = number_from(1, "a number of ranks")
    command.add_argument("-np", "--num-proc", type=kind, metavar="N", dest="num_ranks", help=text)


def _add_script(command: argparse.ArgumentParser) -> None:
    """Adds the script, and how it is run."""
    command.add_argument(
        "--no-infer-io-stage",
        dest="infer_io_stage",
        action="store_false",
        help="fail if the script has no staged(...), instead of inserting a stage behind its "
        "iterator or queue",
    )
    _add_version(command)
    command.add_argument(
        "--sok",
        action="store_true",
        help="give the script graph_opt.sok as sparse_operation_kit, "
        "graph_opt.distributed_embeddings as distributed_embeddings, and HybridBackend's scopes as "
        "hybridbackend.tensorflow",
    )
    command.add_argument(
        "--report",
        metavar="FILE",
        help="write what was fused and moved in each session, what was not, and why: as JSON if "
        "FILE ends in .json, as a page for a browser with the timeline of the run if it ends in "
        ".html, otherwise as text",
    )
    command.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="MODULE ARGUMENT...",
        help="run a module, as python -m does",
    )
    command.add_argument(
        "script",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT ARGUMENT...",
        help="the script and its own arguments; - is standard input",
    )


def _add_version(command: argparse.ArgumentParser) -> None:
    version = command.add_mutually_exclusive_group()
    version.add_argument(
        "--tf1",
        action="store_true",
        default=None,
        help="show the script TensorFlow 1: import tensorflow gives tensorflow.compat.v1, with TF2 "
        "behaviour off. By default, the names that the script uses decide",
    )
    version.add_argument(
        "--no-tf1",
        dest="tf1",
        action="store_false",
        help="show the script TensorFlow as it is",
    )


def _add_chief(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--no-chief",
        dest="has_chief",
        action="store_false",
        help="make the first worker task 0 of job worker instead of job chief; Estimators need a "
        "chief",
    )


def _add_network(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--delay-ms",
        type=number_of("a number of milliseconds, 0 or more", lambda number: number >= 0.0),
        default=0.0,
        metavar="D",
        help="latency added each way",
    )
    command.add_argument(
        "--gbit",
        type=number_of("a number of Gbit/s above 0", lambda number: number > 0.0),
        metavar="G",
        help="limit of the bandwidth to each target, and of that from it, in Gbit/s",
    )
