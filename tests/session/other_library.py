"""A library of graph_opt's ops of another release, compiled for tests, in servers."""

from __future__ import annotations

import ctypes
import functools
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, List

from tensorflow.core.framework import op_def_pb2

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import op_definition
from graph_opt.ops.library import load_library

if TYPE_CHECKING:
    from tests.conftest import MadeOnce  # Servers import this module, and have no pytest.

RELEASE = "0.0.9"
SOURCE = Path(__file__).with_name("other_library.cc")
OPS_SRC = Path(__file__).resolve().parents[2] / "ops_src"


def own_ops() -> List[str]:
    """The names of all ops in our sources."""
    texts = [path.read_text("utf-8") for path in OPS_SRC.glob("kernels/*/*.cc")]
    return sorted(name for text in texts for name in re.findall(r'REGISTER_OP\("(\w+)"', text))


def own_definitions() -> List[Any]:
    """How this process has them."""
    load_library()
    ops = [op_def_pb2.OpDef() for _ in own_ops()]
    for op, name in zip(ops, own_ops()):
        op.CopyFrom(op_definition(name))
    return ops


def other_definitions() -> List[Any]:
    """The same, but for an attribute of one of them."""
    ops = own_definitions()
    gather = ops[own_ops().index("GroupEmbeddingGather")]
    gather.attr.add(name="of_another_release", type="int").default_value.i = 0
    return ops


def compiled_library(compiled_once: MadeOnce) -> Path:
    """The library, without ops."""

    def make(folder: Path) -> None:
        flags = [*tf.sysconfig.get_compile_flags(), "-I", str(OPS_SRC), "-O1", "-fPIC", "-shared"]
        if not any("-std=" in flag for flag in flags):
            flags.append("-std=c++14")  # TensorFlow 1 leaves it open.
        flags.append('-DGRAPH_OPT_RELEASE="{}"'.format(RELEASE))
        flags.append("-DGRAPH_OPT_OPS=" + ",".join('"{}"'.format(name) for name in own_ops()))
        output = ["-o", str(folder / "other_library.so"), *tf.sysconfig.get_link_flags()]
        subprocess.run(["c++", *flags, str(SOURCE), *output], check=True, timeout=900)

    return compiled_once("other_library", make) / "other_library.so"


def loading(library: Path, definitions: List[Any]) -> Callable[[], object]:
    """What a server's process does to have that library with these ops."""
    listed = op_def_pb2.OpList(op=definitions).SerializeToString()
    return functools.partial(_load, str(library), listed)


def _load(library: str, definitions: bytes) -> None:
    tf.load_library(library)
    ctypes.CDLL(library).RegisterOps(definitions, len(definitions))
