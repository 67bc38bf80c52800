"""The Dockerfile builds a release that there is, from files and commands that there are.

No image is built: `make wheel-check` runs what its second stage runs.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest

from tests.repository_checks import make_targets

REPOSITORY = Path(__file__).resolve().parents[3]
TEXT = (REPOSITORY / "Dockerfile").read_text("utf-8")
RELEASE = str(REPOSITORY / "tools/setup/release.sh")


def lines(instruction: str) -> List[str]:
    """What stands behind an instruction, each time that it occurs."""
    text = TEXT.replace("\\\n", " ")
    return re.findall(r"^{} (.*)$".format(instruction), text, flags=re.MULTILINE)


def build_arguments(command: str) -> Dict[str, str]:
    return dict(re.findall(r"--build-arg (\w+)=(\S+)", command))


def shown_commands() -> List[str]:
    page = (REPOSITORY / "docs/install.md").read_text("utf-8")
    return re.findall("docker build.*", TEXT) + re.findall("--build-arg.*`", page)


@pytest.mark.parametrize("command", shown_commands())
def test_its_releases_are_those_of_the_project(command: str) -> None:
    chosen = {"TF": "", "PYTHON": "", **dict(one.split("=") for one in lines("ARG"))}
    chosen.update(build_arguments(command.rstrip("`")))
    pythons = subprocess.check_output([RELEASE, "pythons", chosen["TF"]], text=True).split()
    assert chosen["PYTHON"] in pythons


def test_without_arguments_it_builds_the_default_release() -> None:
    default = subprocess.check_output([RELEASE, "default"], text=True).strip()
    assert "TF=" + default in lines("ARG")


def test_what_it_copies_is_there() -> None:
    copied = [line.split()[0] for line in lines("COPY") if not line.startswith("--from")]
    assert copied == [".", "configs"]
    assert all((REPOSITORY / path).exists() for path in copied)
    manifest = (REPOSITORY / "configs/cluster/kubernetes.yaml").read_text("utf-8")
    (config,) = re.findall(r"--config=/opt/graph_opt/(\S+)", manifest)
    assert "configs /opt/graph_opt/configs" in lines("COPY")
    assert (REPOSITORY / config).is_file()


def test_its_make_commands_are_there() -> None:
    named = {name for line in lines("RUN") for name in re.findall(r"make \S+ ([a-z]+)", line)}
    assert named == {"wheel"}
    assert named <= make_targets((REPOSITORY / "Makefile").read_text("utf-8"))


def test_its_pins_are_for_the_wheel() -> None:
    (command,) = [line for line in lines("RUN") if "pins.py" in line]
    shell = command.partition(" >")[0].replace("$TF", "2.15.1").replace("python ", "python3 ", 1)
    pins = subprocess.check_output(shell.split(), cwd=str(REPOSITORY), text=True)
    assert "tensorflow-cpu==2.15.1" in pins and "--hash=sha256:" in pins
    assert "numpy==" in pins and "pytest==" not in pins


def test_nothing_that_was_built_outside_comes_in() -> None:
    ignored = (REPOSITORY / ".dockerignore").read_text("utf-8").splitlines()
    assert {"build", "**/*.so"} <= set(ignored)
