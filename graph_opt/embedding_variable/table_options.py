"""From DeepRec's options to those of a dynamic table."""

from __future__ import annotations

import os
from typing import Any, Optional

from graph_opt.compat import tf
from graph_opt.dynamic.options import (
    LFU,
    LRU,
    Admission,
    Bank,
    BloomAdmission,
    CounterAdmission,
    DynamicTableOptions,
    Eviction,
    L2Threshold,
    LeastValuable,
    StepsToLive,
    Tiers,
)
from graph_opt.embedding_variable.embedding.config_pb2 import CacheStrategy, StorageType
from graph_opt.embedding_variable.option_classes import (
    CapacityEvict,
    CBFFilter,
    CounterFilter,
    GlobalStepEvict,
    L2WeightEvict,
)
from graph_opt.reporting.warnings_given import warn_once

_ON_GPU = (StorageType.HBM, StorageType.HBM_DRAM, StorageType.HBM_DRAM_SSDHASH)
# Which of a StorageOption's sizes is that of memory, and which that of the file.
_TIERS = {
    StorageType.PMEM_LIBPMEM: (None, 0),
    StorageType.SSDHASH: (None, 0),
    StorageType.LEVELDB: (None, 0),
    StorageType.DRAM_PMEM: (0, 1),
    StorageType.DRAM_SSDHASH: (0, 1),
    StorageType.DRAM_LEVELDB: (0, 1),
    StorageType.DRAM_PMEM_SSDHASH: (0, 2),
    StorageType.HBM_DRAM_SSDHASH: (1, 2),
}
_VALUES = {CacheStrategy.LRU: LRU, CacheStrategy.LFU: LFU}
_DEEPRECS_PARTS = 1000
# What a table whose rows are all in a file keeps in memory.
_CACHE_BYTES = 64 << 20


def table_options(
    name: str, option: Any, bank_rows: int, steps_to_live: Optional[int] = None, parts: int = 1
) -> DynamicTableOptions:
    """What a dynamic table, or each of its parts, is made with.

    Args:
      name: Of the variable, for errors.
      option: An `EmbeddingVariableOption`.
      bank_rows: Number of rows that new rows start from.
      steps_to_live: The deprecated argument of `get_embedding_variable`.
      parts: Number of parts of the table.

    Raises:
      ValueError: Options contradict each other, or there is no such kind.
    """
    _say_what_is_saved(name)
    _say_ignored(name, option)
    return DynamicTableOptions(
        initial=Bank(bank_rows),
        no_permission=float(option.init.default_value_no_permission),
        admission=_admission(name, option.filter_strategy),
        eviction=_eviction(name, option.evict, steps_to_live),
        capacity=_capacity(option.evict, parts),
        tiers=_tiers(name, option.storage_option),
        record_frequency=os.environ.get("TF_RECORD_FREQ", "") == "1",
    )


def _admission(name: str, chosen: Any) -> Optional[Admission]:
    if chosen is None:
        return None
    if not isinstance(chosen, (CounterFilter, CBFFilter)):
        raise _unknown(name, "filter_option", chosen, "CounterFilter or a CBFFilter")
    if not chosen.filter_freq:
        return None
    if isinstance(chosen, CounterFilter) or chosen.false_positive_probability == -1.0:
        return CounterAdmission(int(chosen.filter_freq))
    return BloomAdmission(
        int(chosen.filter_freq),
        int(chosen.max_element_size),
        float(chosen.false_positive_probability),
    )


def _eviction(name: str, chosen: Any, steps_to_live: Optional[int]) -> Optional[Eviction]:
    rule = _rule_of_option(name, chosen)
    if rule is None:
        return StepsToLive(int(steps_to_live)) if steps_to_live else None
    if steps_to_live and not isinstance(rule, StepsToLive):
        raise ValueError(
            "EmbeddingVariable {!r}: rows are evicted by steps_to_live or by {}, not by "
            "both".format(name, type(chosen).__name__)
        )
    return rule


def _rule_of_option(name: str, chosen: Any) -> Optional[Eviction]:
    if chosen is None:
        return None
    if isinstance(chosen, GlobalStepEvict):
        return StepsToLive(int(chosen.steps_to_live)) if chosen.steps_to_live else None
    if isinstance(chosen, L2WeightEvict):
        by_weight = chosen.l2_weight_threshold > 0
        return L2Threshold(float(chosen.l2_weight_threshold)) if by_weight else None
    if isinstance(chosen, CapacityEvict):
        return LeastValuable(_VALUES[chosen.cache_strategy])
    raise _unknown(name, "evict_option", chosen, "GlobalStepEvict, L2WeightEvict or CapacityEvict")


def _capacity(evict: Any, parts: int) -> int:
    return -(-evict.capacity // parts) if isinstance(evict, CapacityEvict) else 0


def _tiers(name: str, storage: Any) -> Optional[Tiers]:
    kind = storage.storage_type or StorageType.DEFAULT
    if kind in _ON_GPU:
        _warn(name, _type_name(kind) + " keeps rows on a GPU in DeepRec; here they are in memory")
    if kind in _TIERS and storage.storage_path:
        return _tiers_in(kind, storage)
    if kind == StorageType.PMEM_MEMKIND:
        _warn(name, _type_name(kind) + " keeps rows in memory here")
    elif kind in _TIERS and kind not in _ON_GPU:
        _warn(name, _type_name(kind) + " without storage_path keeps rows in memory here")
    return None


def _type_name(kind: Any) -> str:
    return "storage type {}".format(StorageType(kind).name)


def _tiers_in(kind: Any, storage: Any) -> Tiers:
    memory, file = _TIERS[kind]
    memory_bytes = _CACHE_BYTES if memory is None else storage.storage_size[memory]
    file_bytes = storage.storage_size[file] if file < storage.limited_tiers else 0
    return Tiers(int(memory_bytes), storage.storage_path, int(file_bytes))


def _unknown(name: str, argument: str, value: Any, need: str) -> ValueError:
    return ValueError(
        "EmbeddingVariable {!r}: {} is a {}; need a {}".format(
            name, argument, type(value).__name__, need
        )
    )


def _say_what_is_saved(name: str) -> None:
    if os.environ.get("TF_EV_SAVE_FILTERED_FEATURES", "true").lower() in ("false", "0"):
        _warn(
            name,
            "TF_EV_SAVE_FILTERED_FEATURES has no effect: checkpoints have the ids that a filter "
            "counts",
        )


def _say_ignored(name: str, option: Any) -> None:
    ignored = {
        "ht_type": option.ht_type != "",
        "ht_partition_num": option.ht_partition_num != _DEEPRECS_PARTS,
        "ckpt": option.ckpt is not None,
        "cache_strategy of StorageOption": (
            option.storage_option.cache_strategy != CacheStrategy.LFU
        ),
    }
    for what, is_set in ignored.items():
        if is_set:
            _warn(name, what + " has no effect")


def _warn(name: str, text: str) -> None:
    warn_once("EmbeddingVariable {!r}: {}".format(name, text), tf.get_default_graph())
