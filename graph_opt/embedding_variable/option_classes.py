"""DeepRec's options of an EmbeddingVariable: they hold what a script says.

Attributes have DeepRec's names, which are not always those of the arguments.
"""

from __future__ import annotations

from typing import Any, List, Optional

from graph_opt.compat import tf
from graph_opt.embedding_variable.embedding.config_pb2 import CacheStrategy, StorageType

_GIBIBYTE = 1 << 30
_MOST_TIERS = 4
_IN_A_FOLDER = (
    StorageType.SSDHASH,
    StorageType.LEVELDB,
    StorageType.DRAM_SSDHASH,
    StorageType.DRAM_LEVELDB,
)


class InitializerOption:
    """How rows start: key k as row k % default_value_dim of a matrix that the initializer makes.

    Args:
      initializer: An initializer or its class; a tensor for one row that all keys start with; None
        for that of the variable.
      default_value_dim: Number of rows of the matrix; > 0.
      default_value_no_permission: What keys read that a filter has not admitted.

    Raises:
      ValueError: `default_value_dim` is not above 0.

    Example:
      >>> option = tf.EmbeddingVariableOption(
      ...     init_option=tf.InitializerOption(tf.zeros_initializer(), default_value_dim=1))
      >>> users = tf.get_embedding_variable("users", 16, ev_option=option)
    """

    def __init__(
        self,
        initializer: Any = None,
        default_value_dim: int = 4096,
        default_value_no_permission: float = 0.0,
    ) -> None:
        if default_value_dim <= 0:
            raise ValueError(
                "InitializerOption: default_value_dim is {}; need 1 or more".format(
                    default_value_dim
                )
            )
        self.initializer = initializer
        self.default_value_dim = default_value_dim
        self.default_value_no_permission = default_value_no_permission


class StorageOption:
    """Where rows are.

    Args:
      storage_type: One of `config_pb2.StorageType`; None for memory.
      storage_path: Folder of the files, which is made if it is missing.
      storage_size: Bytes of each tier, the fastest first; 1 GiB each if not given.
      cache_strategy: Which rows stay in the faster tier.

    Raises:
      ValueError: `storage_size` is no list, there is a path without type, or a type that keeps
        rows in files has no path.

    Example:
      >>> from tensorflow.core.framework.embedding import config_pb2
      >>> storage = tf.StorageOption(config_pb2.StorageType.DRAM_SSDHASH, "rows", [1 << 30])
      >>> option = tf.EmbeddingVariableOption(storage_option=storage)
    """

    def __init__(
        self,
        storage_type: Optional[int] = None,
        storage_path: Optional[str] = None,
        storage_size: Optional[List[int]] = None,
        cache_strategy: int = CacheStrategy.LFU,
    ) -> None:
        sizes = [_GIBIBYTE] if storage_size is None else storage_size
        if not isinstance(sizes, list):
            raise ValueError(
                "StorageOption: storage_size is a {}; need a list of bytes".format(
                    type(sizes).__name__
                )
            )
        if storage_path is not None and storage_type is None:
            raise ValueError("StorageOption: storage_path needs a storage_type")
        if storage_type in _IN_A_FOLDER and not storage_path:
            raise ValueError(
                "StorageOption: storage_type {} needs a storage_path".format(
                    StorageType(storage_type).name
                )
            )
        if storage_path is not None:
            tf.io.gfile.makedirs(storage_path)
        self.storage_type = storage_type
        self.storage_path = storage_path
        self.storage_size = sizes + [_GIBIBYTE] * (_MOST_TIERS - len(sizes))
        # The last tier takes all that is left in DeepRec, whatever its size.
        self.limited_tiers = len(sizes) if storage_size is not None else 0
        self.cache_strategy = cache_strategy


class CheckpointOption:
    """Where initial rows come from. As in DeepRec, `get_embedding_variable` does not read it.

    Example:
      >>> option = tf.EmbeddingVariableOption(ckpt=tf.CheckpointOption("model.ckpt-1000"))
    """

    def __init__(
        self,
        ckpt_to_load_from: Optional[str] = None,
        tensor_name_in_ckpt: Optional[str] = None,
        always_load_from_specific_ckpt: bool = False,
        init_data_source: Any = None,
    ) -> None:
        self.ckpt_to_load_from = ckpt_to_load_from
        self.tensor_name_in_ckpt = tensor_name_in_ckpt
        self.always_load_from_specific_ckpt = always_load_from_specific_ckpt
        self.init_data_source = init_data_source


class GlobalStepEvict:
    """Removes, when a checkpoint is saved, rows that were not updated for many steps.

    Args:
      steps_to_live: Number of steps; None or 0 for never.

    Example:
      >>> option = tf.EmbeddingVariableOption(evict_option=tf.GlobalStepEvict(steps_to_live=4000))
    """

    def __init__(self, steps_to_live: Optional[int] = None) -> None:
        self.steps_to_live = steps_to_live


class L2WeightEvict:
    """Removes, when a checkpoint is saved, rows of small weights.

    Args:
      l2_weight_threshold: Of 0.5 · Σw²; -1 for never.

    Example:
      >>> option = tf.EmbeddingVariableOption(evict_option=tf.L2WeightEvict(0.01))
    """

    def __init__(self, l2_weight_threshold: float = -1.0) -> None:
        self.l2_weight_threshold = l2_weight_threshold
        if l2_weight_threshold <= 0 and l2_weight_threshold != -1.0:
            tf.logging.warning("L2WeightEvict: l2_weight_threshold is not above 0: nothing evicted")
            self.l2_weight_threshold = -1.0


class CapacityEvict:
    """Removes the least valuable rows as soon as a table has more than a number of rows.

    Rows of batches that are still in use stay until those are done. DeepRec has no such option.

    Args:
      capacity: Number of rows of the table at most, all parts together; > 0. Each part has an equal
        share.
      cache_strategy: A row's value: `CacheStrategy.LRU` for how lately it was looked up, `LFU` for
        how often.

    Raises:
      ValueError: `capacity` is not above 0, or there is no such strategy.

    Example:
      >>> option = tf.EmbeddingVariableOption(evict_option=graph_opt.CapacityEvict(1000000))
    """

    def __init__(self, capacity: int, cache_strategy: int = CacheStrategy.LRU) -> None:
        if capacity <= 0:
            raise ValueError("CapacityEvict: capacity is {}; need 1 or more".format(capacity))
        self.capacity = int(capacity)
        self.cache_strategy = CacheStrategy(cache_strategy)


class CounterFilter:
    """Gives keys a row once they were looked up often enough.

    Args:
      filter_freq: Number of occurrences; 0 for none.

    Example:
      >>> option = tf.EmbeddingVariableOption(filter_option=tf.CounterFilter(filter_freq=3))
    """

    def __init__(self, filter_freq: int = 0) -> None:
        self.filter_freq = filter_freq


class CBFFilter:
    """As `CounterFilter`, with counts in a counting Bloom filter.

    Args:
      filter_freq: Number of occurrences; 0 for none.
      max_element_size: Number of keys that the filter is sized for.
      false_positive_probability: That of a key being admitted too early; -1 for exact counts.
      counter_type: As in DeepRec; counters here are as wide as `filter_freq` needs.

    Raises:
      ValueError: Size and probability do not fit each other.

    Example:
      >>> rare = tf.CBFFilter(3, max_element_size=1 << 30, false_positive_probability=0.01)
      >>> option = tf.EmbeddingVariableOption(filter_option=rare)
    """

    def __init__(
        self,
        filter_freq: int = 0,
        max_element_size: int = 0,
        false_positive_probability: float = -1.0,
        counter_type: Any = tf.uint64,
    ) -> None:
        exact = false_positive_probability == -1.0
        if exact and max_element_size:
            raise ValueError("CBFFilter: max_element_size needs a false_positive_probability")
        if not exact and (false_positive_probability <= 0 or max_element_size <= 0):
            raise ValueError(
                "CBFFilter: false_positive_probability is {}, max_element_size {}; both need to be "
                "above 0".format(false_positive_probability, max_element_size)
            )
        self.filter_freq = filter_freq
        self.max_element_size = max_element_size
        self.false_positive_probability = false_positive_probability
        self.counter_type = counter_type


class EmbeddingVariableOption:
    """All options of an EmbeddingVariable.

    Args:
      ht_type: Accepted, and without effect.
      ht_partition_num: Accepted, and without effect.
      evict_option: A `GlobalStepEvict`, `L2WeightEvict` or `CapacityEvict`.
      ckpt: A `CheckpointOption`.
      filter_option: A `CounterFilter` or `CBFFilter`.
      storage_option: A `StorageOption`.
      init_option: An `InitializerOption`.

    Example:
      >>> option = tf.EmbeddingVariableOption(filter_option=tf.CounterFilter(filter_freq=3))
      >>> users = tf.get_embedding_variable("users", 16, ev_option=option)
    """

    def __init__(
        self,
        ht_type: str = "",
        ht_partition_num: int = 1000,
        evict_option: Any = None,
        ckpt: Any = None,
        filter_option: Any = None,
        storage_option: Optional[StorageOption] = None,
        init_option: Optional[InitializerOption] = None,
    ) -> None:
        self.ht_type = ht_type
        self.ht_partition_num = ht_partition_num
        self.evict = evict_option
        self.ckpt = ckpt
        self.filter_strategy = filter_option
        self.storage_option = StorageOption() if storage_option is None else storage_option
        self.init = InitializerOption() if init_option is None else init_option
