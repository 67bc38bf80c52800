"""DeepRec's `tensorflow.core.framework.embedding.config_pb2`: where rows and their cache are."""

from __future__ import annotations

import enum


class StorageType(enum.IntEnum):
    """Where the rows of an EmbeddingVariable are."""

    INVALID = 0
    DEFAULT = 0
    DRAM = 1
    PMEM_MEMKIND = 2
    PMEM_LIBPMEM = 3
    SSDHASH = 4
    LEVELDB = 5
    HBM = 6
    DRAM_PMEM = 11
    DRAM_SSDHASH = 12
    HBM_DRAM = 13
    DRAM_LEVELDB = 14
    DRAM_PMEM_SSDHASH = 101
    HBM_DRAM_SSDHASH = 102


class CacheStrategy(enum.IntEnum):
    """Which rows stay in the faster tier."""

    LRU = 0
    LFU = 1


CacheType = CacheStrategy

# Protocol buffers have the values of an enum in their module, too.
globals().update(StorageType.__members__)
globals().update(CacheStrategy.__members__)
