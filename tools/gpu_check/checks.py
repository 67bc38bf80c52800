"""Runs the kernels on groups and compares what they give with the float64 reference."""

from __future__ import annotations

import dataclasses
import functools
from typing import Callable, Dict, List, Tuple

import numpy as np

from tools.gpu_check import reference
from tools.gpu_check.device_group import DeviceGroup
from tools.gpu_check.library import Library, Memory, UsualOptimizer
from tools.gpu_check.numbers import STEP, Array, loaded
from tools.gpu_check.shapes import Draw, Group, floats_only

# Rounding errors of a sum of float32 numbers, in steps of the sum of their absolute values: there
# are hundreds of additions one after another at most.
_SUM_STEPS = 64
# Relative error of an update: roots, powers and quotients of numbers about one.
_UPDATE_ERROR = 2e-5
# Of an optimizer before the update that is checked, so that its slots differ.
_STEPS_BEFORE = 2


@dataclasses.dataclass(frozen=True)
class Checked:
    """What one check found: the largest error in parts of what is allowed; `fault` '' for none."""

    check: str
    group: str
    lookups: int
    error: float
    fault: str = ""


class Comparison:
    """Collects the largest error of many comparisons, and the first that is too large."""

    def __init__(self) -> None:
        self.error = 0.0
        self.fault = ""

    def near(self, what: str, got: Array, wanted: Array, allowed: Array) -> None:
        """Notes how far `got` is from `wanted`, in parts of `allowed`."""
        if got.shape != wanted.shape:
            self.note("{}: shape {}, need {}".format(what, got.shape, wanted.shape))
            return
        if got.size == 0:
            return
        parts = np.abs(got - wanted) / allowed
        worst = float(parts.max()) if np.isfinite(parts).all() else float("inf")
        self.error = max(self.error, worst)
        if worst > 1:
            at = np.unravel_index(np.argmax(np.nan_to_num(parts, nan=np.inf)), parts.shape)
            place = tuple(int(i) for i in at)
            self.note("{} at {}: {!r}, need {!r}".format(what, place, got[at], wanted[at]))

    def same(self, what: str, got: object, wanted: object) -> None:
        """Notes that two things are not equal."""
        if got != wanted:
            self.note("{}: {!r}, need {!r}".format(what, got, wanted))

    def note(self, fault: str) -> None:
        """Keeps the first fault."""
        self.fault = self.fault or fault


def allowed_error(magnitude: Array, dtype: str) -> Array:
    """How far a rounded sum may be from the exact one, with numbers of this magnitude."""
    smallest = 2.0**-24 if dtype == "float16" else 1e-30  # half numbers are coarse near zero
    return magnitude * (_SUM_STEPS * STEP["float32"] + STEP[dtype]) + smallest


def _gradients(group: Group, draw: Draw) -> List[Array]:
    return [
        draw.random.randn(lookup.num_bags, group.tables[lookup.table].width)
        for lookup in group.lookups
    ]


def check_lookup(library: Library, group: Group) -> Comparison:
    """The pooled rows, twice."""
    compared = Comparison()
    with Memory(library) as memory:
        on_device = DeviceGroup(library, memory, group)
        on_device.pool()
        first = [on_device.pooled(i) for i in range(len(group.lookups))]
        on_device.pool()
        for i, lookup in enumerate(group.lookups):
            table = group.tables[lookup.table]
            wanted, magnitude = reference.pooled(lookup, table)
            got = on_device.pooled(i)
            compared.same("run again", got.tobytes(), first[i].tobytes())
            allowed = allowed_error(magnitude, table.dtype)
            compared.near("lookup {}".format(i), loaded(got, table.dtype), wanted, allowed)
        compared.same("fault", on_device.take_fault()[0], "none")
    return compared


def check_gradient(library: Library, group: Group) -> Comparison:
    """The rows that ids name and the sums of their gradients, twice."""
    compared = Comparison()
    with Memory(library) as memory:
        on_device = DeviceGroup(library, memory, group)
        gradients = on_device.put_gradients(_gradients(group, Draw(1)))
        on_device.sort()
        counts = on_device.count_rows()
        on_device.place_sums(counts)
        on_device.sum()
        first = [on_device.sums(s, count)[1].tobytes() for s, count in enumerate(counts)]
        on_device.sort()
        on_device.sum()
        shard = 0
        for t, table in enumerate(group.tables):
            wanted = _by_place(group, t, gradients)
            for number in range(len(table.shards)):
                where = "table {} shard {}".format(t, number)
                indices, sums = on_device.sums(shard, counts[shard])
                compared.same(where + " run again", sums.tobytes(), first[shard])
                rows = [row for of, row in sorted(wanted) if of == number]
                compared.same(where + " rows", indices.tolist(), rows)
                if rows and indices.tolist() == rows:
                    total = np.stack([wanted[number, row][0] for row in rows])
                    magnitude = np.stack([wanted[number, row][1] for row in rows])
                    allowed = allowed_error(magnitude, table.dtype)
                    compared.near(where, loaded(sums, table.dtype), total, allowed)
                shard += 1
        compared.same("fault", on_device.take_fault()[0], "none")
    return compared


def _by_place(
    group: Group, table: int, gradients: List[Array]
) -> Dict[Tuple[int, int], Tuple[Array, Array]]:
    """The sums of `reference.row_sums` by shard and row."""
    where = reference.places(group.tables[table])
    sums = reference.row_sums(group, table, gradients)
    return {where[one]: both for one, both in sums.items()}


def check_apply(library: Library, group: Group, optimizer: UsualOptimizer) -> Comparison:
    """An update: the rows that ids name, and that no others change."""
    compared = Comparison()
    draw = Draw(2)
    group, slots = _trained(floats_only(group, draw), optimizer, draw)
    with Memory(library) as memory:
        on_device = DeviceGroup(library, memory, group, slots)
        gradients = on_device.put_gradients(_gradients(group, draw))
        on_device.sort()
        on_device.apply(optimizer)
        shard = 0
        for t, table in enumerate(group.tables):
            sums = _by_place(group, t, gradients)
            for number, part in enumerate(table.shards):
                before = [part, *slots[shard]]
                got = [on_device.rows(shard)]
                got += [on_device.slot(shard, i) for i in range(len(slots[shard]))]
                of_shard = {row: both for (of, row), both in sums.items() if of == number}
                where = "table {} shard {}".format(t, number)
                _compare_update(compared, where, optimizer, before, got, of_shard)
                shard += 1
    return compared


def _trained(
    group: Group, optimizer: UsualOptimizer, draw: Draw
) -> Tuple[Group, List[List[Array]]]:
    """The group, and the slots of its shards, as some steps of the optimizer leave them.

    Slots that no step could have made may give roots of negative numbers.
    """
    tables, slots = [], []
    for table in group.tables:
        shards = []
        for part in table.shards:
            made = [part, *(np.full(part.shape, value) for value in optimizer.initial_slots)]
            for _ in range(_STEPS_BEFORE):
                made = optimizer.updated(draw.random.randn(*part.shape), made[0], made[1:])
            shards.append(made[0].astype("f4"))
            slots.append([values.astype("f4") for values in made[1:]])
        tables.append(dataclasses.replace(table, shards=tuple(shards)))
    return dataclasses.replace(group, tables=tuple(tables)), slots


def _compare_update(
    compared: Comparison,
    where: str,
    optimizer: UsualOptimizer,
    before: List[Array],
    got: List[Array],
    sums: Dict[int, Tuple[Array, Array]],
) -> None:
    """Compares a shard's rows and slots; `sums` are the gradients by row, and their magnitude."""
    rows = sorted(sums)
    untouched = np.ones(len(before[0]), bool)
    untouched[rows] = False
    wanted = before
    if rows:
        total = np.stack([sums[row][0] for row in rows])
        errors = [allowed_error(sums[row][1], "float32") for row in rows]
        of_sums = np.stack(errors) * (1 + np.abs(total))  # what errors of sums make of results
        wanted = optimizer.updated(total, before[0][rows], [slot[rows] for slot in before[1:]])
    for i, (old, new) in enumerate(zip(before, got)):
        name = "{} of {}".format("slot {}".format(i - 1) if i else "rows", where)
        same = new[untouched].tobytes() == old[untouched].tobytes()
        compared.same(name + " left alone", same, True)
        if rows:
            allowed = _UPDATE_ERROR * (1 + np.abs(wanted[i])) + of_sums
            compared.near(name, new[rows].astype("f8"), wanted[i], allowed)


def check_fault(library: Library, group: Group) -> Comparison:
    """Ids that no table has: told, and rows of zeros."""
    compared = Comparison()
    candidates = [i for i, lookup in enumerate(group.lookups) if len(lookup.ids) > 1]
    if not candidates:
        return compared
    bad = candidates[len(candidates) // 2]
    lookup = group.lookups[bad]
    ids = lookup.ids.copy()
    ids[[len(ids) // 2, len(ids) - 1]] = group.tables[lookup.table].rows
    weights = None if lookup.weights is None else np.abs(lookup.weights) + np.float32(0.1)
    lookups = list(group.lookups)
    lookups[bad] = dataclasses.replace(lookup, ids=ids, weights=weights)
    broken = dataclasses.replace(group, lookups=tuple(lookups))
    wanted = ("id_out_of_range", bad, int(lookup.bags[len(ids) // 2]))
    with Memory(library) as memory:
        on_device = DeviceGroup(library, memory, broken)
        on_device.pool()
        compared.same("fault of the lookup", on_device.take_fault(), wanted)
        table = group.tables[lookup.table]
        exact, magnitude = reference.pooled(lookups[bad], table)
        got = loaded(on_device.pooled(bad), table.dtype)
        compared.near("with zeros", got, exact, allowed_error(magnitude, table.dtype))
        on_device.sort()
        compared.same("fault of the gradient", on_device.take_fault(), wanted)
    return compared


def check_order(library: Library, group: Group) -> Comparison:
    """Sparse ids out of order: told, by the lookup and by the gradient."""
    compared = Comparison()
    for i, lookup in enumerate(group.lookups):
        if lookup.layout != "sparse" or not len(lookup.bags) or lookup.bags[0] == lookup.bags[-1]:
            continue
        lookups = list(group.lookups)
        lookups[i] = dataclasses.replace(lookup, bags=lookup.bags[::-1].copy())
        broken = dataclasses.replace(group, lookups=tuple(lookups))
        with Memory(library) as memory:
            on_device = DeviceGroup(library, memory, broken)
            on_device.pool()
            compared.same("lookup", on_device.take_fault()[:2], ("out_of_order", i))
            on_device.sort()
            compared.same("gradient", on_device.take_fault()[:2], ("out_of_order", i))
        break
    return compared


def check(library: Library, group: Group) -> List[Checked]:
    """All checks of a group."""
    checks: List[Tuple[str, Callable[[], Comparison]]] = [
        ("lookup", lambda: check_lookup(library, group)),
        ("gradient", lambda: check_gradient(library, group)),
        ("fault", lambda: check_fault(library, group)),
        ("order", lambda: check_order(library, group)),
    ]
    for one in library.optimizers:
        checks.append((one.name, functools.partial(check_apply, library, group, one)))
    found = []
    for name, run in checks:
        compared = run()
        found.append(Checked(name, group.name, len(group.lookups), compared.error, compared.fault))
    return found
