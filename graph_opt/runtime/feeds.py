"""The feeds of a stage: what each of its steps puts into placeholders.

What `feed_dict` may hold:

    key                           value                    each step feeds
    tensor or its name            tensor                   its value, evaluated just before
    SparseTensor, RaggedTensor    the same, or its Value   all components
    tuple of keys                 tuple of values          each value to its key
    any of these                  constant                 the constant
    any of these                  callable                 its result
    any of these                  iterator, generator      its next item, until StopIteration
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import (
    Any,
    Callable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np

from graph_opt.compat import tf

Fetch = Callable[[], Sequence[Any]]


@dataclass(frozen=True)
class Slot:
    """One fed tensor: its name, dtype and static shape."""

    name: str
    dtype: Any
    shape: Any

    def convert(self, value: Any) -> np.ndarray:
        """The value as an array of this slot's dtype.

        Raises:
          tf.errors.InvalidArgumentError: it cannot be converted, or its shape does not fit.
        """
        try:
            array = np.asarray(value, dtype=self.dtype.as_numpy_dtype)
        except (TypeError, ValueError, NotImplementedError) as error:
            _refuse(self.name, "cannot be fed a {}: {}".format(type(value).__name__, error))
        if not self.shape.is_compatible_with(array.shape):
            _refuse(self.name, "has shape {}, was fed {}".format(self.shape, array.shape))
        return array


# How the components of a fed value are found: "tensor", "sparse", "ragged", or a tuple of these.
Form = Any


@dataclass(frozen=True)
class Feed:
    """One source and the tensors it feeds.

    Attributes:
      slots: The fed tensors, flattened.
      form: How a value of the source is split into the slots.
      fetched: Names of the tensors to evaluate; empty for other kinds.
      constant: The converted value; None for other kinds.
      draw: Returns the next value; None for other kinds.
    """

    slots: Tuple[Slot, ...]
    form: Form
    fetched: Tuple[str, ...] = ()
    constant: Optional[Tuple[np.ndarray, ...]] = None
    draw: Optional[Callable[[], Any]] = None


@dataclass(frozen=True)
class FeedPlan:
    """All feeds of a stage."""

    feeds: Tuple[Feed, ...] = ()

    @property
    def fed(self) -> Tuple[str, ...]:
        """Names of all fed tensors, in the order of the values `FeedReader.convert` returns."""
        return tuple(slot.name for feed in self.feeds for slot in feed.slots)

    @property
    def draws(self) -> bool:
        """Whether each step is fed something new, so that the order of reading matters."""
        return any(feed.draw is not None or feed.fetched for feed in self.feeds)

    @property
    def fetched(self) -> Tuple[str, ...]:
        """Names of all tensors to evaluate at each step."""
        return tuple(name for feed in self.feeds for name in feed.fetched)


def plan_feeds(graph: Any, feed_dict: Optional[Mapping[Any, Any]]) -> FeedPlan:
    """Reads a `feed_dict`; constants are converted, and tensors are checked, right away.

    Raises:
      tf.errors.InvalidArgumentError: a key that cannot be fed, is fed twice, or does not fit its
        value.
    """
    feeds: List[Feed] = []
    for key, value in (feed_dict or {}).items():
        feeds.extend(_feeds_of(graph, key, value))
    plan = FeedPlan(tuple(feeds))
    for name in plan.fed:
        if plan.fed.count(name) > 1:
            _refuse(name, "is fed twice")
    return plan


class Drawn(NamedTuple):
    """What one step has drawn: a value or None for each feed, and the values of what is fetched."""

    values: List[Any]
    fetched: Sequence[Any]


class FeedReader:
    """Draws the values of each step."""

    def __init__(self, plan: FeedPlan, fetch: Optional[Fetch]) -> None:
        """`fetch` returns the values of `plan.fetched`; it is None if nothing is fetched."""
        self._plan = plan
        self._fetch = fetch

    def draw(self) -> Drawn:
        """Draws from all sources of one step.

        The caller holds a lock, so that a batch's images and labels stay together even if they come
        from two generators.

        Raises:
          StopIteration: An iterator has ended.
          Exception: Whatever a callable raises.
        """
        fetched = self._fetch() if self._fetch else ()
        return Drawn([feed.draw() if feed.draw else None for feed in self._plan.feeds], fetched)

    def convert(self, drawn: Drawn) -> List[np.ndarray]:
        """Returns the values in the order of `plan.fed`; thread-safe.

        Raises:
          tf.errors.InvalidArgumentError: a value does not fit its placeholder.
        """
        fetched = iter(drawn.fetched)
        values: List[np.ndarray] = []
        for feed, value in zip(self._plan.feeds, drawn.values):
            values.extend(_values_of(feed, value, fetched))
        return values


def _values_of(feed: Feed, drawn: Any, fetched: Iterator[Any]) -> Sequence[np.ndarray]:
    if feed.constant is not None:
        return feed.constant
    if feed.fetched:
        return [next(fetched) for _ in feed.fetched]
    return _convert(feed.slots, feed.form, drawn)


def _feeds_of(graph: Any, key: Any, value: Any) -> List[Feed]:
    if isinstance(key, tuple) and isinstance(value, (tuple, list)):
        if len(key) != len(value):
            _refuse(str(key), "has {} parts, was given {}".format(len(key), len(value)))
        return [feed for k, v in zip(key, value) for feed in _feeds_of(graph, k, v)]
    form, tensors = _open_key(graph, key)
    slots = tuple(Slot(tensor.name, tensor.dtype, tensor.shape) for tensor in tensors)
    if hasattr(value, "read_value"):
        value = tf.convert_to_tensor(value)
    if isinstance(value, (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)):
        return [Feed(slots, form, fetched=_fetched(slots, form, value))]
    if hasattr(value, "__next__"):
        return [Feed(slots, form, draw=value.__next__)]
    if callable(value):
        return [Feed(slots, form, draw=value)]
    return [Feed(slots, form, constant=tuple(_convert(slots, form, value)))]


def _open_key(graph: Any, key: Any) -> Tuple[Form, List[Any]]:
    if isinstance(key, tuple):
        opened = [_open_key(graph, part) for part in key]
        return tuple(form for form, _ in opened), [t for _, tensors in opened for t in tensors]
    if isinstance(key, tf.SparseTensor):
        return "sparse", [key.indices, key.values, key.dense_shape]
    if isinstance(key, tf.RaggedTensor):
        return "ragged", [key.flat_values] + list(key.nested_row_splits)
    if isinstance(key, str):
        key = _tensor_named(graph, key)
    if not isinstance(key, tf.Tensor) or key.graph is not graph or not graph.is_feedable(key):
        _refuse(str(key), "cannot be fed: need a placeholder of the default graph")
    return "tensor", [key]


def _tensor_named(graph: Any, name: str) -> Any:
    try:
        return graph.get_tensor_by_name(name if ":" in name else name + ":0")
    except KeyError:
        _refuse(name, "is not in the default graph")


def _fetched(slots: Sequence[Slot], form: Form, value: Any) -> Tuple[str, ...]:
    tensors = _components(form, value, slots[0].name)
    if len(tensors) != len(slots):
        _refuse(slots[0].name, "has {} parts, was given {}".format(len(slots), len(tensors)))
    for slot, tensor in zip(slots, tensors):
        if tensor.dtype.base_dtype != slot.dtype.base_dtype:
            _refuse(slot.name, "is {}, was given {}".format(slot.dtype.name, tensor.dtype.name))
        if not slot.shape.is_compatible_with(tensor.shape):
            _refuse(slot.name, "has shape {}, was given {}".format(slot.shape, tensor.shape))
    return tuple(tensor.name for tensor in tensors)


def _convert(slots: Sequence[Slot], form: Form, value: Any) -> List[np.ndarray]:
    parts = _components(form, value, slots[0].name)
    if len(parts) != len(slots):
        _refuse(slots[0].name, "has {} parts, was fed {}".format(len(slots), len(parts)))
    return [slot.convert(part) for slot, part in zip(slots, parts)]


def _components(form: Form, value: Any, name: str) -> List[Any]:
    """The parts of a value, of tensors or of arrays, in the order of its key's tensors."""
    if form == "tensor":
        return [value]
    if form == "sparse":
        if not isinstance(value, (tf.SparseTensor, tf.SparseTensorValue)):
            _refuse(name, "needs a SparseTensorValue, was fed a " + type(value).__name__)
        return [value.indices, value.values, value.dense_shape]
    if form == "ragged":
        if not isinstance(value, (tf.RaggedTensor, tf.ragged.RaggedTensorValue)):
            _refuse(name, "needs a RaggedTensorValue, was fed a " + type(value).__name__)
        return [value.flat_values] + list(value.nested_row_splits)
    if not isinstance(value, (tuple, list)) or len(value) != len(form):
        _refuse(name, "needs {} values, was fed {!r}".format(len(form), type(value).__name__))
    return [part for f, v in zip(form, value) for part in _components(f, v, name)]


def _refuse(name: str, fault: str) -> NoReturn:
    raise tf.errors.InvalidArgumentError(
        None, None, "feed_dict of a stage: '{}' {}".format(name, fault)
    )
