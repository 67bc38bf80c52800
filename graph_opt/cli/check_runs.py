"""The runs of `graph-opt check`: each a process of its own, or a cluster, in folders of its own."""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import shutil
import signal
import sys
import tempfile
import time
from typing import Dict, List, Optional

from graph_opt.checking.check import CannotCheck, Wanted
from graph_opt.checking.records import Run
from graph_opt.cli.exit_codes import WRONG_INPUT, WrongInput
from graph_opt.cli.messages import say
from graph_opt.cli.own_copies import environment_of
from graph_opt.cli.progress import Progress
from graph_opt.cli.recorded_run import RecordedRun
from graph_opt.cli.run_folders import RunFolder
from graph_opt.launch.started_process import Output, StartedProcess, Task

COMMAND = "check"
_STDIN = "-"
_SECONDS_BETWEEN = 0.5
# Which tensors Horovod joins depends on time, and so does the order of sums in what it has joined.
_OF_RANKS = {"HOROVOD_FUSION_THRESHOLD": "0"}
_OF_CLUSTER = ": graph-opt cluster: "
_REFUSED = "ended with exit code {}: graph-opt run: ".format(WRONG_INPUT)
_SHARED = (
    "the script saves checkpoints in '{}', where each run would find those of the one before: give "
    "it a folder by an argument, or a path below its working directory"
)
_SEVERAL = (
    "the updates of {} workers come in another order in each run, so that no two runs compute the "
    "same: check with --workers 1, which tells what one worker computes with these servers, or "
    "with -np, if the script trains with Horovod"
)
_NOT_ON_SERVERS = (
    "no session of the worker talked to a server{}: the script finds its task in TF_CONFIG, or in "
    "arguments such as --job_name={{job}} --task_index={{index}} --ps_hosts={{ps_hosts}} "
    "--worker_hosts={{worker_hosts}}"
)


class CheckRuns:
    """Makes one run after the other.

    Args:
      options: Arguments of `graph-opt check`.
      given: The script, if it came from standard input.
    """

    def __init__(self, options: argparse.Namespace, given: Optional[bytes]) -> None:
        self._options = options
        self._given = given
        self._folder = tempfile.mkdtemp(prefix="graph_opt_check_")
        self._count = 0
        self._first = ""
        self._seconds = 0.0  # that the last run took, as others may
        self._running: Optional[StartedProcess] = None

    def run(self, wanted: Wanted) -> Run:
        """Makes a run and reads its record.

        Raises:
          CannotCheck: It saves checkpoints where other runs would find them, does not use its
            servers, or has several workers, whose updates no run repeats.
          WrongInput: An option or the config is wrong, which only TensorFlow tells.
        """
        if self._options.workers > 1:
            raise CannotCheck(_SEVERAL.format(self._options.workers))
        self._count += 1
        folder = RunFolder(os.path.join(self._folder, str(self._count)), os.getcwd())
        asked = RecordedRun(
            folder.records, "" if wanted.is_first else self._first, wanted.most_updates,
            wanted.in_lock_step, self._options.num_ranks or 0,
        )  # fmt: skip
        command = self._command(wanted, folder)
        if wanted.is_first:
            self._first = folder.records
            for argument in folder.replaced:
                say(
                    COMMAND,
                    "'{}' of the arguments is a folder of its own in each run".format(argument),
                )
        started = time.monotonic()
        environment = self._environment(asked, folder)
        task = Task(wanted.title, command, environment, self._given, folder=folder.work)
        failure = self._execute(wanted, task, asked)
        run = asked.read()
        run.failure, run.seconds = failure, time.monotonic() - started
        self._seconds = run.seconds
        _, is_refused, text = failure.partition(_REFUSED)
        if is_refused and not run.steps:
            raise WrongInput(text)
        ended = ", " + failure if failure else ""
        text = "{}: {} steps, {} of them train, in {:.1f} s{}"
        say(COMMAND, text.format(wanted.title, len(run.steps), run.updates, run.seconds, ended))
        if self._options.servers and run.steps and not run.facts.on_servers:
            raise CannotCheck(_NOT_ON_SERVERS.format(" (it {})".format(failure) if failure else ""))
        for path in run.facts.checkpoints:
            if not folder.owns(path):
                raise CannotCheck(_SHARED.format(os.path.dirname(path)))
        shutil.rmtree(folder.work, ignore_errors=True)
        return run

    def end(self) -> None:
        """Ends the process that runs, and removes all files."""
        if self._running is not None:
            self._running.end(signal.SIGKILL)
        self.clean_up(keeps_logs=False)

    def clean_up(self, keeps_logs: bool) -> None:
        """Removes all files but, if they are of use, those with what the runs have printed."""
        if not keeps_logs:
            shutil.rmtree(self._folder, ignore_errors=True)
            return
        for name in os.listdir(self._folder):
            if not name.endswith(".log"):
                shutil.rmtree(os.path.join(self._folder, name), ignore_errors=True)
        if self._count:
            say(COMMAND, "what the runs printed is in " + self._folder)
        else:
            os.rmdir(self._folder)

    def _execute(self, wanted: Wanted, task: Task, asked: RecordedRun) -> str:
        """Runs a process to its end; returns how that was, "" if it was well."""
        path = os.path.join(
            self._folder, wanted.title.replace(", ", "_").replace(" ", "_") + ".log"
        )
        ended: queue.SimpleQueue[StartedProcess] = queue.SimpleQueue()
        with open(path, "wb") as log:
            output = Output(log, lambda: None)
            self._running = StartedProcess(task, [output.write, output.write], ended.put)
            with Progress(COMMAND, {wanted.title: 1.0}, self._seconds) as progress:
                # Steps tell how far the first run is; others take about as long as it did.
                tells = bool(wanted.most_updates and not self._seconds)
                process = None if tells else ended.get()
                record = asked.growing()
                while process is None:
                    progress.reached(record.updates(), wanted.most_updates)
                    with contextlib.suppress(queue.Empty):
                        process = ended.get(timeout=_SECONDS_BETWEEN)
            self._running = None
        if not process.exit_code:
            return ""
        _, of_cluster, cause = process.cause.partition(_OF_CLUSTER)
        return "failed: " + cause if of_cluster else process.cause

    def _command(self, wanted: Wanted, folder: RunFolder) -> List[str]:
        options = self._options
        command = [sys.executable, "-m", "graph_opt.cli", *self._launcher(folder)]
        if options.config is not None:
            command += ["--config", os.path.abspath(options.config)]
        for setting in (*options.settings, *wanted.settings):
            command += ["--set", setting]
        if not options.infer_io_stage:
            command.append("--no-infer-io-stage")
        if options.tf1 is not None:
            command.append("--tf1" if options.tf1 else "--no-tf1")
        if options.sok:
            command.append("--sok")
        if options.report and wanted.title == "rewritten":
            command += ["--report", os.path.abspath(options.report)]
        if options.module is not None:
            return [*command, "-m", options.module[0], *folder.arguments(options.module[1:])]
        script = options.script[0]
        own = script if script == _STDIN else folder.within(script)
        return [*command, own, *folder.arguments(options.script[1:])]

    def _launcher(self, folder: RunFolder) -> List[str]:
        options = self._options
        if options.num_ranks:
            return ["run", "-np", str(options.num_ranks)]
        if not options.servers:
            return ["run"]
        chief = [] if options.has_chief else ["--no-chief"]
        return ["cluster", "--ps", str(options.servers), "--logs", folder.logs, *chief]

    def _environment(self, asked: RecordedRun, folder: RunFolder) -> Dict[str, str]:
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        given = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
        path = os.pathsep.join([*map(os.path.abspath, given), package])
        return {
            "TF_CPP_MIN_LOG_LEVEL": "1",
            **(_OF_RANKS if self._options.num_ranks else {}),
            **os.environ,
            "PYTHONPATH": path,
            **asked.environment(),
            **environment_of(folder.work),
        }
