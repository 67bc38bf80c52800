"""A second object on an open session, for threads that must not keep the session alive."""

from __future__ import annotations

import weakref
from typing import Any, List

from graph_opt.compat import tf
from graph_opt.compat.c_functions import c_api
from graph_opt.compat.collection import call_with_borrowed


class SessionHandle:
    """Owns the C++ session once several Python objects use it; deleted with the last of them."""

    def __init__(self, owner: Any) -> None:
        self._pointer = owner._session
        self.closed = bool(owner._closed)
        self.deleted = False

    def __del__(self) -> None:
        self.deleted = True
        try:
            c_api.TF_DeleteSession(self._pointer)
        except (AttributeError, TypeError):
            pass  # The interpreter is shutting down: TensorFlow's own sessions leak as well.


class SharedSession(tf.Session):
    """The session of `share_session`: runs steps, opens and closes nothing."""

    def __init__(self, owner: Any) -> None:
        # Without the base's __init__, which would open a second C++ session.
        self._graph = owner.graph
        self._target = owner._target
        self._config = owner._config
        self._add_shapes = owner._add_shapes
        self._delete_lock = owner._delete_lock
        self._dead_handles: List[Any] = []
        self._session = owner._session
        self._holder = owner._handle_holder
        self._owner = weakref.ref(owner)
        self._owner_id = id(owner)
        self._owner_hash = hash(owner)

    # Dicts keyed by session (runners, traces) find their entry with either object.
    def __hash__(self) -> int:
        return self._owner_hash

    def __eq__(self, other: object) -> bool:
        return other is self or id(other) == self._owner_id

    @property
    def _closed(self) -> bool:
        return bool(self._holder.closed)

    def _extend_graph(self) -> None:
        # Callers hold locks that the end of a session takes.
        call_with_borrowed(self._owner, self._extend_graph_of)

    def _extend_graph_of(self, owner: Any) -> None:
        if owner is None:
            super()._extend_graph()
        else:
            owner._extend_graph()

    def close(self) -> None:
        """Does nothing: the owner closes the session."""

    def __del__(self) -> None:
        self._session = None


def share_session(owner: Any) -> Any:
    """A second `tf.Session` object on the session of `owner`.

    It runs steps like the owner but does not keep the owner alive, and closing it does nothing.
    `SteppedSession.prepare_step` does not see its steps. As a key of a dict it equals its owner.

    Args:
      owner: An open session whose class has `SteppedSession` among its bases.

    Returns:
      The same object each time.
    """
    if owner._shared is None:
        owner._handle_holder = SessionHandle(owner)
        owner._shared = SharedSession(owner)
    return owner._shared
