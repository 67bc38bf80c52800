"""How long the kernels take, next to a copy on the device and to PyTorch's EmbeddingBag."""

from __future__ import annotations

import dataclasses
import importlib
import statistics
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from tools.gpu_check.device_group import DeviceGroup
from tools.gpu_check.library import Library, Memory
from tools.gpu_check.numbers import Array
from tools.gpu_check.shapes import Group, Lookup, Table

_TABLES = 26
_ROWS = 200_000
_ROUNDS = 21
_COPY_BYTES = 1 << 30


@dataclasses.dataclass(frozen=True)
class Case:
    """26 tables, one lookup each."""

    batch: int
    ids_per_row: int
    width: int
    distribution: str  # "uniform" or "zipf", of exponent 1.2


CASES: Tuple[Case, ...] = tuple(
    Case(batch, ids_per_row, width, distribution)
    for batch, ids_per_row in ((4096, 1), (32768, 1), (4096, 20))
    for width in (16, 128)
    for distribution in ("uniform", "zipf")
)


@dataclasses.dataclass(frozen=True)
class Timed:
    """A measurement: median milliseconds, and the bytes that had to be moved at least."""

    case: Case
    what: str
    implementation: str
    milliseconds: float
    least_bytes: int

    def of_copy(self, copy_rate: float) -> float:
        """Which part of the copy's rate of bytes was reached."""
        return self.least_bytes / (self.milliseconds * 1e-3) / copy_rate


def draw_ids(case: Case, random: Any) -> Array:
    """[batch * ids_per_row] int64."""
    count = case.batch * case.ids_per_row
    if case.distribution == "uniform":
        return random.randint(0, _ROWS, count).astype(np.int64)
    return (random.zipf(1.2, count) - 1) % _ROWS


def group_of(case: Case, random: Any) -> Group:
    """The tables and lookups of a case; sums of dense ids."""
    bags = np.repeat(np.arange(case.batch), case.ids_per_row)
    tables = []
    lookups = []
    for t in range(_TABLES):
        tables.append(Table((random.rand(_ROWS, case.width).astype("f4"),), "float32"))
        ids = draw_ids(case, random)
        lookups.append(Lookup(t, ids, bags, case.batch, "dense", "sum", safe=False))
    return Group("timing", tuple(tables), tuple(lookups))


def _median(library: Library, work: Callable[[], None]) -> float:
    runs = []
    for _ in range(_ROUNDS):
        library.call("gpu_check_wait")
        library.call("gpu_check_start")
        work()
        runs.append(library.milliseconds())
    return statistics.median(runs[1:])  # the first one loads the kernels


def copy_rate(library: Library) -> float:
    """Bytes a second, read and written counted both, of a copy from device memory to itself."""
    with Memory(library) as memory:
        source = memory.allocate(_COPY_BYTES)
        target = memory.allocate(_COPY_BYTES)

        def copy() -> None:
            library.call("gpu_check_copy_on_device", target, source, _COPY_BYTES)

        taken = _median(library, copy)
    return 2 * _COPY_BYTES / (taken * 1e-3)


def time_case(library: Library, case: Case) -> List[Timed]:
    """Forward, gradient and update of a case."""
    group = group_of(case, np.random.RandomState(1))
    row_bytes = case.width * 4
    ids = sum(len(lookup.ids) for lookup in group.lookups)
    pooled = _TABLES * case.batch * row_bytes
    unique = sum(len(np.unique(lookup.ids)) for lookup in group.lookups)
    found = []
    adagrad = next(one for one in library.optimizers if one.name == "Adagrad-update_slots")
    with Memory(library) as memory:
        slots = [(np.full([_ROWS, case.width], 0.1, "f4"),) for _ in group.tables]
        on_device = DeviceGroup(library, memory, group, slots)
        forward = _median(library, on_device.pool)
        found.append((forward, "forward", ids * (8 + row_bytes) + pooled))
        on_device.put_gradients([np.ones([case.batch, case.width])] * _TABLES)
        on_device.sort()
        on_device.place_sums(on_device.count_rows())

        def gradient() -> None:
            on_device.sort()
            on_device.sum()

        def update() -> None:
            on_device.sort()
            on_device.apply(adagrad)

        least = ids * (8 + row_bytes)
        found.append((_median(library, on_device.sort), "sort", ids * 8))
        found.append((_median(library, gradient), "gradient", least + unique * (8 + row_bytes)))
        found.append((_median(library, update), "update", least + unique * 4 * row_bytes))
    return [Timed(case, what, "graph_opt", taken, least) for taken, what, least in found]


def time_torch(case: Case) -> Optional[List[Timed]]:
    """PyTorch's EmbeddingBag, one for each table; None where there is no torch with CUDA."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    random = np.random.RandomState(1)
    tables = [
        torch.nn.EmbeddingBag(_ROWS, case.width, mode="sum", sparse=True, device="cuda")
        for _ in range(_TABLES)
    ]
    ids = [
        torch.from_numpy(draw_ids(case, random).reshape(case.batch, case.ids_per_row)).cuda()
        for _ in range(_TABLES)
    ]
    pooled = [table(one) for table, one in zip(tables, ids)]
    ones = torch.ones_like(pooled[0])

    def forward() -> None:
        with torch.no_grad():
            for table, one in zip(tables, ids):
                table(one)

    def forward_and_gradient() -> None:
        for table, one in zip(tables, ids):
            table.weight.grad = None
            table(one).backward(ones)
            table.weight.grad.coalesce()

    row_bytes = case.width * 4
    least = _TABLES * case.batch * (case.ids_per_row * (8 + row_bytes) + row_bytes)
    return [
        Timed(case, "forward", "torch", _torch_median(torch, forward), least),
        Timed(
            case, "forward+gradient", "torch", _torch_median(torch, forward_and_gradient), 2 * least
        ),
    ]


def _torch_median(torch: Any, work: Callable[[], None]) -> float:
    runs = []
    for _ in range(_ROUNDS):
        torch.cuda.synchronize()
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        runs.append(begin.elapsed_time(end))
    return statistics.median(runs[1:])


def table(timed: Sequence[Timed], rate: float) -> str:
    """The measurements as text, a line each."""
    lines = ["batch  ids  width  distribution  pass              by         ms        of copy"]
    for one in timed:
        case = one.case
        lines.append(
            "{:<6} {:<4} {:<6} {:<13} {:<17} {:<10} {:<9.4f} {:.2f}".format(
                case.batch,
                case.ids_per_row,
                case.width,
                case.distribution,
                one.what,
                one.implementation,
                one.milliseconds,
                one.of_copy(rate),
            )
        )
    return "\n".join(lines)


def to_dicts(timed: Sequence[Timed], rate: float) -> List[Dict[str, Any]]:
    """The measurements for a JSON file."""
    return [
        {
            "params": dataclasses.asdict(one.case),
            "pass": one.what,
            "implementation": one.implementation,
            "milliseconds": one.milliseconds,
            "of_copy": one.of_copy(rate),
        }
        for one in timed
    ]
