"""What `graph-opt --version` prints: all that a report of a fault should name."""

from __future__ import annotations

import os
from typing import List

from graph_opt.cli.release import RELEASE
from graph_opt.launch import op_libraries

_WIDEST_ROW = 1024  # Columns that fill the vectors of any instruction set.


def lines() -> List[str]:
    """The releases of graph_opt, TensorFlow and the compiled ops, and the CPU's instruction set.

    What is not there, or does not load, is said in its line, and is no error.

    Example:
      >>> lines()[-1]
      'instruction set: AVX-512'
    """
    return ["graph-opt " + RELEASE, *_with_tensorflow()]


def _with_tensorflow() -> List[str]:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # Of its start-up nothing is asked.
    try:
        from graph_opt.compat import tf
    except ImportError as error:
        return ["TensorFlow: none: {} ({})".format(error, error.__cause__), _built()]
    return ["TensorFlow {} ({})".format(tf.VERSION, tf.sysconfig.get_lib()), *_with_ops()]


def _with_ops() -> List[str]:
    from graph_opt.compat.version_names import release_numbers
    from graph_opt.ops.instruction_set import instruction_set
    from graph_opt.ops.library import LIBRARY_PATH

    try:
        widest = instruction_set(_WIDEST_ROW)
    except ImportError as error:
        return ["compiled ops: none: {}".format(error)]
    return [
        "compiled ops for TensorFlow {}.{} ({})".format(*release_numbers()[:2], LIBRARY_PATH),
        "instruction set: {}".format(widest),
    ]


def _built() -> str:
    built = op_libraries.built_releases(op_libraries.FOLDER)
    if not built:
        return "compiled ops: none in {}".format(op_libraries.FOLDER)
    return "compiled ops for TensorFlow {} ({})".format(" and ".join(built), op_libraries.FOLDER)
