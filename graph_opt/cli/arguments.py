"""The arguments of `graph-opt`. Imports nothing heavy: `--help` and usage errors come at once."""

from __future__ import annotations

import argparse
import math
from typing import Any, Callable, Tuple

from graph_opt.cli.convert_arguments import add_convert
from graph_opt.cli.export_arguments import add_export, add_requests
from graph_opt.cli.plan_arguments import add_batches, add_plan

DEFAULTS = ("do_async_embedding=true", "threads_num=1", "capacity=2", "infer_io_stage=true")

_MOST_NODES = 500_000
_GRAPH_FILE = (
    "graph: a GraphDef, MetaGraphDef or SavedModel, binary or text (.pb, .pbtxt, .meta), also "
    "packed by gzip, a SavedModel's folder, or a checkpoint's folder or prefix"
)


class _Version(argparse.Action):
    """Prints what is installed, and ends the process."""

    HELP = "tell the releases of graph_opt, TensorFlow and the compiled ops, and exit"

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from graph_opt.cli.version import lines

        print("\n".join(lines()), flush=True)
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """The parser; `command` of its result is the name of the chosen command."""
    top = argparse.ArgumentParser(
        prog="graph-opt",
        description="Runs embedding lookups of TensorFlow graphs ahead of the main graph.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action=_Version, nargs=0, help=_Version.HELP)
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True
    _add_run(commands)
    _add_check(commands)
    _add_cluster(commands)
    _add_proxy(commands)
    _add_rewrite(commands)
    _add_inspect(commands)
    planning = add_plan(commands)
    _add_input(planning)
    _add_most_nodes(planning)
    _add_config(planning)
    exporting = add_export(commands)
    _add_input(exporting)
    _add_config(exporting)
    add_convert(commands)
    return top


def _add_run(commands: Any) -> None:
    command = commands.add_parser(
        "run",
        help="run a script with its lookups prefetched",
        description="Runs an unmodified script, for TensorFlow 1 or for TensorFlow 2 in graph "
        "mode; the config overrides that of every session the script opens.",
        usage="graph-opt run [-np N] [--config FILE] [--set KEY=VALUE]... [--no-infer-io-stage] "
        "[--tf1 | --no-tf1] [--sok] [--report FILE] {SCRIPT | -m MODULE} [ARGUMENT]...",
        allow_abbrev=False,
    )
    _add_ranks(
        command,
        "start the script N times on this machine, as ranks that Horovod connects. On several "
        "machines: horovodrun -H ... graph-opt run ...",
    )
    _add_config(command)
    _add_script(command)


def _add_ranks(command: argparse.ArgumentParser, text: str) -> None:
    kind = _number_from(1, "a number of ranks")
    command.add_argument("-np", "--num-proc", type=kind, metavar="N", dest="num_ranks", help=text)


def _add_check(commands: Any) -> None:
    command = commands.add_parser(
        "check",
        help="compare the numbers of a script with and without its lookups rewritten",
        description="Runs an unmodified script stock and rewritten, each in a process of its own, "
        "from the same seeds and initial values, and compares what their steps return and the "
        "variables at the end. Exit code: 0 equal to the bit or within rounding, 1 different, 2 "
        "could not be checked. With --ps, each run is a cluster of its own, as graph-opt cluster "
        "starts it, with one worker; with -np, all ranks of a training with Horovod are compared.",
        usage="graph-opt check [--steps N] [--json FILE] [-np N | --ps N [--no-chief]] "
        "[--config FILE] "
        "[--set KEY=VALUE]... [--no-infer-io-stage] [--tf1 | --no-tf1] [--sok] [--report FILE] "
        "{SCRIPT | -m MODULE} [ARGUMENT]...",
        allow_abbrev=False,
    )
    command.add_argument(
        "--steps",
        type=_number_from(1, "a number of steps"),
        default=0,
        metavar="N",
        help="end each run after N steps that train; by default when the script ends",
    )
    command.add_argument("--json", metavar="FILE", help="write the result as JSON, too")
    add_requests(command)
    _add_ranks(command, "run the script as N ranks that Horovod connects")
    numbers = {"type": _number_from(1), "metavar": "N"}
    command.add_argument(
        "--ps", dest="servers", default=0, help="run the script on N parameter servers", **numbers
    )
    command.add_argument(
        "--workers",
        default=1,
        help="with --ps: 1, since the updates of several come in another order each time",
        **numbers,
    )
    _add_chief(command)
    _add_config(command)
    _add_script(command)


def _add_script(command: argparse.ArgumentParser) -> None:
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
        help="write what was fused and moved in each session, what was not, and why; as JSON if "
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


def _add_cluster(commands: Any) -> None:
    command = commands.add_parser(
        "cluster",
        help="run a script as the parameter servers and workers of a cluster on this machine",
        description="Runs an unmodified script once for each task of a cluster on this machine. "
        "Each finds its place in TF_CONFIG, or in its arguments: {job}, {index}, {ps_hosts} and "
        "{worker_hosts} are filled in. The servers are ended when all workers have ended.",
        usage="graph-opt cluster [--ps N] [--workers N] [--no-chief] [--evaluator] "
        "[--delay-ms D] [--gbit G] [--logs FOLDER] [--restarts N] [--config FILE] "
        "[--set KEY=VALUE]... [--no-infer-io-stage] [--tf1 | --no-tf1] [--sok] [--report FILE] "
        "[--] {SCRIPT | -m MODULE} [ARGUMENT]...",
        allow_abbrev=False,
    )
    numbers = {"type": _number_from(1), "default": 1, "metavar": "N"}
    command.add_argument("--ps", dest="servers", help="parameter servers (1)", **numbers)
    command.add_argument("--workers", help="workers, the chief included (1)", **numbers)
    _add_chief(command)
    command.add_argument(
        "--evaluator",
        dest="has_evaluator",
        action="store_true",
        help="one more task, which evaluates (tf.estimator.train_and_evaluate)",
    )
    _add_network(command)
    command.add_argument(
        "--logs",
        metavar="FOLDER",
        help="where the log of each task goes (default: a new temporary folder, which is printed)",
    )
    command.add_argument(
        "--restarts",
        type=_number_from(0),
        default=0,
        metavar="N",
        help="start a task that fails again, N times at most",
    )
    _add_config(command)
    _add_script(command)


def _add_chief(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--no-chief",
        dest="has_chief",
        action="store_false",
        help="the first worker is task 0 of job worker, not of job chief; Estimators want a chief",
    )


def _add_proxy(commands: Any) -> None:
    command = commands.add_parser(
        "proxy",
        help="make connections on this machine as slow as those of a network",
        description="Prints a port for each target, in their order, and forwards what connects to "
        "these until standard input is closed. SIGUSR1 cuts all connections, until SIGUSR2.",
        allow_abbrev=False,
    )
    _add_network(command)
    command.add_argument(
        "--count",
        action="store_true",
        help="for each line of standard input, print how many calls of gRPC have passed, and how "
        "many bytes",
    )
    command.add_argument("targets", nargs="+", type=_address, metavar="HOST:PORT")


def _add_network(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--delay-ms",
        type=_number_of("a number of milliseconds, 0 or more", lambda number: number >= 0.0),
        default=0.0,
        metavar="D",
        help="latency added each way",
    )
    command.add_argument(
        "--gbit",
        type=_number_of("a number of Gbit/s above 0", lambda number: number > 0.0),
        metavar="G",
        help="Gbit/s that pass at most to each target, and as many from it",
    )


def _add_version(command: argparse.ArgumentParser) -> None:
    version = command.add_mutually_exclusive_group()
    version.add_argument(
        "--tf1",
        action="store_true",
        default=None,
        help="give the script TensorFlow 1: import tensorflow is tensorflow.compat.v1, with TF2 "
        "behaviour off. By default, the names that the script uses decide",
    )
    version.add_argument(
        "--no-tf1",
        dest="tf1",
        action="store_false",
        help="leave TensorFlow as it is",
    )


def _add_rewrite(commands: Any) -> None:
    command = commands.add_parser(
        "rewrite",
        help="split the lookups of a graph file into a prefetch stage",
        description="Reads a graph file, moves its embedding lookups into a prefetch stage and "
        "writes the result.",
        allow_abbrev=False,
    )
    _add_input(command)
    _add_config(command)
    command.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="file to write; .pbtxt is text, .meta a MetaGraphDef, anything else a binary GraphDef",
    )


def _add_inspect(commands: Any) -> None:
    command = commands.add_parser(
        "inspect",
        help="show lookups, regions, boundary tensors and refusals of a graph file",
        description="Reads a graph file and shows what rewrite would do with it, or which stages "
        "and fused ops a rewritten one has. Nothing is changed. With --batch, also what a step "
        "costs, as plan tells it.",
        allow_abbrev=False,
    )
    _add_input(command)
    _add_most_nodes(command)
    _add_config(command)
    add_batches(command)
    command.add_argument("--json", action="store_true", help="print JSON instead of tables")
    command.add_argument("--picture", metavar="FILE.svg", help="also draw the three regions")
    command.add_argument("--html", metavar="FILE.html", help="also write a page for a browser")
    command.add_argument("--dot", metavar="FILE.dot", help="also write the result for Graphviz")
    command.add_argument(
        "--tensorboard",
        metavar="LOGDIR",
        help="also write the graph before and after as runs for TensorBoard, which shows regions "
        "as XLA clusters",
    )
    command.add_argument(
        "--timeline",
        metavar="FILE",
        help="with --html: show the steps that were recorded in FILE, a page that graph-opt run "
        "--report wrote or what graph_opt.step_trace(session).save(FILE) did",
    )
    command.add_argument(
        "--diff",
        metavar="OTHER",
        help="instead compare the graph with that of another file: what was added, moved, fused, "
        "lost. Exit code: 0 alike, 1 different",
    )


def _add_input(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", metavar="IN", help=_GRAPH_FILE)
    command.add_argument(
        "--tags",
        metavar="TAG[,TAG]...",
        help="for a SavedModel with several graphs: use the one with these tags",
    )


def _add_most_nodes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--max-nodes",
        type=_number_from(1, "a number of nodes"),
        default=_MOST_NODES,
        metavar="N",
        help="only count the nodes of a graph that has more than N, those of functions included "
        "({})".format(_MOST_NODES),
    )


def _number_from(least: int, what: str = "a number") -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError("{!r} is not {}, {} or more".format(text, what, least))
        return int(text)

    return convert


def _number_of(what: str, is_valid: Callable[[float], bool]) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and is_valid(number)):
            raise argparse.ArgumentTypeError("{!r} is not {}".format(text, what))
        return number

    return convert


def _address(text: str) -> Tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise argparse.ArgumentTypeError("{!r} is not HOST:PORT".format(text))
    return host, int(port)


class _Once(argparse.Action):
    """An option that may not be repeated, as the second would silently replace the first."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(
                "{} is given twice; use --set to override options of a file".format(option)
            )
        setattr(namespace, self.dest, values)


def _add_config(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--config",
        action=_Once,
        metavar="FILE",
        help="session options as a text proto, such as configs/async_embedding.pbtxt",
    )
    command.add_argument(
        "--set",
        metavar="KEY=VALUE",
        dest="settings",
        action="append",
        default=[],
        help="one option, by its name (threads_num=2) or its full path; may be repeated, overrides "
        "--config. Without --config, the defaults are "
        + " ".join(DEFAULTS)
        + "; lookups run ahead "
        "only if no setting turns on an optimization, or one turns on this",
    )
