"""What an installation says of itself: version and extras name TensorFlow's release."""

from __future__ import annotations

import re
import subprocess
import sys
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from graph_opt.cli.release import RELEASE
from graph_opt.compat.version_names import release_numbers

REPOSITORY = Path(__file__).resolve().parents[3]
TENSORFLOW = "{}.{}".format(*release_numbers())


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    folder = tmp_path_factory.mktemp("metadata")
    subprocess.run(
        [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(folder)],
        cwd=str(REPOSITORY),
        check=True,
        timeout=600,
    )
    return Parser().parsestr((folder / "graph_opt.egg-info/PKG-INFO").read_text("utf-8"))


def test_the_version_names_the_release_of_tensorflow(metadata: Message) -> None:
    assert metadata["Version"] == "{}+tf{}".format(RELEASE, TENSORFLOW)


def test_extras_are_for_users_and_install_that_release(metadata: Message) -> None:
    assert set(metadata.get_all("Provides-Extra", [])) == {"cpu", "gpu", "horovod", "parquet"}
    needed = [re.sub("[\"' ]", "", one) for one in metadata.get_all("Requires-Dist", [])]
    for extra, packages in (("cpu", "tensorflow(-cpu)?"), ("gpu", "tensorflow")):
        pattern = r"{}=={}\.\*;extra=={}".format(packages, re.escape(TENSORFLOW), extra)
        assert [one for one in needed if re.fullmatch(pattern, one)]


def test_the_changelog_begins_with_the_release() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## \[([^\]]+)\]", text, re.MULTILINE)[:2] == ["Unreleased", RELEASE]
