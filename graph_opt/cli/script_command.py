"""The command that runs a script of `graph-opt` in a process of its own."""

from __future__ import annotations

import argparse
import sys
from typing import List, Optional

from graph_opt.cli.programs import find_script

_STDIN = "-"


def command_of(options: argparse.Namespace) -> List[str]:
    """Python with the script or module, and its arguments."""
    if options.module is not None:
        return [sys.executable, "-m", *options.module]
    return [sys.executable, *options.script]


def given_script(options: argparse.Namespace) -> Optional[bytes]:
    """The script, if it comes from standard input: every process reads it.

    Raises:
      WrongInput: There is no such script.
    """
    if options.module is not None:
        return None
    if options.script[0] == _STDIN:
        return sys.stdin.buffer.read()
    find_script(options.script)
    return None
