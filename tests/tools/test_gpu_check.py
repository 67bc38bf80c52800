"""The kernels for GPUs, run on the host, and the tool that checks them on a GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import List, Sequence

import numpy as np
import pytest

from tests.conftest import MadeOnce
from tools.gpu_check import checks, compiled, reference, shapes, timing
from tools.gpu_check.__main__ import main
from tools.gpu_check.device_group import DeviceGroup, positions_of
from tools.gpu_check.library import DeviceError, Library, Memory
from tools.gpu_check.numbers import loaded, stored
from tools.gpu_check.shapes import Draw, Group, Lookup, Table

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
LIBRARY = "libgroup_embedding_emulated.so"
FORWARD, BACKWARD, SHUFFLED = range(3)  # the orders in which a block's threads can run


def build_emulated(folder: Path, flags: Sequence[str] = ()) -> Path:
    """The library with the kernels compiled for the host."""
    library = folder / LIBRARY
    sources = [HERE / "group_embedding_emulated.cc", *compiled.SOURCES[1:-1]]
    command = ["c++", "-std=c++14", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    command += [*flags, "-fPIC", "-shared", "-o", str(library)]
    command += ["-I", str(REPOSITORY / "ops_src"), "-I", str(REPOSITORY / "tools/gpu_check")]
    subprocess.run([*command, *(str(source) for source in sources)], check=True, timeout=900)
    return library


@pytest.fixture(scope="module")
def emulated(compiled_once: MadeOnce) -> Path:
    return compiled_once("emulated", build_emulated) / LIBRARY


def faults(path: Path, order: int, seed: int, every: int) -> List[str]:
    """What the checks of small groups find: of all, or of one in so many."""
    library = Library(path)
    library.emulate_order(order)
    groups = list(shapes.groups(seed, False))[::every]
    found = [one for group in groups for one in checks.check(library, group)]
    assert len(found) > 100 / every
    return ["{} of {}: {}".format(one.check, one.group, one.fault) for one in found if one.fault]


@pytest.mark.parametrize(
    "order, seed, every",
    [
        pytest.param(FORWARD, 0, 1, marks=pytest.mark.slow),
        pytest.param(BACKWARD, 1, 1, marks=pytest.mark.slow),
        (SHUFFLED, 2, 5),
        pytest.param(SHUFFLED, 3, 1, marks=pytest.mark.slow),
    ],
)
def test_kernels_give_the_reference_in_any_order_of_threads(
    emulated: Path, order: int, seed: int, every: int
) -> None:
    assert faults(emulated, order, seed, every) == []


@pytest.mark.slow
def test_kernels_under_sanitizers(tmp_path: Path) -> None:
    flags = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    library = build_emulated(tmp_path, flags)
    runtimes = []
    for name in ("libasan.so", "libubsan.so"):
        named = subprocess.run(
            ["c++", "-print-file-name=" + name], stdout=subprocess.PIPE, check=True, text=True
        )
        runtimes.append(named.stdout.strip())
    environment = dict(os.environ, LD_PRELOAD=" ".join(runtimes), ASAN_OPTIONS="detect_leaks=0")
    command = [sys.executable, "-m", "tools.gpu_check", "--small", "--library", str(library)]
    for seed in range(3):
        ran = subprocess.run(
            [*command, "--output", str(tmp_path / "figures.json"), "--seed", str(seed)],
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )
        assert ran.returncode == 0, ran.stdout


@pytest.fixture
def few_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the tool check only the first four groups."""
    every = shapes.groups
    monkeypatch.setattr(shapes, "groups", lambda seed, large: islice(every(seed, large), 4))


@pytest.mark.slow
@pytest.mark.usefixtures("few_groups")
def test_the_tool_writes_figures_and_succeeds(
    emulated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "bench" / "gpu_check.json"
    assert main(["--library", str(emulated), "--small", "--output", str(figures)]) == 0
    written = json.loads(figures.read_text(encoding="utf-8"))
    assert written["device"] == "emulated"
    assert written["checks"] > 30
    assert written["failed"] == 0
    assert "largest error of allowed" in capsys.readouterr().out


@pytest.mark.usefixtures("few_groups")
def test_the_tool_fails_when_a_check_fails(
    emulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_SUM_STEPS", 0)
    output = str(tmp_path / "figures.json")
    assert main(["--library", str(emulated), "--small", "--output", output]) == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_kernels_compile_for_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--compile-only"]) == 0
    assert "compiled, not run" in capsys.readouterr().out


def test_without_nvcc_the_tool_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compiled, "nvcc", lambda: None)
    assert main(["--compile-only"]) == 1
    assert "there is no nvcc" in capsys.readouterr().err


def test_without_a_gpu_the_tool_says_that_nothing_ran(
    emulated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Library, "device", None)
    assert main(["--library", str(emulated)]) == 2
    assert "compiled, not run" in capsys.readouterr().err


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(SystemExit):
        main(["--fast"])


def test_known_architectures_are_those_of_the_compiler(tmp_path: Path) -> None:
    compiler = tmp_path / "nvcc"
    compiler.write_text("#!/bin/sh\nprintf 'compute_75\\ncompute_80\\ncompute_90\\n'\n")
    compiler.chmod(0o755)
    assert compiled.known_architectures(str(compiler)) == ["80", "90"]


def test_a_group_that_contradicts_itself_is_refused(emulated: Path) -> None:
    library = Library(emulated)
    table = Table((np.zeros([3, 4], "f4"),), "float32")
    lookup = Lookup(0, np.zeros(3, np.int64), np.zeros(3, np.int64), 2, "dense")
    with Memory(library) as memory, pytest.raises(DeviceError, match="contradicts itself"):
        DeviceGroup(library, memory, Group("bad", (table,), (lookup,)))


def test_a_time_is_measured_for_each_pass(emulated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_ROWS", 100)
    monkeypatch.setattr(timing, "_ROUNDS", 2)
    monkeypatch.setattr(timing, "_COPY_BYTES", 1 << 12)
    library = Library(emulated)
    timed = timing.time_case(library, timing.Case(2, 3, 8, "zipf"))
    assert [one.what for one in timed] == ["forward", "sort", "gradient", "update"]
    rate = timing.copy_rate(library)
    assert len(timing.table(timed, rate).splitlines()) == 5
    assert timing.to_dicts(timed, rate)[0]["params"]["batch"] == 2


# The reference itself, by hand.


def two_rows(combiner: str, **options: object) -> Lookup:
    """Bag 0 has ids 1 and -1, bag 1 none, bag 2 ids 0 and 2."""
    bags = np.array([0, 0, 2, 2])
    return Lookup(0, np.array([1, -1, 0, 2]), bags, 3, combiner=combiner, **options)  # type: ignore[arg-type]


TABLE = Table((np.array([[1.0, 2.0], [5.0, 6.0]], "f4"), np.array([[3.0, 4.0]], "f4")), "float32")


@pytest.mark.parametrize("combiner, divisor", [("sum", 1.0), ("mean", 2.0), ("sqrtn", 2.0**0.5)])
def test_reference_pools_rows(combiner: str, divisor: float) -> None:
    got, magnitude = reference.pooled(two_rows(combiner), TABLE)
    # By mod, id 0 is row 0 of shard 0, id 1 row 0 of shard 1, id 2 row 1 of shard 0.
    np.testing.assert_allclose(got, np.array([[3, 4], [0, 0], [6 / divisor, 8 / divisor]]))
    np.testing.assert_allclose(magnitude, got)


def test_reference_takes_the_default_row_for_an_empty_bag() -> None:
    got, _ = reference.pooled(two_rows("mean", default_id=2), TABLE)
    np.testing.assert_allclose(got[1], [5, 6])


def test_reference_drops_weights_that_are_not_positive() -> None:
    weights = np.array([-1, 1, 0, 3], "f4")
    got, _ = reference.pooled(two_rows("mean", weights=weights), TABLE)
    np.testing.assert_allclose(got, [[0, 0], [0, 0], [5, 6]])
    kept, _ = reference.pooled(two_rows("sum", weights=weights), TABLE)
    np.testing.assert_allclose(kept, [[-3, -4], [0, 0], [15, 18]])


def test_reference_sums_gradients_by_row() -> None:
    gradient = np.array([[1.0, 1.0], [9.0, 9.0], [4.0, 2.0]])
    lookups = (two_rows("mean"), two_rows("sum", filled_id=0))
    sums = reference.row_sums(Group("sums", (TABLE,), lookups), 0, [gradient, gradient])
    assert sorted(sums) == [0, 1, 2]
    np.testing.assert_allclose(sums[0][0], [2 + 4, 1 + 2])
    np.testing.assert_allclose(sums[1][0], [1 + 1, 1 + 1])


def test_reference_gives_a_filled_row_a_gradient_of_zero() -> None:
    lookup = Lookup(0, np.zeros(0, np.int64), np.zeros(0, np.int64), 1, filled_id=1)
    sums = reference.row_sums(Group("filled", (TABLE,), (lookup,)), 0, [np.ones([1, 2])])
    assert list(sums) == [1]
    np.testing.assert_array_equal(sums[1][0], [0, 0])


@pytest.mark.parametrize("partition", ["mod", "div"])
def test_reference_places_ids_as_tensorflow_does(partition: str) -> None:
    table = Table((np.zeros([3, 1]), np.zeros([2, 1])), "float32", partition)
    wanted = {
        "mod": [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)],
        "div": [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)],
    }
    assert reference.places(table) == wanted[partition]


def test_bfloat16_rounds_to_nearest_even() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, -2.5], "f4")
    np.testing.assert_array_equal(
        loaded(stored(values, "bfloat16"), "bfloat16"), [1, 1, 1.015625, -2.5]
    )


def test_positions_name_the_same_bags() -> None:
    draw = Draw(5)
    for layout in ("ragged", "sparse"):
        lookup = draw.lookup(1, 9, [2, 0, 3], layout=layout)
        positions, stride = positions_of(lookup)
        if layout == "ragged":
            assert positions.tolist() == [0, 2, 2, 5]
        else:
            assert positions[:, 0].tolist() == [0, 0, 2, 2, 2]
            assert stride == 2
