"""Names of options that are known without TensorFlow are those that TensorFlow's classes have."""

from __future__ import annotations

import importlib.machinery
from typing import Any

import pytest

from graph_opt.config.option_names import option_names
from graph_opt.config.text import option_paths


def test_names_are_those_of_the_messages() -> None:
    names = option_names()
    assert {"allow_soft_placement", "opt_level", "do_async_embedding", "threads_num"} < set(names)
    assert set(names) == set(option_paths())
    assert names["do_async_embedding"] and not names["threads_num"]


def test_no_name_is_known_where_tensorflow_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str, *_: Any) -> None:
        return None

    monkeypatch.setattr(importlib.machinery.PathFinder, "find_spec", find_nothing)
    assert option_names() == {}
