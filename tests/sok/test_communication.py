"""`sok.init` in a process of its own, which it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph_opt import sok
from graph_opt.sharding.transport import OneRank
from graph_opt.sok.communication import communicating_through
from tests.forked_programs import run_script
from tests.sok import initialized_process


def test_init_in_its_own_process(tmp_path: Path) -> None:
    ran = run_script(Path(initialized_process.__file__), tmp_path)
    assert ran.returncode == 0 and "done" in ran.stdout, ran.stderr


def test_arguments_that_static_tables_do_not_take_are_named() -> None:
    with communicating_through(OneRank()):
        with pytest.raises(ValueError, match="low_frequency_filter is for hybrid"):
            sok.lookup_sparse(sok.Variable([[1.0]]), [[0]], use_low_frequency_filter=True)
        with pytest.raises(TypeError, match="two values of trainable"):
            sok.Variable([[1.0]], True, trainable=False)
