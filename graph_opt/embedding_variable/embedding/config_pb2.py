"""DeepRec's `tensorflow.core.framework.embedding.config_pb2`: where rows and their cache are."""

from __future__ import annotations

import enum
from typing import List, Tuple


class _ProtoEnum(enum.IntEnum):
    """An enum that answers as those of protocol buffers do."""

    @classmethod
    def Name(cls, number: int) -> str:  # noqa: N802
        """The name of a number."""
        return cls(number).name

    @classmethod
    def Value(cls, name: str) -> int:  # noqa: N802
        """The number of a name."""
        if name not in cls.__members__:
            raise ValueError(
                "Enum {} has no value defined for name {!r}".format(cls.__name__, name)
            )
        return cls[name].value

    @classmethod
    def keys(cls) -> List[str]:
        """All names."""
        return list(cls.__members__)

    @classmethod
    def values(cls) -> List[int]:
        """All numbers, in the order of the names."""
        return [one.value for one in cls.__members__.values()]

    @classmethod
    def items(cls) -> List[Tuple[str, int]]:
        """All names and numbers."""
        return list(zip(cls.keys(), cls.values()))


class StorageType(_ProtoEnum):
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


class CacheStrategy(_ProtoEnum):
    """Which rows stay in the faster tier."""

    LRU = 0
    LFU = 1


CacheType = CacheStrategy

# Protocol buffers have the values of an enum in their module, too.
globals().update(StorageType.__members__)
globals().update(CacheStrategy.__members__)
