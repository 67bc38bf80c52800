"""What is installed: pinned packages, all with hashes, for each group those that it needs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import List, Set

import pytest

from tools.setup.pins import named_packages, packages_of, with_their_own

REPOSITORY = Path(__file__).resolve().parents[3]
PROJECT = (REPOSITORY / "pyproject.toml").read_text("utf-8")
SETUP = REPOSITORY / "tools/setup"
PINS = (REPOSITORY / "constraints/2.15.1.txt").read_text("utf-8")
SECTION = PROJECT.split("[dependency-groups]")[1].split("\n[")[0]
GROUPS = re.findall(r"^(\w+) = ", SECTION, re.MULTILINE)
CHAIN = """one==1.0 \\
    --hash=sha256:aa
    # via graph-opt (pyproject.toml)
two==2.0 ; python_full_version < '3.10' \\
    --hash=sha256:bb
    # via one
two==2.1 ; python_full_version >= '3.10' \\
    --hash=sha256:cc
    # via
    #   other
    #   one
three-four==3.0 \\
    --hash=sha256:dd
    # via two
other==4.0 \\
    --hash=sha256:ee
    # via graph-opt (pyproject.toml)
"""


def told(*question: str) -> List[str]:
    return subprocess.check_output([str(SETUP / "release.sh"), *question], text=True).split()


def names_in(pins: str) -> Set[str]:
    return set(re.findall(r"^([\w-]+)==", pins, re.MULTILINE))


def test_every_pin_has_hashes() -> None:
    entries = re.split(r"\n(?=[a-z])", PINS)[1:]
    assert len(entries) > 150
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_what_packages_need_is_pinned_with_them() -> None:
    assert with_their_own({"one"}, CHAIN) == CHAIN[: CHAIN.index("other==")]
    assert names_in(with_their_own({"two"}, CHAIN)) == {"two", "three-four"}
    assert names_in(with_their_own({"other"}, CHAIN)) == {"other", "two", "three-four"}


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_has_what_it_names(group: str) -> None:
    named = named_packages(PROJECT, [group])
    assert named_packages(PROJECT, []) < named <= names_in(with_their_own(named, PINS))


def test_a_group_that_is_missing_is_an_error() -> None:
    with pytest.raises(KeyError):
        named_packages(PROJECT, ["absent"])


@pytest.mark.parametrize("release", told("all"))
def test_each_release_of_tensorflow_has_its_pins(release: str) -> None:
    pins = (REPOSITORY / "constraints" / (release + ".txt")).read_text("utf-8")
    packages = packages_of(release, "cpu")
    # The two wheels contain the same files, so one of them would overwrite the other's.
    assert len({"tensorflow", "tensorflow-cpu"} & packages) == 1
    needed = packages | named_packages(PROJECT, ["build", "demo", "test"])
    chosen = with_their_own(needed, pins)
    assert needed <= names_in(chosen)
    assert re.findall(r"^tensorflow(?:-cpu)?==([\d.]+)", chosen, re.MULTILINE) == [release]


def test_releases_of_tensorflow_are_told_from_one_file() -> None:
    rows = [line.split() for line in (SETUP / "releases.txt").read_text("utf-8").splitlines()]
    assert told("all") == [row[0] for row in rows]
    assert told("default") == [rows[0][0]]
    for release, *rest in rows:
        pythons = told("pythons", release)
        assert [*pythons, *told("packages", release), *told("limits", release)] == rest
        assert all(python.startswith("3.") for python in pythons)


@pytest.mark.parametrize("question", ["pythons", "packages", "limits"])
def test_a_release_without_a_set_up_is_an_error(question: str) -> None:
    asked = [str(SETUP / "release.sh"), question, "9.9.0"]
    ended = subprocess.run(asked, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert re.match(r"error: TF=9\.9\.0 is none .* have a set-up: 2\.15\.1 ", ended.stderr)
