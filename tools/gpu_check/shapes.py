"""Groups of lookups: tables, ids and weights in host memory, drawn at random."""

from __future__ import annotations

import dataclasses
from typing import Iterator, List, Optional, Sequence, Tuple

import numpy as np

from tools.gpu_check.numbers import TYPES, Array, stored

LAYOUTS = ("dense", "ragged", "sparse")  # in the order of GraphOptCudaLayout
COMBINERS = ("sum", "mean", "sqrtn")  # of GraphOptCudaCombiner
PARTITIONS = ("mod", "div")  # of GraphOptCudaPartition


@dataclasses.dataclass(frozen=True)
class Table:
    """A table [rows, width] of `dtype` (`numbers.stored`), in shards."""

    shards: Tuple[Array, ...]
    dtype: str
    partition: str = "mod"

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.shards[0].shape[1])

    @property
    def rows(self) -> int:
        """Rows of all shards."""
        return sum(shard.shape[0] for shard in self.shards)


@dataclasses.dataclass(frozen=True)
class Lookup:
    """One lookup; `ids` are flat, and `bags` says for each id to which bag it belongs.

    Attributes:
        table: number of the table.
        ids: [K], int32 or int64.
        bags: [K], ascending, below num_bags.
        num_bags: rows of the result.
        layout: how the bags are told to the kernels; "dense" needs as many ids in each bag.
        combiner: sum, mean or sqrtn.
        weights: [K] float32, or None.
        safe: drop ids < 0, and weights that are not > 0 unless the combiner is sum.
        default_id: the row that an empty bag gives, or -1.
        filled_id: the row that gets a gradient of 0 from an empty bag without default, or -1.
        sizes: sparse with more than two dimensions: those before the last.
    """

    table: int
    ids: Array
    bags: Array
    num_bags: int
    layout: str = "ragged"
    combiner: str = "mean"
    weights: Optional[Array] = None
    safe: bool = True
    default_id: int = -1
    filled_id: int = -1
    sizes: Tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Group:
    """Tables and the lookups in them.

    With `joined` the pooled rows of all lookups are columns of one tensor; all have the same bags
    and type then.
    """

    name: str
    tables: Tuple[Table, ...]
    lookups: Tuple[Lookup, ...]
    joined: bool = False


class Draw:
    """Draws groups; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.RandomState(seed)

    def table(self, rows: int, width: int, dtype: str = "float32", shards: int = 1) -> Table:
        """A table of numbers about one, in `shards` parts as TensorFlow's partitioners cut it."""
        sizes = [rows // shards + (s < rows % shards) for s in range(shards)]
        parts = tuple(stored(self.random.randn(size, width), dtype) for size in sizes)
        return Table(parts, dtype, PARTITIONS[self.random.randint(2)])

    def lookup(self, table: int, rows: int, counts: Sequence[int], **options: object) -> Lookup:
        """A lookup whose bag b has counts[b] ids, a fifth of them below zero where that is safe."""
        bags = np.repeat(np.arange(len(counts)), counts)
        ids = (rows * self.random.rand(len(bags)) ** 2).astype(np.int64)
        plain = Lookup(table, ids, bags, len(counts), **options)  # type: ignore[arg-type]
        if plain.safe:
            ids[self.random.rand(len(ids)) < 0.2] = -1
        wide = self.random.randint(2) == 0
        weights = None
        if self.random.randint(2) == 0:
            weights = (self.random.rand(len(ids)) * 1.2 - (0.2 if plain.safe else 0)).astype("f4")
        return dataclasses.replace(
            plain, ids=ids.astype(np.int64 if wide else np.int32), weights=weights
        )

    def counts(self, num_bags: int, most: int) -> List[int]:
        """Bag lengths of which about a third are zero."""
        counts = self.random.randint(0, most + 1, size=num_bags)
        counts[self.random.rand(num_bags) < 0.3] = 0
        return [int(count) for count in counts]

    def any_lookup(self, table: int, rows: int, num_bags: int, most: int) -> Lookup:
        """A lookup with a layout, combiner and bags of any kind."""
        layout = LAYOUTS[self.random.randint(3)]
        counts = self.counts(num_bags, most)
        if layout == "dense":
            counts = [self.random.randint(0, most + 1)] * num_bags
        default_id = int(self.random.randint(-1, rows)) if self.random.randint(2) else -1
        sizes: Tuple[int, ...] = ()
        if layout == "sparse" and num_bags % 3 == 0 and self.random.randint(2):
            sizes = (3, num_bags // 3)
        return self.lookup(
            table,
            rows,
            counts,
            layout=layout,
            combiner=COMBINERS[self.random.randint(3)],
            safe=bool(self.random.randint(4)),
            default_id=default_id,
            filled_id=int(self.random.randint(-1, rows)),
            sizes=sizes,
        )


def joined_group(draw: Draw, widths: Sequence[int], num_bags: int) -> Group:
    """Lookups of several widths whose results are columns of one tensor."""
    tables = tuple(draw.table(50, width) for width in widths)
    lookups = tuple(draw.any_lookup(t, 50, num_bags, 4) for t in range(len(widths)))
    return Group("joined", tables, lookups, joined=True)


def giant_bag_group(draw: Draw, ids: int, dtype: str, width: int) -> Group:
    """One bag with `ids` ids between empty ones, with and without weights, all combiners."""
    tables = (draw.table(1000, width, dtype), draw.table(3, width, dtype))
    lookups = [
        draw.lookup(table, rows, [0, ids, 0, 2], layout=layout, combiner=combiner)
        for combiner in COMBINERS
        for table, rows, layout in ((0, 1000, "sparse"), (1, 3, "ragged"))
    ]
    nothing = dataclasses.replace(lookups[0], ids=np.full_like(lookups[0].ids, -1), default_id=7)
    return Group("giant_bag", tables, (*lookups, nothing))


def empty_group(draw: Draw) -> Group:
    """No ids at all, no bags at all, a default row for all bags, and a table without rows."""
    tables = (draw.table(9, 4), draw.table(0, 4))
    lookups = (
        draw.lookup(0, 9, [0, 0, 0], layout="ragged"),
        draw.lookup(0, 9, [], layout="sparse"),
        draw.lookup(0, 9, [0, 0], layout="dense", default_id=8),
        draw.lookup(1, 0, [0, 0], layout="sparse"),
    )
    return Group("empty", tables, lookups)


def random_group(draw: Draw, num_tables: int, widest: int, num_bags: int) -> Group:
    """Tables of any width, type and number of shards; some are looked up twice."""
    tables = []
    lookups = []
    for t in range(num_tables):
        rows = int(draw.random.randint(1, 200))
        width = int(draw.random.randint(1, widest + 1))
        if draw.random.randint(2):
            width = (width + 7) // 8 * 8
        shards = int(draw.random.randint(1, 4)) if draw.random.randint(2) else 1
        tables.append(draw.table(rows, width, TYPES[draw.random.randint(3)], shards))
        for _ in range(1 + (draw.random.randint(3) == 0)):
            lookups.append(draw.any_lookup(t, rows, num_bags, 6))
    return Group("random", tuple(tables), tuple(lookups))


def floats_only(group: Group, draw: Draw) -> Group:
    """The group with tables of float32, which updates need."""
    tables = tuple(
        dataclasses.replace(
            table,
            shards=tuple(draw.random.randn(*s.shape).astype("f4") for s in table.shards),
            dtype="float32",
        )
        for table in group.tables
    )
    return dataclasses.replace(group, tables=tables)


def groups(seed: int, large: bool) -> Iterator[Group]:
    """All that is checked; `large`: 500 tables, 1,024 columns, giant bags, as a GPU can do it."""
    draw = Draw(seed)
    yield empty_group(draw)
    yield joined_group(draw, (16, 8, 4), 37)
    yield joined_group(draw, (5, 3, 16, 1), 37)
    for dtype in TYPES:
        yield giant_bag_group(draw, 200_000 if large else 3_000, dtype, 24)
        yield giant_bag_group(draw, 5_000 if large else 700, dtype, 5)
    for num_tables, widest, num_bags in ((1, 1, 700), (1, 1024, 3), (3, 300, 40), (12, 40, 33)):
        yield random_group(draw, num_tables, widest, num_bags)
    if large:
        for num_tables, widest, num_bags in ((500, 64, 500), (26, 1024, 512), (40, 16, 20_000)):
            yield random_group(draw, num_tables, widest, num_bags)
    else:
        yield random_group(draw, 60, 20, 5)
