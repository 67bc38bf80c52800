"""What an installation says of itself: version and extras name TensorFlow's release."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Dict, Set

import pytest

from graph_opt.cli.release import RELEASE
from graph_opt.compat.version_names import release_numbers

REPOSITORY = Path(__file__).resolve().parents[3]
TENSORFLOW = "{}.{}".format(*release_numbers())


def written(folder: Path, modules: str = "") -> Message:
    """What an installation would say of itself.

    Args:
      folder: Where to write it.
      modules: Folder in which Python looks for TensorFlow first.
    """
    subprocess.run(
        [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(folder)],
        cwd=str(REPOSITORY),
        env={**os.environ, "PYTHONPATH": modules},
        check=True,
        timeout=600,
    )
    return Parser().parsestr((folder / "graph_opt.egg-info/PKG-INFO").read_text("utf-8"))


def packages_of_extras(metadata: Message) -> Dict[str, Set[str]]:
    needed = [re.sub("[\"' ]", "", one) for one in metadata.get_all("Requires-Dist", [])]
    found: Dict[str, Set[str]] = {}
    for package, extra in re.findall("^(.*);extra==(.*)$", "\n".join(needed), re.MULTILINE):
        found.setdefault(extra, set()).add(package)
    return found


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    return written(tmp_path_factory.mktemp("metadata"))


def test_the_version_names_the_release_of_tensorflow(metadata: Message) -> None:
    assert metadata["Version"] == "{}+tf{}".format(RELEASE, TENSORFLOW)


def test_extras_are_for_users_and_install_that_release(metadata: Message) -> None:
    assert set(metadata.get_all("Provides-Extra", [])) == {"cpu", "gpu", "horovod", "parquet"}
    needed = packages_of_extras(metadata)
    for extra, packages in (("cpu", "tensorflow(-cpu)?"), ("gpu", "tensorflow")):
        pattern = r"{}=={}\.\*".format(packages, re.escape(TENSORFLOW))
        assert [one for one in needed[extra] if re.fullmatch(pattern, one)]


def test_limits_of_a_release_are_those_of_the_extras_with_these_packages(tmp_path: Path) -> None:
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow/__init__.py").touch()
    (tmp_path / "tensorflow-2.16.2.dist-info").mkdir()
    needed = packages_of_extras(written(tmp_path, str(tmp_path)))
    assert needed["parquet"] in ({"pyarrow>=10,<18"}, {"pyarrow<18,>=10"})
    assert needed["cpu"] == {"tensorflow==2.16.*", "tf-keras==2.16.*"}


def test_the_changelog_begins_with_the_release() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## \[([^\]]+)\]", text, re.MULTILINE)[:2] == ["Unreleased", RELEASE]
