"""Which vector instructions an implementation runs, as far as it can be told from outside.

Only the standard library is imported, since peers without TensorFlow read this as well.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path
from typing import FrozenSet, Tuple

UNKNOWN = "unknown"
_STANDARD_ERROR = 2
_LOG_BYTES = 1 << 20
# Widest first: the name shown, TensorFlow's name, and the flag in /proc/cpuinfo.
_SETS: Tuple[Tuple[str, str, str], ...] = (
    ("AVX-512", "AVX512F", "avx512f"),
    ("AVX2", "AVX2", "avx2"),
    ("AVX", "AVX", "avx"),
    ("SSE4.2", "SSE4.2", "sse4_2"),
)
_NOT_COMPILED = re.compile(r"To enable the following instructions: ([^,]+),")
_REGISTERS = (("zmm", "AVX-512"), ("ymm", "AVX"), ("xmm", "SSE"))


def cpu_flags() -> FrozenSet[str]:
    """The flags of /proc/cpuinfo; none on a CPU that lists none under this name."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("flags"):
                return frozenset(line.partition(":")[2].split())
    return frozenset()


def of_tensorflow(log: str, flags: FrozenSet[str]) -> str:
    """What TensorFlow's wheel was compiled for, by the line that it logs when it is imported.

    Args:
        log: what TensorFlow wrote to standard error with TF_CPP_MIN_LOG_LEVEL=0.
        flags: those of the CPU.

    Example:
        >>> of_tensorflow("To enable the following instructions: AVX2 FMA, in ...", cpu_flags())
        'AVX'
    """
    if "cpu_feature_guard" not in log:
        return UNKNOWN
    found = _NOT_COMPILED.search(log)
    missing = found.group(1).split() if found else []
    for name, theirs, flag in _SETS:
        if flag in flags and theirs not in missing:
            return name
    return UNKNOWN


def own_log() -> str:
    """What this process has written to standard error, if that is a file."""
    if not stat.S_ISREG(os.fstat(_STANDARD_ERROR).st_mode):
        return ""
    return os.pread(_STANDARD_ERROR, _LOG_BYTES, 0).decode("utf-8", "replace")


def of_library(path: Path) -> str:
    """The widest vector registers in a library's code, by binutils' objdump."""
    command = ["objdump", "--disassemble", "--no-show-raw-insn", str(path)]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            used = {name for line in process.stdout for name, _ in _REGISTERS if "%" + name in line}
    except OSError:
        return UNKNOWN
    return next((shown for name, shown in _REGISTERS if name in used), UNKNOWN)
