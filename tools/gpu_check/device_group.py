"""A group in device memory, and the calls on it."""

from __future__ import annotations

import ctypes
from typing import Any, List, Sequence, Tuple

import numpy as np

from tools.gpu_check import library as abi
from tools.gpu_check.numbers import STORED, TYPES, Array, loaded, stored
from tools.gpu_check.shapes import COMBINERS, LAYOUTS, PARTITIONS, Group, Lookup

_NO_FAULT = np.array([abi.NO_FAULT], np.uint64)
_FAULT_KINDS = ("none", "id_out_of_range", "out_of_order")


def positions_of(lookup: Lookup) -> Tuple[Array, int]:
    """The positions of a lookup's ids as the kernels take them, and their stride."""
    if lookup.layout == "ragged":
        return np.searchsorted(lookup.bags, np.arange(lookup.num_bags + 1)).astype(np.int64), 1
    if lookup.layout == "dense":
        return np.zeros(0, np.int64), 1
    columns = [lookup.bags]
    if lookup.sizes:
        columns = list(np.unravel_index(lookup.bags, lookup.sizes))
    if lookup.table % 2 or lookup.sizes:  # else as segment ids
        columns.append(np.zeros_like(lookup.bags))
    return np.stack(columns, axis=1).astype(np.int64), len(columns)


class DeviceGroup:
    """A group in device memory; `slots` are those of each shard, of float32."""

    def __init__(
        self,
        library: abi.Library,
        memory: abi.Memory,
        group: Group,
        slots: Sequence[Sequence[Array]] = (),
    ) -> None:
        self.group = group
        self._library = library
        self._memory = memory
        parts = [shard for table in group.tables for shard in table.shards]
        self._shapes = [part.shape for part in parts]
        self._shards = (abi.Shard * len(parts))()
        for i, part in enumerate(parts):
            self._shards[i].num_rows = part.shape[0]
            self._shards[i].rows = memory.put(part)
            for j, slot in enumerate(slots[i] if slots else ()):
                self._shards[i].slots[j] = memory.put(slot)
        self._tables = (abi.Table * len(group.tables))()
        first = 0
        for t, table in enumerate(group.tables):
            self._tables[t] = abi.Table(
                first,
                len(table.shards),
                table.width,
                TYPES.index(table.dtype),
                PARTITIONS.index(table.partition),
            )
            first += len(table.shards)
        self._lookups = (abi.Lookup * len(group.lookups))()
        for i, lookup in enumerate(group.lookups):
            self._fill(self._lookups[i], lookup)
        self._place_pooled()
        self.structure = abi.Group(
            self._shards,
            self._tables,
            self._lookups,
            len(parts),
            len(group.tables),
            len(group.lookups),
        )
        self.fault = memory.put(_NO_FAULT)
        self._lookup_memory = memory.allocate(self._call("lookup_workspace"))
        self._sort_memory = memory.allocate(self._call("sort_workspace"))

    def _fill(self, to: abi.Lookup, lookup: Lookup) -> None:
        positions, to.stride = positions_of(lookup)
        to.ids = self._memory.put(lookup.ids)
        to.positions = None if lookup.layout == "dense" else self._memory.put(positions)
        to.weights = None if lookup.weights is None else self._memory.put(lookup.weights)
        to.num_ids = len(lookup.ids)
        to.num_bags = lookup.num_bags
        to.width = len(lookup.ids) // max(lookup.num_bags, 1)
        to.default_id = lookup.default_id
        to.filled_id = lookup.filled_id
        to.num_sizes = max(len(lookup.sizes), 1)
        for d, size in enumerate(lookup.sizes):
            to.sizes[d] = size
        to.table = lookup.table
        to.layout = LAYOUTS.index(lookup.layout)
        to.combiner = COMBINERS.index(lookup.combiner)
        to.wide_ids = lookup.ids.dtype == np.int64
        to.safe = lookup.safe

    def _place_pooled(self) -> None:
        """Memory for the pooled rows or their gradients: of each lookup, or columns of one."""
        widths = [self.group.tables[lookup.table].width for lookup in self.group.lookups]
        first_column = 0
        for i, lookup in enumerate(self.group.lookups):
            size = self._element(i).itemsize
            stride = sum(widths) if self.group.joined else widths[i]
            if first_column == 0:
                begin = self._memory.allocate(lookup.num_bags * stride * size)
            self._lookups[i].pooled = begin + first_column * size
            self._lookups[i].pooled_stride = stride
            if self.group.joined:
                first_column += widths[i]

    def _element(self, lookup: int) -> Any:
        return np.dtype(STORED[self.group.tables[self.group.lookups[lookup].table].dtype])

    def _call(self, name: str, *arguments: Any) -> int:
        return self._library.call(
            "graph_opt_cuda_" + name, ctypes.byref(self.structure), *arguments
        )

    def pool(self) -> None:
        """Queues the forward pass."""
        self._call("lookup", self._lookup_memory, self.fault, None)

    def sort(self) -> None:
        """Queues the part of the backward pass before the sums."""
        self._call("sort", self._sort_memory, self.fault, None)

    def count_rows(self) -> List[int]:
        """Rows of each shard that the sorted ids name."""
        counts = (ctypes.c_int64 * len(self._shards))()
        self._call("count_rows", self._sort_memory, counts, None)
        return list(counts)

    def place_sums(self, counts: Sequence[int]) -> None:
        """Allocates what `sum` writes."""
        for i, (count, element) in enumerate(zip(counts, self._shard_elements())):
            width = self._shapes[i][1]
            self._shards[i].indices = self._memory.allocate(count * 8)
            self._shards[i].sums = self._memory.allocate(count * width * element.itemsize)

    def sum(self) -> None:
        """Queues the sums of gradients."""
        self._call("sum", self._sort_memory, None)

    def apply(self, optimizer: abi.UsualOptimizer) -> None:
        """Queues the update of rows and slots."""
        self._call("apply", ctypes.byref(optimizer.made), self._sort_memory, None)

    def _shard_elements(self) -> List[Any]:
        return [np.dtype(STORED[t.dtype]) for t in self.group.tables for _ in t.shards]

    def _pooled_block(self, lookup: int) -> Array:
        """All of the tensor that the pooled rows of a lookup are in."""
        at = self._lookups[0 if self.group.joined else lookup]
        shape = (at.num_bags, at.pooled_stride)
        return self._memory.get(at.pooled, shape, self._element(lookup).name)

    def pooled(self, lookup: int) -> Array:
        """[num_bags, width], as stored."""
        width = self.group.tables[self.group.lookups[lookup].table].width
        first = self._lookups[lookup].pooled - self._lookups[0].pooled if self.group.joined else 0
        column = first // self._element(lookup).itemsize
        return self._pooled_block(lookup)[:, column : column + width]

    def put_gradients(self, gradients: Sequence[Array]) -> List[Array]:
        """Puts gradients, [num_bags, width] each, where pooled rows were; gives them rounded."""
        rounded = []
        joined = [stored(gradient, "float32") for gradient in gradients]
        for i, gradient in enumerate(gradients):
            dtype = self.group.tables[self.group.lookups[i].table].dtype
            values = stored(gradient, dtype)
            rounded.append(loaded(values, dtype))
            if self.group.joined:
                values = np.concatenate(joined, axis=1)
            if i == 0 or not self.group.joined:
                self._write(self._lookups[i].pooled, values)
        return rounded

    def _write(self, address: int, values: Array) -> None:
        values = np.ascontiguousarray(values)
        self._library.call("gpu_check_copy_to_device", address, values.ctypes.data, values.nbytes)

    def sums(self, shard: int, count: int) -> Tuple[Array, Array]:
        """Rows and sums of a shard, as stored."""
        element = self._shard_elements()[shard].name
        shape = (count, self._shapes[shard][1])
        at = self._shards[shard]
        return self._memory.get(at.indices, [count], "int64"), self._memory.get(
            at.sums, shape, element
        )

    def rows(self, shard: int) -> Array:
        """A shard's rows, as stored."""
        element = self._shard_elements()[shard].name
        return self._memory.get(self._shards[shard].rows, self._shapes[shard], element)

    def slot(self, shard: int, number: int) -> Array:
        """A slot of a shard."""
        at = self._shards[shard].slots[number]
        return self._memory.get(at, self._shapes[shard], "float32")

    def take_fault(self) -> Tuple[str, int, int]:
        """(kind, lookup, bag) of the first fault since the last call; kind is "none" for none."""
        word = int(self._memory.get(self.fault, [1], "uint64")[0])
        self._write(self.fault, _NO_FAULT)
        if word == abi.NO_FAULT:
            return ("none", 0, 0)
        return (_FAULT_KINDS[word & 3], word >> 48, word >> 2 & (1 << 46) - 1)
