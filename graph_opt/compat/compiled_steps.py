"""Steps of a session that are compiled once, whichever threads run them.

TensorFlow compiles each callable anew, and until it is compiled no other step of the session
begins. What `Session.run` compiles it finds again by the feeds, fetches and targets, while threads
and tracing are chosen in each run.
"""

from __future__ import annotations

import operator
from typing import Any, Callable, Dict, Optional, Sequence

import numpy as np
from tensorflow.core.protobuf.config_pb2 import RunOptions

from graph_opt.compat import callables, tf
from graph_opt.compat.c_functions import c_api

# No session has so many pools. TensorFlow compiles a step before it finds that out.
_NO_SUCH_POOL = 2**31 - 1
_NO_SUCH_POOL_MESSAGE = "Invalid inter_op_thread_pool"

Run = Callable[..., Any]

_c_op = operator.attrgetter("_c_op")


class CompiledStep:
    """A step without results. It has no time limit, even if the session's config has one.

    Args:
      session: A `tf.Session`. One that is not in this process compiles each of the step's forms.
      targets: Names of the operations to run.
      feeds: Names of the tensors to feed.

    Raises:
      tf.errors.OpError: the step cannot be compiled, or the session is closed.
    """

    def __init__(self, session: Any, targets: Sequence[str], feeds: Sequence[str]) -> None:
        self._session = session
        self._targets = list(targets)
        self._feeds = list(feeds)
        self._callables: Dict[bool, Run] = {}
        if callables.is_direct_session(session):
            self._compile()

    def form(self, inter_op_thread_pool: int, traced: bool = False) -> Run:
        """A function that runs the step.

        Args:
          inter_op_thread_pool: As `callables.compile_call` takes it.
          traced: Whether to collect the times of each op; the function then takes the keyword
            argument `run_metadata`.

        Returns:
          A function of one numpy value for each feed, which several threads may call at once. It
          raises what those of `callables.compile_call` raise.
        """
        if callables.is_direct_session(self._session):
            return self._direct_form(inter_op_thread_pool, traced)
        if traced not in self._callables:
            self._callables[traced] = callables.compile_call(
                self._session,
                targets=self._targets,
                feeds=self._feeds,
                timeout_millis=callables.NO_TIMEOUT,
                traced=traced,
            )
        return self._callables[traced]

    def _direct_form(self, pool: int, traced: bool = False) -> Run:
        timeout = callables.timeout_option(self._session, callables.NO_TIMEOUT)
        options = RunOptions(timeout_in_ms=timeout, inter_op_thread_pool=pool)
        if traced:
            options.trace_level = callables.trace_level(self._session)
        return _direct_form(self._session, self._targets, self._feeds, options)

    def _compile(self) -> None:
        self._session._extend_graph()
        tensors = [self._session.graph.get_tensor_by_name(name) for name in self._feeds]
        values = [np.empty([0], tensor.dtype.as_numpy_dtype) for tensor in tensors]
        try:
            self._direct_form(_NO_SUCH_POOL)(*values)
        except tf.errors.InvalidArgumentError as error:
            if _NO_SUCH_POOL_MESSAGE not in str(error.message):
                raise


def _direct_form(
    session: Any, targets: Sequence[str], feeds: Sequence[str], run_options: Any
) -> Run:
    """The step as `Session.run` runs it, without what `run` does in Python."""
    # Not their C handles: the garbage collector sees no references to the graph in these.
    operations = [session.graph.get_operation_by_name(name) for name in targets]
    tensors = [session.graph.get_tensor_by_name(name) for name in feeds]
    options = _Buffer(run_options)
    run_step = c_api.TF_SessionRun_wrapper

    def run(*values: Any, collected: Optional[Any] = None) -> None:
        fed = _fed(tensors, values) if tensors else {}
        handles = list(map(_c_op, operations))
        run_step(session._session, options.pointer, fed, [], handles, collected)

    def run_traced(*values: Any, run_metadata: Any) -> None:
        collected = c_api.TF_NewBuffer()
        try:
            run(*values, collected=collected)
            run_metadata.ParseFromString(c_api.TF_GetBuffer(collected))
        finally:
            c_api.TF_DeleteBuffer(collected)

    return run_traced if run_options.trace_level else run


def _fed(tensors: Sequence[Any], values: Sequence[Any]) -> Dict[Any, np.ndarray]:
    fed = {}
    for tensor, value in zip(tensors, values):
        # Other steps return scalars that are no arrays.
        if not isinstance(value, np.ndarray):
            value = np.asarray(value, tensor.dtype.as_numpy_dtype)
        fed[tensor._as_tf_output()] = value
    return fed


class _Buffer:
    """A message of protobuf as TensorFlow's C functions take it."""

    def __init__(self, message: Any) -> None:
        self.pointer = c_api.TF_NewBufferFromString(message.SerializeToString())

    def __del__(self) -> None:
        try:
            c_api.TF_DeleteBuffer(self.pointer)
        except (AttributeError, TypeError):
            pass  # There is none, or the interpreter is shutting down.
