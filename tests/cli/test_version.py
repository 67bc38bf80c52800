"""`graph-opt --version` tells what is installed, also where something is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

import graph_opt
from graph_opt.cli.release import RELEASE
from graph_opt.compat import tf
from graph_opt.launch.op_libraries import built_releases
from graph_opt.ops.library import LIBRARY_PATH
from tests.forked_programs import start_graph_opt

PACKAGE = Path(graph_opt.__file__).parent
PROGRAM = "from graph_opt.cli.main import main; main(['--version'])"
NO_TENSORFLOW = "import sys; sys.modules['tensorflow'] = None; "


def version(before: str, folder: Path) -> List[str]:
    """What is printed in a folder, after statements."""
    done = subprocess.run(
        [sys.executable, "-c", before + PROGRAM],
        cwd=str(folder),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def copied_package(folder: Path, without: str) -> Path:
    shutil.copytree(str(PACKAGE), str(folder / "graph_opt"), ignore=shutil.ignore_patterns(without))
    return folder


def test_it_names_all_releases_and_the_instruction_set(tmp_path: Path) -> None:
    ended = start_graph_opt(["--version"], tmp_path).wait()
    assert ended.returncode == 0
    assert ended.stdout.splitlines() == [
        "graph-opt " + RELEASE,
        "TensorFlow {} ({})".format(tf.VERSION, tf.sysconfig.get_lib()),
        "compiled ops for TensorFlow {} ({})".format(
            ".".join(tf.VERSION.split(".")[:2]), LIBRARY_PATH
        ),
        "instruction set: " + graph_opt.instruction_set(1024),
    ]


def test_it_says_that_tensorflow_is_missing() -> None:
    lines = version(NO_TENSORFLOW, PACKAGE.parent)
    assert lines[0] == "graph-opt " + RELEASE
    assert lines[1].startswith(
        "TensorFlow: none: graph_opt needs TensorFlow, but none can be imported"
    )
    assert lines[2] == "compiled ops for TensorFlow {} ({})".format(
        " and ".join(built_releases(str(PACKAGE / "ops"))), PACKAGE / "ops"
    )


def test_it_says_that_the_ops_are_missing(tmp_path: Path) -> None:
    folder = copied_package(tmp_path, without="*.so")
    assert version("", folder)[2].startswith(
        "compiled ops: none: graph_opt's compiled ops are missing ({}".format(folder)
    )
    assert version(NO_TENSORFLOW, folder)[2] == "compiled ops: none in {}".format(
        folder / "graph_opt" / "ops"
    )
