"""`graph-opt run -np N`: a script as N ranks of Horovod on this machine.

This process loads neither the script nor TensorFlow. Horovod's launcher provides the rendezvous and
the ranks' environment; the processes are our own (`launch/rank_group.py`), since horovodrun ends
ranks without letting them clean up, and does not tell how they ended. How a rank ended is also left
in the rendezvous server's store, where other ranks can read it while their messages hang.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from typing import Dict, List, Optional

from graph_opt.cli.early_checks import read_config
from graph_opt.cli.exit_codes import WRONG_INPUT, WrongInput
from graph_opt.cli.horovod_launcher import rendezvous_of
from graph_opt.cli.messages import say, say_wrong
from graph_opt.cli.script_command import command_of, given_script
from graph_opt.cli.started_processes import pass_on_to_several
from graph_opt.cli.watched_program import COMMAND
from graph_opt.launch.rank_group import RankGroup
from graph_opt.reporting.tables import counted
from graph_opt.sharding.store import note_end

# Horovod ends the ranks when one has kept the others waiting for so many seconds (its default:
# never).
SETTINGS = {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "600"}


def handle(options: argparse.Namespace) -> int:
    """Runs the script in ranks; returns the exit code of the first that fails, else 0."""
    try:
        read_config(options)
        return _launch(options, given_script(options))
    except WrongInput as error:
        say_wrong(COMMAND, str(error))
        return WRONG_INPUT


def _launch(options: argparse.Namespace, given: Optional[bytes]) -> int:
    with rendezvous_of(options.num_ranks) as rendezvous:
        shared = pass_on_to_several(options)
        settings = {name: os.environ.get(name, value) for name, value in SETTINGS.items()}
        said = ", ".join("{}={}".format(*setting) for setting in settings.items())
        say(COMMAND, "{} on this machine, with {}".format(counted(options.num_ranks, "rank"), said))
        environments: List[Dict[str, str]] = [
            {**shared, **settings, **of_rank} for of_rank in rendezvous.environments
        ]

        def tell_the_others(rank: int, cause: str) -> None:
            with contextlib.suppress(OSError):
                note_end(rendezvous.store, rank, cause)

        return RankGroup(command_of(options), environments, given, tell_the_others).run()
