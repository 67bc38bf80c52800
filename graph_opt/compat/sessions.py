"""Private parts of TensorFlow's sessions, in one place.

To see every step of a session before it runs (`SteppedSession`), to turn an open session into
another class (`adopt`), and to use it from threads that do not keep it alive (`share_session`).
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
from tensorflow.python.client import session as session_module
from tensorflow.python.training import monitored_session

from graph_opt.compat import tf
from graph_opt.compat.c_functions import c_api
from graph_opt.compat.collection import outside_collection
from graph_opt.compat.kept_fetches import KeptFetchesSession
from graph_opt.compat.left_behind import LeftBehind
from graph_opt.compat.partial_runs import feed_tensors
from graph_opt.compat.shared_sessions import SessionHandle, SharedSession
from graph_opt.compat.shared_sessions import share_session as share_session
from graph_opt.compat.tensor_keys import key_of, tensor_of

Elements = List[Any]
Given = Tuple[Elements, Elements, Elements]
Prepared = Tuple[Elements, Elements, Dict[Any, Any]]
RunPrepared = Callable[[Elements, Elements, Dict[Any, Any]], List[Any]]

# What TensorFlow's MonitoredTrainingSession takes for "not given".
USE_DEFAULT = monitored_session.USE_DEFAULT
_PARTIAL = (
    "a partial run cannot read the weights of a model that trains with pipeline_dense: use "
    "session.run, or train in the partial run"
)


class SteppedSession(KeptFetchesSession):
    """A mixin for classes derived from `tf.Session`: `prepare_step` sees each step first.

    Every way to run something leads there: `run`, `make_callable`, `partial_run`, `Tensor.eval`,
    and the compiled calls that Keras makes. TensorFlow takes apart structures of fetches (dicts,
    `SparseTensor`, names) before, and puts them together again afterwards.
    """

    _handle_holder: Optional[SessionHandle] = None
    _shared: Optional[SharedSession] = None

    def prepare_step(
        self,
        fetches: Elements,
        targets: Elements,
        feeds: Elements,
        values: Sequence[Any] = (),
        runs_now: bool = True,
        is_partial: bool = False,
    ) -> Given:
        """Called before a step; may replace what it runs.

        Args:
          fetches: Tensors to fetch, without the fed ones.
          targets: Operations to run.
          feeds: Tensors that the step feeds.
          values: Their values, unless the step is being compiled.
          runs_now: Whether the step is about to run, rather than being compiled.
          is_partial: Whether it is a partial run, or a part of one.

        Returns:
          As many fetches as given, in the same order; the operations to run; and as many feeds.
        """
        raise NotImplementedError

    def needs_more_feeds(self, given: Given, is_partial: bool = False) -> bool:
        """Whether `more_feeds` has any for a step that was prepared."""
        return False

    def more_feeds(self, given: Given, is_partial: bool = False) -> Any:
        """A dict of what a prepared step is also fed."""
        return {}

    def goes_through_run(self, given: Given) -> bool:
        """Whether a compiled step that was prepared is to be run as a step of `run`."""
        return self.needs_more_feeds(given)

    def run_step(
        self, given: Given, prepared: Prepared, run: RunPrepared, is_partial: bool
    ) -> List[Any]:
        """Runs a step of `run`.

        Args:
          given: Its fetches, targets and feeds.
          prepared: What it comes to: fetches, targets, and values by the feeds' references.
          run: Runs such a step and returns the values of its fetches.
          is_partial: Whether it is a part of a partial run.

        Returns:
          The values of the prepared fetches.
        """
        return run(*prepared)

    def fail_early(self, given: Given, is_partial: bool = False) -> None:
        """Raises what a step that is about to run is known to fail with."""

    def step_ended(
        self, error: Optional[BaseException], given: Given, is_partial: bool = False
    ) -> None:
        """Called when a step has ended, with `error` or, if that is None, well."""

    def fed_value(self, tensor: Any, value: Any) -> Any:
        """What to feed for `tensor` in place of `value`, which is an array or a TensorHandle."""
        return value

    def fetched_values(self, fetches: Elements, values: List[Any]) -> List[Any]:
        """The results of a step, given what it fetched for them."""
        return values

    def step_options(self, options: Any) -> Any:
        """The RunOptions of a step, in place of those given, if any; None for TensorFlow's."""
        return options

    def call(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Runs a step of `run`, and opens the session first; may raise `LeftBehind`."""
        return step(*arguments)

    def error_raised(self, error: tf.errors.OpError) -> tf.errors.OpError:
        """The error to raise in the place of a step's; it has no node and no op."""
        return type(error)(None, None, str(error.message))

    def message_for_script(self, error: BaseException) -> Optional[str]:
        """The message of an error to raise in the place of a step's that ranks were told of.

        Returns:
          None for the error itself.
        """
        return None

    def knows_graph(self) -> bool:
        """Whether the session may take over what its graph has; nothing can be added meanwhile."""
        return True

    def learn_graph(self) -> None:
        """Called outside of steps until `knows_graph`."""

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Like `tf.Session.run`."""
        return super().run(fetches, feed_dict, self.step_options(options), run_metadata)

    def _extend_graph(self) -> None:
        session = _as_session(self)
        while True:
            with session._graph._session_run_lock():
                if self.knows_graph():
                    # What the base does, which would take the lock a second time in each step.
                    c_api.ExtendSession(session._session)
                    return
            self.learn_graph()

    def _do_call(self, step: Callable[..., Any], *arguments: Any) -> Any:
        base: Any = super()

        def run(*given: Any) -> Any:
            try:
                return self.call(step, *given)
            except tf.errors.OpError as error:
                raise self.error_raised(error) from None

        try:
            return base._do_call(run, *arguments)
        except LeftBehind as ended:
            error = ended.error
        raise error

    def _do_run(
        self,
        handle: Any,
        target_list: Elements,
        fetch_list: Elements,
        feed_dict: Any,
        options: Any,
        run_metadata: Any,
    ) -> List[Any]:
        feeds = [tensor_of(reference) for reference in feed_dict]
        values = list(feed_dict.values())
        is_partial = handle is not None
        given = fetch_list, target_list, feeds
        fetches, targets, replaced = self.prepare_step(*given, values, is_partial=is_partial)
        fed = {
            key_of(other): self.fed_value(tensor, value)
            for other, tensor, value in zip(replaced, feeds, values)
        }
        more = self.more_feeds(given, is_partial)
        if more:
            fed.update({key_of(tensor): value for tensor, value in more.items()})
        base: Any = super()

        def run(fetches: Elements, targets: Elements, fed: Any) -> List[Any]:
            arrays = {key: _as_array(key, value) for key, value in fed.items()}
            found: List[Any] = base._do_run(handle, targets, fetches, arrays, options, run_metadata)
            return found

        # Written out, as a block of `_noticing_end` takes longer than most of what it surrounds.
        try:
            self.fail_early(given, is_partial)
            results = self.run_step(given, (fetches, targets, fed), run, is_partial)
        except BaseException as error:
            self._fail(error, given, is_partial)
            raise
        self.step_ended(None, given, is_partial)
        return self.fetched_values(fetch_list, results)

    def run_alone(self, operation: Any) -> None:
        """Runs one operation as it is."""
        base: Any = super()
        base._do_run(None, [operation], [], {}, None, None)

    def make_callable(
        self,
        fetches: Any,
        feed_list: Optional[Sequence[Any]] = None,
        accept_options: bool = False,
    ) -> Callable[..., Any]:
        """Like `tf.Session.make_callable`."""
        base: Any = super()
        if feed_list is not None:
            return base.make_callable(fetches, feed_list, accept_options)
        accept_options = accept_options or self.step_options(None) is not None
        handler = session_module._FetchHandler(_as_session(self).graph, fetches, {})
        given: Given = (handler.fetches(), handler.targets(), [])
        elements = self.prepare_step(*given, runs_now=False)
        whole = functools.partial(_as_session(self).run, fetches)
        if self.needs_more_feeds(given):
            return whole
        if elements == given:
            inner = base.make_callable(fetches, None, accept_options)
            return functools.partial(self._run_prepared, given, inner, whole)
        flat = base.make_callable(list(elements[0]) + list(elements[1]), None, accept_options)

        def run_replaced(**options: Any) -> Any:
            values = flat(**options)[: len(elements[0])]
            return handler.build_results(self, values)

        return functools.partial(self._run_prepared, given, run_replaced, whole)

    def _run_prepared(
        self,
        given: Given,
        inner: Callable[..., Any],
        whole: Callable[..., Any],
        **named: Any,
    ) -> Any:
        if self.goes_through_run(given):
            return whole(**named)
        options = self.step_options(named.get("options"))
        self.prepare_step(*given)
        with self._noticing_end(given):
            return inner(**named) if options is None else inner(**dict(named, options=options))

    @contextlib.contextmanager
    def _noticing_end(self, given: Given, is_partial: bool = False) -> Iterator[None]:
        try:
            self.fail_early(given, is_partial)
            yield
        except BaseException as error:
            self._fail(error, given, is_partial)
            raise
        self.step_ended(None, given, is_partial)

    def _fail(self, error: BaseException, given: Given, is_partial: bool) -> None:
        """Ends a step that has failed; raises what the script is to see in place of its error."""
        self.step_ended(error, given, is_partial)
        message = self.message_for_script(error)
        if message is None:
            return

        def fail() -> None:
            raise type(error)(None, None, message)

        base: Any = super()
        try:
            base._do_call(fail)  # TensorFlow finds the node, and says where the script made it.
        except tf.errors.OpError as told:
            raise told from None

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> Any:
        """Like `tf.Session.partial_run_setup`."""
        graph = _as_session(self).graph
        handler = session_module._FetchHandler(graph, fetches, {})
        given = handler.fetches(), handler.targets(), feed_tensors(graph, feeds)
        replaced, targets, fed = self.prepare_step(*given, runs_now=False, is_partial=True)
        if self.needs_more_feeds(given, is_partial=True):
            raise tf.errors.InvalidArgumentError(None, None, _PARTIAL)
        base: Any = super()
        return base.partial_run_setup(list(replaced) + list(targets), fed)

    def _make_callable_from_options(self, callable_options: Any) -> Callable[..., Any]:
        graph = _as_session(self).graph
        fetches = [graph.as_graph_element(name) for name in callable_options.fetch]
        targets = [graph.as_graph_element(name) for name in callable_options.target]
        feeds = [graph.as_graph_element(name) for name in callable_options.feed]
        given = fetches, targets, feeds
        replaced, replaced_targets, replaced_feeds = self.prepare_step(*given, runs_now=False)
        options = type(callable_options).FromString(callable_options.SerializeToString())
        for field in (options.fetch, options.target, options.feed):
            del field[:]
        options.fetch.extend(tensor.name for tensor in replaced)
        options.target.extend(operation.name for operation in replaced_targets)
        options.feed.extend(tensor.name for tensor in replaced_feeds)
        given_options = options.run_options if options.HasField("run_options") else None
        step_options = self.step_options(given_options)
        if step_options is not None:
            options.run_options.CopyFrom(step_options)
        base: Any = super()
        inner = base._make_callable_from_options(options)

        def call(*values: Any, **keywords: Any) -> Any:
            if self.goes_through_run(given):
                everything = [*fetches, *targets]
                return self.run(everything, dict(zip(feeds, values)))[: len(fetches)]
            self.prepare_step(fetches, targets, feeds, values)
            fed = [self.fed_value(tensor, value) for tensor, value in zip(feeds, values)]
            with self._noticing_end(given):
                return inner(*fed, **keywords)

        return call

    def close(self) -> None:
        """Like `tf.Session.close`."""
        if self._handle_holder is not None:
            if self._handle_holder.deleted:
                return  # Both are garbage, and the handle was collected first.
            self._handle_holder.closed = True
        base: Any = super()
        base.close()

    def __del__(self) -> None:
        if _as_session is None:
            return  # Modules are being cleared, as the process ends: Keras keeps a session in one.
        if "_session" not in self.__dict__:
            return  # The constructor failed before there was a session to close.
        if _as_session(self)._closed:
            self._release()  # It waits for nothing.
        else:
            outside_collection(self._release)

    def _release(self) -> None:
        if self._handle_holder is None:
            base: Any = super()
            base.__del__()
            return
        if not self._handle_holder.closed:
            with contextlib.suppress(Exception):  # There is nobody left to report it to.
                _as_session(self).close()
        # The threads' session may still hold the handle: the last holder deletes it.
        _as_session(self)._session = None
        self._shared = None
        self._handle_holder = None


def adopt(instance: Any, new_class: type) -> Any:
    """Makes `instance` an object of `new_class`, a subclass of its class, and returns it.

    TensorFlow's session managers make objects of fixed classes, which become ours this way.

    Raises:
      TypeError: `new_class` is not a subclass of the instance's class.
    """
    if isinstance(instance, new_class):
        return instance
    if not issubclass(new_class, type(instance)):
        raise TypeError(
            "{!r} is a {}, and only a {} can become a {}".format(
                instance,
                type(instance).__name__,
                new_class.__bases__[-1].__name__,
                new_class.__name__,
            )
        )
    instance.__class__ = new_class
    return instance


def session_config(session: Any) -> Any:
    """The stock ConfigProto that a session was opened with, or None."""
    return session._config


def _as_session(session: Any) -> Any:
    """For the type checker: a mixin's `self` is a session."""
    return session


def _as_array(key: Any, value: Any) -> np.ndarray:
    """A fed value as sessions of TensorFlow 1 want it. All but ours are arrays already."""
    if isinstance(value, np.ndarray):
        return value
    return np.asarray(value, tensor_of(key).dtype.as_numpy_dtype)
