"""Every block of Python in docs/ runs as it is shown."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documented import surroundings
from tests.documented.page import DOCS, REPOSITORY, blocks_of
from tests.documented.tutorial import TUTORIALS

PAGES = sorted({page.stem for page in DOCS.glob("*.md") if blocks_of(page)} - {*TUTORIALS})


def test_every_block_of_every_page_is_expected() -> None:
    expected = {}
    for node in ast.parse(inspect.getsource(surroundings)).body:
        if isinstance(node, ast.FunctionDef):
            yields = [each for each in ast.walk(node) if isinstance(each, ast.Yield)]
            expected[node.name.replace("_", "-")] = len(yields)
    for name in PAGES:
        assert len(blocks_of(DOCS / (name + ".md"))) == expected[name], name


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_a_page_runs(name: str, tmp_path: Path) -> None:
    if name.startswith("sharding") and importlib.util.find_spec("horovod") is None:
        pytest.skip("Horovod is not installed: make horovod does so")
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(REPOSITORY), *sys.path]))
    command = [sys.executable, "-m", "tests.documented.page", name]
    ended = subprocess.run(
        command, cwd=str(tmp_path), env=environment, stdout=subprocess.PIPE, text=True
    )
    assert ended.returncode == 0
    assert ended.stdout.endswith("{} blocks\n".format(len(blocks_of(DOCS / (name + ".md")))))
