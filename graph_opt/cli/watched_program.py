"""A program for which graph_opt is installed as soon as it imports TensorFlow.

It is the program that `graph-opt run` was given, or a process that this program started.
"""

from __future__ import annotations

import argparse
import os
import sys
from types import ModuleType
from typing import Mapping, NoReturn, Optional

from graph_opt.cli.exit_codes import WRONG_INPUT
from graph_opt.cli.messages import say, say_wrong
from graph_opt.cli.own_copies import own_copies
from graph_opt.cli.programs import (
    Program,
    Source,
    find_module,
    find_script,
    main_file_at,
    main_file_of_module,
    main_file_running,
)
from graph_opt.cli.recorded_run import asked_for, record
from graph_opt.cli.report_file import RANK, TOLD, ReportFile
from graph_opt.cli.tensorflow_import import TensorFlowImport
from graph_opt.launch.steps_pipe import tell_steps
from graph_opt.session.module_aliases import libraries_of_sharded_tables
from graph_opt.session.step_count import steps_run

COMMAND = "run"
_NO_TENSORFLOW = "the script did not import TensorFlow, so there was nothing to optimize"
_NO_OVERRIDE = "{} is already TensorFlow's default; it does not override what the script sets"


class WatchedProgram:
    """One program, and the TensorFlow that it gets.

    Args:
      options: Arguments of `graph-opt run`.
      is_child: Whether this is a process that the program spawned: its parent has already printed
        all notices.
    """

    def __init__(self, options: argparse.Namespace, is_child: bool = False) -> None:
        self._options = options
        self._is_child = is_child
        self._is_loaded = False
        self._process = os.getpid()
        self._main: Optional[Source] = None
        self._report: Optional[ReportFile] = None
        self._recorded = asked_for()
        self._copies = own_copies()

    def program(self) -> Program:
        """The program to run, with everything in place for its first import of TensorFlow.

        Raises:
          WrongInput: It cannot be found or read.
        """
        if not self._options.module:
            program = find_script(self._options.script)
            self._main = program.main_file()
            self._options.main_path = program.path
            self.watch()
            return program
        self.watch()  # Before the search, which imports the packages around the module.
        return find_module(self._options.module)

    def watch(self) -> None:
        """Waits for the program's first import of TensorFlow."""
        self.open_report()
        module = self._options.module
        own_package = module[0].partition(".")[0] if module else ""
        if self._options.sok:  # The program may import it before TensorFlow.
            libraries_of_sharded_tables.put()
        TensorFlowImport(self._on_tensorflow, own_package).watch()

    def open_report(self) -> None:
        """Opens the report file that was asked for, if any, which other processes add to."""
        if self._options.report and self._report is None:
            self._report = ReportFile(self._options.report, self._options.report_folder)
            self._options.report_folder = self._report.folder  # Children leave their parts there.

    def tell_steps(self) -> None:
        """Tells the process that started this one how many steps it runs, if that asks for it."""
        tell_steps(steps_run)

    def say_if_unused(self) -> None:
        """Says so if a program that has ended never imported TensorFlow."""
        if not self._is_loaded and self._process == os.getpid():
            self._say(_NO_TENSORFLOW)

    def _on_tensorflow(self) -> Optional[Mapping[str, ModuleType]]:
        from graph_opt.compat import tf

        self._is_loaded = True

        try:
            self._install()
        except (ImportError, tf.errors.OpError) as error:
            _give_up(getattr(error, "message", str(error)))
        if not self._shows_version_1():
            return None
        from graph_opt.compat.legacy_imports import modules_of_version_1

        return modules_of_version_1()

    def _install(self) -> None:
        # All of these load TensorFlow.
        from graph_opt.cli.config_arguments import checked_config
        from graph_opt.config.settings import without_effect
        from graph_opt.session.installation import install
        from graph_opt.session.session_log import tell_more_by

        config = checked_config(self._options)
        install(
            config=config.given,
            infer_io_stage=self._options.infer_io_stage,
            defaults=config.defaults,
            sok=self._options.sok,
            contrib=True,
        )
        if self._report is None:
            tell_more_by("graph-opt run --report FILE says why")
        else:
            self._report.follow_sessions()
        if self._copies is not None:
            self._copies.watch_tensorflow()
        if self._recorded is not None:
            record(self._recorded, self._copies)
        for setting in without_effect(self._options.settings):
            self._say(_NO_OVERRIDE.format(setting))

    def _shows_version_1(self) -> bool:
        if self._options.tf1 is not None:
            return bool(self._options.tf1)
        from graph_opt.cli.script_version import verdict_of

        verdict = verdict_of(self._main_file(), sys.path)
        self._options.tf1 = verdict.version_1  # Processes that it spawns get the same.
        if verdict.version_1:
            told = "{}: it is shown TensorFlow 1 (--no-tf1: TensorFlow as it is)"
        else:
            told = "{}: TensorFlow stays as it is (--tf1: it is shown TensorFlow 1)"
        self._say(told.format(verdict.reason))
        return verdict.version_1

    def _main_file(self) -> Source:
        if self._options.module:
            return main_file_of_module(self._options.module[0])
        if not self._options.main_path:
            return main_file_running()
        return self._main or main_file_at(self._options.main_path)

    def _say(self, text: str) -> None:
        # What one rank or task says holds for all.
        if not self._is_child and os.environ.get(RANK, "0") == "0" and TOLD not in os.environ:
            say(COMMAND, text)


def _give_up(text: str) -> NoReturn:
    say_wrong(COMMAND, text)
    raise SystemExit(WRONG_INPUT)
