"""`graph-opt cluster`: a script as the tasks of a TensorFlow cluster on this machine."""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from typing import IO, Dict, List, Mapping, Optional, Sequence

from graph_opt.cli.early_checks import read_config
from graph_opt.cli.exit_codes import WRONG_INPUT, WrongInput
from graph_opt.cli.messages import say, say_wrong
from graph_opt.cli.proxy import proxy_before
from graph_opt.cli.recorded_run import NOT_RECORDED
from graph_opt.cli.report_file import TOLD
from graph_opt.cli.script_command import command_of, given_script
from graph_opt.cli.started_processes import pass_on_to_several
from graph_opt.launch.cluster_group import ClusterGroup, PlacedTask
from graph_opt.launch.cluster_tasks import (
    EVALUATOR,
    PS,
    Cluster,
    ClusterTask,
    free_addresses,
    tasks_of,
    with_addresses,
)
from graph_opt.launch.progress_lines import ProgressLines
from graph_opt.launch.started_process import Task
from graph_opt.launch.steps_pipe import StepsPipe
from graph_opt.reporting.session_report import TASK

_COMMAND = "cluster"


def handle(options: argparse.Namespace) -> int:
    """Runs the script in all tasks; returns the largest exit code of the workers."""
    try:
        read_config(options)
        return _launch(options, given_script(options))
    except WrongInput as error:
        say_wrong(_COMMAND, str(error))
        return WRONG_INPUT


def _launch(options: argparse.Namespace, given: Optional[bytes]) -> int:
    shared = pass_on_to_several(options)
    logs = _log_folder(options.logs)
    tasks = tasks_of(options.servers, options.workers, options.has_chief, options.has_evaluator)
    with contextlib.ExitStack() as stack:
        addresses = stack.enter_context(free_addresses(len(tasks)))
        cluster = with_addresses(tasks, addresses)
        if options.delay_ms or options.gbit:
            called = list(cluster.addresses.values())
            ports = stack.enter_context(proxy_before(called, options.delay_ms, options.gbit))
            cluster = cluster._replace(reachable=dict(zip(cluster.addresses, ports)))
        say(_COMMAND, _announcement(options, tasks, logs))
        pipes = {task: StepsPipe() for task in tasks if task.job not in (PS, EVALUATOR)}
        counts = {task.name: pipe.count for task, pipe in pipes.items()}
        progress = stack.enter_context(ProgressLines(counts))
        placed = [
            PlacedTask(
                place,
                _task(command_of(options), shared, cluster, place, given, pipes.get(place)),
                stack.enter_context(_log_of(logs, place)),
            )
            for place in tasks
        ]
        return ClusterGroup(placed, options.restarts, bottom=progress.bottom).run()


def _task(
    command: Sequence[str],
    shared: Mapping[str, str],
    cluster: Cluster,
    place: ClusterTask,
    given: Optional[bytes],
    pipe: Optional[StepsPipe],
) -> Task:
    environment: Dict[str, str] = {
        "TF_CPP_MIN_LOG_LEVEL": "1",  # Each task would say how its TensorFlow was built.
        **shared,
        "TF_CONFIG": cluster.tf_config(place),
        TASK: place.name,
    }
    if place != next(task for task in cluster.tasks if task.job != PS):
        environment.update({TOLD: "1", **NOT_RECORDED})
    if pipe is not None:
        environment.update(pipe.environment)
    python, *arguments = command
    return Task(
        place.name,
        [python, *(cluster.filled_in(place, argument) for argument in arguments)],
        environment,
        given,
        () if pipe is None else (pipe.inherited,),
    )


def _log_folder(given: Optional[str]) -> str:
    if given is None:
        return tempfile.mkdtemp(prefix="graph_opt_cluster_")
    try:
        os.makedirs(given, exist_ok=True)
    except OSError as error:
        raise WrongInput("--logs {}: {}".format(given, error.strerror)) from error
    return given


def _log_of(folder: str, place: ClusterTask) -> IO[bytes]:
    path = os.path.join(folder, place.file_stem + ".log")
    try:
        return open(path, "wb")
    except OSError as error:
        raise WrongInput("the log '{}': {}".format(path, error.strerror)) from error


def _announcement(options: argparse.Namespace, tasks: List[ClusterTask], logs: str) -> str:
    names = ", ".join(task.name for task in tasks)
    network = ""
    if options.delay_ms:
        network += ", {:g} ms apart each way".format(options.delay_ms)
    if options.gbit:
        network += ", {:g} Gbit/s to and from each".format(options.gbit)
    return "{} on this machine{}; what they print is in {}".format(names, network, logs)
