"""Whether FBGEMM looks up with vector instructions, or runs its reference path.

FBGEMM generates code for the instruction set that its library for the CPU's features finds. Where
code cannot be generated (FBGEMM_NO_ASMJIT, or a CPU in whose features it cannot look), it runs a
reference that takes 10 to 100 times as long and tells nobody. So it is asked, and then timed
against PyTorch's own gather and sum of the same rows.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import fbgemm_gpu
import torch

# inst_set_t of fbgemm/Utils.h.
_SETS = {
    1: "AVX2",
    2: "AVX-512",
    3: "AVX-512 in 256 bits",
    4: "AVX-512 VNNI",
    5: "AVX-512 VNNI in 256 bits",
    6: "SVE",
    7: "SVE2",
}
_ARM = (6, 7)
_INSTRUCTION_SET = "_ZN6fbgemm20fbgemmInstructionSetEv"
_IS_ASMJIT_DISABLED = "_ZN6fbgemm18is_asmjit_disabledEv"
_MOST_TIMES_OF_TORCH = 3.0  # generated code takes less than torch, the reference 20 times as long
_BAGS, _BAG, _ROWS, _DIMENSION = 2048, 20, 64, 64  # all in the first caches
_ROUNDS = 9


class FbgemmPath(NamedTuple):
    """How FBGEMM looks rows up.

    Attributes:
        instruction_set: what it generates code for.
        fault: why this is its reference path, or None.
    """

    instruction_set: str
    fault: Optional[str]


def fbgemm_path(pool: Callable[[Any, Any, Any], Any]) -> FbgemmPath:
    """Asks FBGEMM, and times it.

    Args:
        pool: FBGEMM's sums of bags: weights [rows, dimension], ids [n], offsets [bags + 1] ->
            [bags, dimension].
    """
    library = ctypes.CDLL(str(Path(fbgemm_gpu.__file__).with_name("fbgemm.so")))
    number = int(_function(library, _INSTRUCTION_SET, ctypes.c_int)())
    name = _SETS.get(number, "none")
    if number not in _SETS:
        return FbgemmPath(name, "FBGEMM runs its reference path: it finds no vector instructions")
    if number not in _ARM and _function(library, _IS_ASMJIT_DISABLED, ctypes.c_bool)():
        return FbgemmPath(name, "FBGEMM runs its reference path: it may not generate code")
    times = times_of_torch(pool)
    if times > _MOST_TIMES_OF_TORCH:
        told = "FBGEMM runs a slow path: in cache it takes {:.1f} times as long as PyTorch's gather"
        return FbgemmPath(name, told.format(times))
    return FbgemmPath(name, None)


def times_of_torch(pool: Callable[[Any, Any, Any], Any]) -> float:
    """FBGEMM's time by that of PyTorch's gather and sum of the same rows, on one thread."""
    weights = torch.rand(_ROWS, _DIMENSION)
    ids = torch.randint(0, _ROWS, (_BAGS * _BAG,))
    offsets = torch.arange(_BAGS + 1) * _BAG
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ours = _least(lambda: pool(weights, ids, offsets))
        gather = _least(lambda: weights.index_select(0, ids).view(_BAGS, _BAG, _DIMENSION).sum(1))
    finally:
        torch.set_num_threads(threads)
    return ours / gather


def _function(library: ctypes.CDLL, name: str, result: Any) -> Any:
    function = getattr(library, name)
    function.restype = result
    return function


def _least(call: Callable[[], object]) -> float:
    call()
    seconds = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
