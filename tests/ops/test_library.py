"""Loading the compiled ops."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graph_opt.compat import tf
from graph_opt.ops import library, load_library
from graph_opt.ops.tensor_buffer import TensorBuffer
from tests.forked_programs import run_forked


def test_the_library_is_loaded_once() -> None:
    assert load_library() is load_library()


def test_importing_the_room_loads_nothing(tmp_path: Path) -> None:
    program = (
        "import graph_opt.ops.tensor_buffer\n"
        "assert 'libgraph_opt_ops' not in open('/proc/self/maps').read()\n"
        "graph_opt.ops.load_library()\n"
        "assert 'libgraph_opt_ops' in open('/proc/self/maps').read()\n"
    )
    done = run_forked(program, tmp_path)
    assert done.returncode == 0, done.stderr


def test_ops_are_registered_without_their_functions(tmp_path: Path) -> None:
    program = (
        "from graph_opt.compat.op_definitions import is_registered\n"
        "from graph_opt.ops import library\n"
        "assert not is_registered('TensorBufferTake')\n"
        "library.register_ops()\n"
        "assert is_registered('TensorBufferTake')\n"
        "assert library.load_library().tensor_buffer_take\n"
    )
    done = run_forked(program, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_missing_library_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "LIBRARY_PATH", "/nowhere/libgraph_opt_ops.so")
    with pytest.raises(ImportError, match=r"/nowhere/libgraph_opt_ops.so.*pip install"):
        load_library()


def test_libraries_for_other_releases_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for release in ("1.15", "3.0"):
        (tmp_path / "libgraph_opt_ops.tf{}.so".format(release)).touch()
    monkeypatch.setattr(library, "LIBRARY_PATH", str(tmp_path / "libgraph_opt_ops.tf2.0.so"))
    told = "built for TensorFlow 1.15 and 3.0, and this is TensorFlow {}".format(tf.VERSION)
    with pytest.raises(ImportError, match=re.escape(told) + ".*pip install"):
        load_library()


def test_a_library_for_another_tensorflow_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    damaged = tmp_path / "libgraph_opt_ops.so"
    damaged.write_bytes(b"not a library")
    monkeypatch.setattr(library, "LIBRARY_PATH", str(damaged))
    with pytest.raises(ImportError, match="do not load into TensorFlow"):
        load_library()


def test_gradients_end_at_a_take() -> None:
    (row,) = TensorBuffer("rows").take([tf.float32], [[3]])
    assert tf.gradients(tf.reduce_sum(row * 2.0), [row])[0] is not None
    variable = tf.get_variable("weight", [3])
    assert tf.gradients(tf.reduce_sum(row * variable), [variable])[0] is not None
