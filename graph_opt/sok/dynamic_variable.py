"""Tables of which every rank has the rows of its own keys, which come and go."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, MutableMapping, NamedTuple, Optional, Tuple, Union

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import accessed, beside
from graph_opt.compat.signatures import with_signature
from graph_opt.dynamic.options import (
    CUSTOM,
    EPOCH_LFU,
    EPOCH_LRU,
    LFU,
    LRU,
    DynamicTableOptions,
    LeastValuable,
    ProbabilityAdmission,
)
from graph_opt.ops import dynamic_table
from graph_opt.reporting.stderr import say_for_all_ranks
from graph_opt.sharding.initializers import Constant, Drawn, values_of
from graph_opt.sharding.transport_in_use import transport_in_use
from graph_opt.sok.rank_table import RankTable, rank_of_mode
from graph_opt.sok.rows import assign, export

# `assign` and `export` are here, too, as SparseOperationKit's scripts import them.
__all__ = ["DynamicVariable", "assign", "export"]

HYBRID = "hybrid"
HBM = "hbm"

_STRATEGIES = {
    "kLru": LRU,
    "kLfu": LFU,
    "kEpochLru": EPOCH_LRU,
    "kEpochLfu": EPOCH_LFU,
    "kCustomized": CUSTOM,
}
_DEFAULTS: Dict[str, Any] = dict(
    init_capacity=64 * 1024 * 1024,
    max_capacity=64 * 1024 * 1024,
    max_hbm_for_vectors=16,
    max_load_factor=0.5,
    max_bucket_size=128,
    block_size=1024,
    device_id=-1,
    io_by_cpu=False,
    evict_strategy="kLru",
    filter_ratio=1.0,
)
# Of these, those that mean something where tables are in the machine's memory.
_EFFECTIVE = ("max_capacity", "evict_strategy", "filter_ratio")
_RANDOM: Dict[str, Dict[str, Any]] = {
    HYBRID: {
        "random": Drawn("normal", 0.0, 1.0),
        "normal": Drawn("normal", 0.0, 1.0),
        "uniform": Drawn("uniform", 0.0, 1.0),
    },
    HBM: {
        "random": Drawn("uniform", -0.05, 0.05),
        "normal": Drawn("normal", 0.0, 1.0),
        "uniform": Drawn("uniform", -0.05, 0.05),
    },
}
_unnamed: MutableMapping[Any, int] = weakref.WeakKeyDictionary()
_said: List[str] = []


class _Settings(NamedTuple):
    """What `**config` of a variable says."""

    config: Dict[str, Any]
    var_type: str


@with_signature
class DynamicVariable(RankTable):
    """A table that gives a row to each key, of which this rank has those of its own keys.

    Key k is on rank k % N, whatever integer it is. A key starts with the same row on any number of
    ranks. Lookups make rows; only rows of keys in a batch are updated. All ranks must make the same
    tables in the same order.

    Args:
      dimension: Number of columns.
      initializer: None, `""` or `random` for SparseOperationKit's default: N(0, 1) in `hybrid`
        tables, U(-0.05, 0.05) in `hbm` ones; `normal`, `uniform`, `ones`, `zeros`, a number, also
        as text, or an initializer of TensorFlow or Keras.
      var_type: `hybrid` (default): at most `max_capacity` rows on each rank, of which the least
        valuable go; `hbm`: grows without bound. Both are in the machine's memory.
      name: The same on all ranks.
      constraint: Not supported.
      trainable: Whether optimizers train it.
      key_type: tf.int64 (default) or tf.int32.
      dtype: tf.float32.
      mode: None, or `localized:R`: all keys are on rank R.
      **config: SparseOperationKit's: `max_capacity`, `evict_strategy` (`kLru`, `kLfu`, `kEpochLru`,
        `kEpochLfu` or `kCustomized`) and `filter_ratio` (see `lookup_sparse`) of hybrid tables;
        the others are about GPUs and have no effect. `sok.end_epoch` ends epochs of `kEpochLfu`;
        `kEpochLru` is `kLru`.

    Attributes:
      dimension: Number of columns.
      key_type: As given.
      backend_type: As `var_type`.
      config_dict: All options.
      mode: As given.
      target_gpu: The rank that has the table; -1 if all have a part.
      initializer_str: The initializer's name.

    Raises:
      RuntimeError: There is no such mode or rank, or several ranks have not called `sok.init`.
      TypeError: There is no such option.
      ValueError: An option has a wrong value.
      NotImplementedError: Rows of another type, a constraint, or a function as initializer.

    Example:
      >>> users = sok.DynamicVariable(16, initializer="random", name="users")
      >>> pooled = sok.lookup_sparse(users, ids, combiners="sum")
    """

    def __init__(
        self,
        dimension: int,
        initializer: Any = None,
        var_type: Optional[str] = None,
        name: Optional[str] = None,
        constraint: Any = None,
        trainable: bool = True,
        key_type: Any = None,
        dtype: Any = None,
        mode: Optional[str] = None,
        **config: Any,
    ) -> None:
        self.mode = mode
        # What sessions know of when rows were touched (`sok.touched_rows`).
        self.touched_rows: MutableMapping[Any, Any] = weakref.WeakKeyDictionary()
        rank = rank_of_mode(mode, transport_in_use())
        name = name or _default_name()
        settings = _settings(name, var_type, key_type, config)
        self.config_dict = settings.config
        self.backend_type = settings.var_type
        if constraint is not None or (dtype is not None and tf.as_dtype(dtype) != tf.float32):
            raise NotImplementedError(
                "sok.DynamicVariable {!r} has rows of float32 without a constraint".format(name)
            )
        self.initializer_str = initializer if isinstance(initializer, str) else ""
        super().__init__(
            name,
            dimension,
            _options(_initial(initializer, settings, dimension), settings),
            rank,
            key_dtype=key_type or tf.int64,
            trainable=trainable,
        )

    @property
    def dimension(self) -> int:
        """Number of columns."""
        return self.dim

    @property
    def key_type(self) -> Any:
        """Type of the keys."""
        return self.key_dtype

    @property
    def handle_dtype(self) -> Any:
        """Type of the rows."""
        return tf.float32

    @property
    def size(self) -> tf.Tensor:
        """Rows that this rank has now, and their number of columns: int64 [2]."""
        return self.total_shape()

    @property
    def filter_ratio(self) -> float:
        """The probability that a filtered lookup gives a new key a row."""
        return float(self.config_dict["filter_ratio"])

    def read_and_evict(self, indices: Any) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """See `sok.sparse_read_and_evict`."""
        accessed(self)
        with beside(self):
            keys = self.as_keys(tf.convert_to_tensor(indices, dtype_hint=self.key_dtype))
            found = dynamic_table.lookup_and_evict(self.handle, keys, True)
        return found.values, found.evicted_keys, found.evicted_values


def _settings(name: str, var_type: Optional[str], key_type: Any, config: Any) -> _Settings:
    kind = HYBRID if var_type is None else var_type
    if kind not in (HYBRID, HBM):
        raise ValueError("var_type of {!r} is {!r}; choose 'hybrid' or 'hbm'".format(name, kind))
    unknown = sorted(set(config) - set(_DEFAULTS))
    if unknown:
        raise TypeError(
            "sok.DynamicVariable {!r} has no option {}; there are {}".format(
                name, ", ".join(unknown), ", ".join(sorted(_DEFAULTS))
            )
        )
    if kind == HYBRID and key_type is not None and tf.as_dtype(key_type) != tf.int64:
        raise NotImplementedError(
            "{!r} is a hybrid table, whose keys are int64; choose var_type='hbm'".format(name)
        )
    whole = {**_DEFAULTS, **config}
    if whole["evict_strategy"] not in _STRATEGIES:
        raise ValueError(
            "evict_strategy of {!r} is {!r}; choose one of {}".format(
                name, whole["evict_strategy"], ", ".join(_STRATEGIES)
            )
        )
    if not 0 < whole["filter_ratio"] <= 1:
        raise ValueError(
            "filter_ratio of {!r} is {}; need a number in (0, 1]".format(
                name, whole["filter_ratio"]
            )
        )
    without = sorted(option for option in config if kind == HBM or option not in _EFFECTIVE)
    if without and str(without) not in _said:
        _said.append(str(without))
        say_for_all_ranks(
            "sok.DynamicVariable: without effect on the CPU: {}".format(", ".join(without))
        )
    return _Settings(whole, kind)


def _options(initial: Any, settings: _Settings) -> DynamicTableOptions:
    if settings.var_type == HBM:
        return DynamicTableOptions(initial, notes_times=True)
    config = settings.config
    ratio = float(config["filter_ratio"])
    return DynamicTableOptions(
        initial,
        admission=ProbabilityAdmission(ratio) if ratio < 1 else None,
        eviction=LeastValuable(_STRATEGIES[config["evict_strategy"]]),
        capacity=int(config["max_capacity"]),
        notes_times=True,
    )


def _initial(initializer: Any, settings: _Settings, dimension: int) -> Union[Constant, Drawn]:
    if initializer is None or initializer == "":
        initializer = "random"
    if isinstance(initializer, str):
        if initializer in _RANDOM[settings.var_type]:
            found: Union[Constant, Drawn] = _RANDOM[settings.var_type][initializer]
            return found
        try:
            return Constant(float(initializer))
        except ValueError:
            pass  # the name of an initializer
    values = values_of(initializer, (1, dimension))
    if values is None:
        raise NotImplementedError(
            "the initializer is a {}: rows of keys start with a constant, or are drawn as by an "
            "initializer of TensorFlow or Keras".format(type(initializer).__name__)
        )
    made: Union[Constant, Drawn] = values
    return made


def _default_name() -> str:
    graph = tf.get_default_graph()
    number = _unnamed.get(graph, 0)
    _unnamed[graph] = number + 1
    return "sok_dynamic_Variable_{}".format(number)
