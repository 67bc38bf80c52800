"""The check that a GPU's kernels pass before they are used, and the CPU in their place."""

from __future__ import annotations

import ctypes
from functools import partial
from pathlib import Path
from typing import Any, List

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import OPS_SRC, QUICK, compile_all, functor_objects, link
from tools.gpu_check import checks, shapes
from tools.gpu_check.device_group import DeviceGroup
from tools.gpu_check.library import Library, UsualOptimizer

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
LIBRARY = "libself_check_emulated.so"
KERNELS = ["PoolBags", "CountBags", "WriteKeys", "MarkRuns", "StartRuns", "FindShards"]
KERNELS += ["ReduceRuns<WriteSums>", "ReduceRuns<UpdateBySpec>", "radix sort", "prefix sum"]
NEVER_RUNS, MIDDLE_BLOCK_IS_LOST, ODD_THREADS_ARE_LOST, FAILS = range(1, 5)
# What the message must name.
NAMED = {"PoolBags": "lookup", "ReduceRuns<WriteSums>": "gradient"}
NAMED["ReduceRuns<UpdateBySpec>"] = "update"


def build(compiled_once: MadeOnce, folder: Path) -> None:
    """The self-check and the CPU's functors, with kernels that are compiled for the host."""
    compile_all(compiled_once, sorted((OPS_SRC / "cuda").glob("*.cc")), QUICK, folder)
    # Not for undefined behaviour, which planted faults have.
    flags = ["-O1", "-fPIC", "-I", str(REPOSITORY / "tools" / "gpu_check")]
    compile_all(compiled_once, sorted(HERE.glob("*_emulated.cc")), flags, folder)
    objects = [*functor_objects(compiled_once), *folder.glob("*.o")]
    link(objects, [*QUICK, "-shared"], folder / LIBRARY)


@pytest.fixture(scope="module")
def library(compiled_once: MadeOnce) -> Path:
    return compiled_once("self_check", partial(build, compiled_once)) / LIBRARY


def self_check(loaded: ctypes.CDLL, kernel: int = -1, fault: int = 0) -> str:
    """What the check says of kernels with a planted fault."""
    loaded.gpu_check_emulated_fault(kernel, fault)
    wrong = ctypes.create_string_buffer(1024)
    loaded.test_self_check(wrong, ctypes.c_int64(len(wrong)))
    loaded.gpu_check_emulated_fault(-1, 0)
    return wrong.value.decode()


def test_right_kernels_pass(library: Path) -> None:
    loaded = ctypes.CDLL(str(library))
    for order in range(3):
        loaded.gpu_check_emulated_order(order)
        assert self_check(loaded) == ""
    loaded.gpu_check_emulated_order(0)


@pytest.mark.parametrize("fault", [NEVER_RUNS, MIDDLE_BLOCK_IS_LOST, ODD_THREADS_ARE_LOST, FAILS])
@pytest.mark.parametrize("kernel", range(len(KERNELS)), ids=KERNELS)
def test_a_fault_in_any_kernel_is_found_and_named(library: Path, kernel: int, fault: int) -> None:
    wrong = self_check(ctypes.CDLL(str(library)), kernel, fault)
    named = NAMED.get(KERNELS[kernel])
    if named is None:  # of the sort, whose faults may first show in what is done with it
        assert "kernel" in wrong
    else:
        assert wrong.startswith("the {} kernel".format(named))
    if fault == FAILS:
        assert "no kernel image is available" in wrong


@pytest.mark.parametrize(
    "mode, wrong, trusted, num_checks",
    [
        (None, "", True, 2),
        (b"check", "", True, 2),
        (None, "the lookup kernel is wrong", False, 2),
        (b"trust", "the lookup kernel is wrong", True, 0),
        (b"off", "", False, 0),
        (b"sometimes", "", True, 2),
    ],
)
def test_each_device_is_checked_once(
    library: Path,
    capfd: pytest.CaptureFixture[str],
    mode: Any,
    wrong: str,
    trusted: bool,
    num_checks: int,
) -> None:
    made = ctypes.c_int32(0)
    loaded = ctypes.CDLL(str(library))
    given = loaded.test_trusted_devices(mode, wrong.encode(), 3, ctypes.byref(made))
    assert bool(given) == trusted
    assert made.value == num_checks
    lines = capfd.readouterr().err.splitlines()
    if mode == b"sometimes":
        assert len(lines) == 1
        assert "need check, trust or off" in lines[0]
    elif wrong and not trusted:
        assert len(lines) == 2
        assert "not used on /device:GPU:0: the lookup kernel is wrong" in lines[0]
        assert "/device:GPU:1" in lines[1]
    else:
        assert lines == []


class OnTheHost(DeviceGroup):
    """A group in "device" memory, with the CPU's functors in place of the kernels."""

    def pool(self) -> None:
        self._loaded("test_host_lookup", ctypes.byref(self.structure))

    def sort(self) -> None:
        self._counts = (ctypes.c_int64 * self.structure.num_shards)()
        self._loaded("test_host_sort", ctypes.byref(self.structure), self._counts)

    def count_rows(self) -> List[int]:
        return list(self._counts)

    def sum(self) -> None:
        self._loaded("test_host_sum")

    def apply(self, optimizer: UsualOptimizer) -> None:
        self._loaded("test_host_apply", ctypes.byref(optimizer.made))

    def _loaded(self, name: str, *arguments: Any) -> None:
        assert getattr(self._library._loaded, name)(*arguments) == 0


@pytest.mark.slow
def test_the_cpu_in_place_of_kernels_gives_the_reference(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "DeviceGroup", OnTheHost)
    monkeypatch.setattr(checks, "_SUM_STEPS", 4000)  # it adds 3,000 numbers one after another
    loaded = Library(library)
    found = []
    for group in list(shapes.groups(3, False))[1::2]:  # every dtype and kind of group
        found += [checks.check_lookup(loaded, group), checks.check_gradient(loaded, group)]
        found += [checks.check_apply(loaded, group, one) for one in loaded.optimizers]
    assert len(found) > 50
    assert [one.fault for one in found if one.fault] == []
