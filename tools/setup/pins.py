"""Prints what groups of pyproject.toml need as constraints/RELEASE.txt pins it, with hashes.

usage: pins.py RELEASE [GROUP...]

RELEASE is that of TensorFlow. Without a group, what graph_opt itself needs, less TensorFlow. The
groups `cpu` and `gpu` are what releases.txt has for the release.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Set

_REPOSITORY = Path(__file__).resolve().parents[2]
_RELEASE = Path(__file__).with_name("release.sh")
_DEVICES = {"cpu", "gpu"}
_PINNED = re.compile(r"^([a-z0-9-]+)==.*\n(?:[ ]+.*\n)*", re.MULTILINE)
_PARENT = re.compile(r"^ +#(?: via)? +([\w.-]+)$", re.MULTILINE)


def named_packages(project: str, groups: List[str]) -> Set[str]:
    """Names that pyproject.toml has in its dependencies and in some of its groups.

    Raises:
      KeyError: There is no such group.
    """
    lists: Dict[str, str] = dict(re.findall(r'^(\w+) = (\[.*"\])', project, re.MULTILINE))
    wanted = [one for name in ("dependencies", *groups) for one in json.loads(lists[name])]
    return {_normal(re.split(r"[^\w.-]", one)[0]) for one in wanted}


def packages_of(release: str, device: str) -> Set[str]:
    """Names of the packages that are TensorFlow of a release, for a `device`: cpu or gpu.

    Raises:
      CalledProcessError: There is no such release.
    """
    listed = subprocess.check_output([str(_RELEASE), "packages", release], text=True)
    cpu = {_normal(one.split("==")[0]) for one in listed.split()}
    return (
        cpu if device == "cpu" else {re.sub("^tensorflow-cpu$", "tensorflow", one) for one in cpu}
    )


def with_their_own(names: Set[str], pins: str) -> str:
    """The pins of packages and of all that these need, by the comments about who needs what."""
    found = set(names)
    parents: Dict[str, Set[str]] = {}
    for match in _PINNED.finditer(pins):
        needed_by = {_normal(name) for name in _PARENT.findall(match.group())}
        parents.setdefault(match.group(1), set()).update(needed_by)
    while True:
        more = {name for name in parents if parents[name] & found} - found
        if not more:
            break
        found |= more
    return "".join(one.group() for one in _PINNED.finditer(pins) if one.group(1) in found)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Prints the pins."""
    release, *groups = sys.argv[1:]
    named = [group for group in groups if group not in _DEVICES]
    names = named_packages((_REPOSITORY / "pyproject.toml").read_text("utf-8"), named)
    for device in set(groups) & _DEVICES:
        names |= packages_of(release, device)
    path = _REPOSITORY / "constraints" / (release + ".txt")
    pins = path.read_text("utf-8")
    missing = names - {match.group(1) for match in _PINNED.finditer(pins)}
    if missing:
        sys.exit(
            "error: {} has no pin of {}: with TensorFlow {} there is no set-up of {}".format(
                path.name, ", ".join(sorted(missing)), release, ", ".join(groups)
            )
        )
    sys.stdout.write(with_their_own(names, pins))


if __name__ == "__main__":
    main()
