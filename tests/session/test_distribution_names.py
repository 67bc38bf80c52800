"""`pkg_resources` tells scripts of DeepRec's zoo that its features are there."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

import graph_opt
from graph_opt.compat import tf

NEWER_SETUPTOOLS = pytest.mark.skipif(
    importlib.util.find_spec("pkg_resources") is not None,
    reason="setuptools still has pkg_resources",
)


@pytest.fixture(autouse=True)
def not_imported(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delitem(sys.modules, "pkg_resources", raising=False)
    yield
    sys.modules.pop("pkg_resources", None)


def stock_tf_is_told() -> bool:
    """The zoo's `check_stock_tf`."""
    pkg_resources: Any = importlib.import_module("pkg_resources")
    detailed_version = pkg_resources.get_distribution("Tensorflow").version
    return "deeprec" not in detailed_version


@NEWER_SETUPTOOLS
def test_without_pkg_resources_there_is_only_the_answer() -> None:
    with graph_opt.install(deeprec=True):
        assert not stock_tf_is_told()
        with pytest.raises(ModuleNotFoundError, match="stands here for TensorFlow's version alone"):
            sys.modules["pkg_resources"].get_distribution("numpy")
        with pytest.raises(AttributeError, match="setuptools<81"):
            sys.modules["pkg_resources"].working_set  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pkg_resources")


@pytest.mark.parametrize("is_early", [False, True])
def test_the_modules_own_function_answers_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_early: bool
) -> None:
    (tmp_path / "pkg_resources.py").write_text("def get_distribution(name): return name + '!'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    if is_early:
        importlib.import_module("pkg_resources")
    with graph_opt.install(deeprec=True):
        assert not stock_tf_is_told()
        module: Any = sys.modules["pkg_resources"]
        assert module.get_distribution("numpy") == "numpy!"
        assert module.get_distribution("tensorflow") == "tensorflow!"
        assert module.get_distribution("Tensorflow").version == tf.version.VERSION + "+deeprec"
    assert module.get_distribution("Tensorflow") == "Tensorflow!"


@NEWER_SETUPTOOLS
def test_who_does_not_ask_for_deeprec_is_not_told() -> None:
    with graph_opt.install(deeprec=False):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("pkg_resources")
