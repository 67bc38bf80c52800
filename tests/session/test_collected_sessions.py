"""Sessions that are garbage together with what belongs to them."""

from __future__ import annotations

from pathlib import Path

from tests.forked_programs import run_forked

# A Keras model in graph mode has a callable for each kind of step, as of its session.
MANY_CALLABLES = """
import gc
import graph_opt
from graph_opt.compat import tf
from tensorflow.core.protobuf.config_pb2 import CallableOptions

def forgotten():
    with tf.Graph().as_default():
        tensors = [tf.constant(number) for number in range(200)]
        session = graph_opt.Session()
        session.callables = [
            session._make_callable_from_options(CallableOptions(fetch=[tensor.name]))
            for tensor in tensors
        ]
        assert [each()[0] for each in session.callables] == list(range(200))

gc.disable()
for _ in range(2):
    forgotten()
    gc.collect()
print("collected")
"""


def test_callables_are_released_before_their_session_ends(tmp_path: Path) -> None:
    ended = run_forked(MANY_CALLABLES, tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "collected\n"), ended.stderr
