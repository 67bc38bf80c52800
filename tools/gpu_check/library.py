"""The library of kernels, as ctypes calls it, and device memory."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from tools.gpu_check.numbers import Array

NO_FAULT = 2**64 - 1
RULES = ("gradient_descent", "momentum", "nesterov", "adagrad", "ftrl", "adam")
_MOST_SIZES = 8
_P = ctypes.c_void_p
_I32 = ctypes.c_int32
_I64 = ctypes.c_int64


class Shard(ctypes.Structure):
    """GraphOptCudaShard."""

    _fields_ = [
        ("num_rows", _I64),
        ("rows", _P),
        ("slots", _P * 2),
        ("indices", _P),
        ("sums", _P),
    ]


class Table(ctypes.Structure):
    """GraphOptCudaTable."""

    _fields_ = [(name, _I32) for name in ("first_shard", "num_shards", "dim", "type", "partition")]


class Lookup(ctypes.Structure):
    """GraphOptCudaLookup."""

    _fields_ = [
        *((name, _P) for name in ("ids", "positions", "weights", "pooled")),
        *(
            (name, _I64)
            for name in (
                "pooled_stride",
                "num_ids",
                "num_bags",
                "stride",
                "width",
                "default_id",
                "filled_id",
            )
        ),
        ("sizes", _I64 * _MOST_SIZES),
        *(
            (name, _I32)
            for name in ("num_sizes", "table", "layout", "combiner", "wide_ids", "safe")
        ),
    ]


class Group(ctypes.Structure):
    """GraphOptCudaGroup."""

    _fields_ = [
        ("shards", ctypes.POINTER(Shard)),
        ("tables", ctypes.POINTER(Table)),
        ("lookups", ctypes.POINTER(Lookup)),
        ("num_shards", _I32),
        ("num_tables", _I32),
        ("num_lookups", _I32),
    ]


class Numbers(ctypes.Structure):
    """GraphOptCudaNumbers."""

    _fields_ = [
        ("rule", _I32),
        ("update_slots", _I32),
        ("multiply_linear_by_lr", _I32),
        *(
            (name, ctypes.c_float)
            for name in (
                "learning_rate", "momentum", "l1", "l2", "l2_shrinkage", "learning_rate_power",
                "beta1", "beta2", "epsilon",
            )
        ),
    ]  # fmt: skip


_G = ctypes.POINTER(Group)
_SIGNATURES: Dict[str, Any] = {
    "graph_opt_cuda_lookup_workspace": (_I64, [_G]),
    "graph_opt_cuda_sort_workspace": (_I64, [_G]),
    "graph_opt_cuda_lookup": (_I32, [_G, _P, _P, _P]),
    "graph_opt_cuda_sort": (_I32, [_G, _P, _P, _P]),
    "graph_opt_cuda_count_rows": (_I32, [_G, _P, ctypes.POINTER(_I64), _P]),
    "graph_opt_cuda_sum": (_I32, [_G, _P, _P]),
    "graph_opt_cuda_apply": (_I32, [_G, ctypes.POINTER(Numbers), _P, _P]),
    "graph_opt_cuda_message": (ctypes.c_char_p, [_I32]),
    "gpu_check_device_name": (ctypes.c_char_p, []),
    "gpu_check_allocate": (_P, [_I64]),
    "gpu_check_free": (None, [_P]),
    "gpu_check_copy_to_device": (_I32, [_P, _P, _I64]),
    "gpu_check_copy_from_device": (_I32, [_P, _P, _I64]),
    "gpu_check_copy_on_device": (_I32, [_P, _P, _I64]),
    "gpu_check_wait": (_I32, []),
    "gpu_check_start": (_I32, []),
    "gpu_check_stop": (_I32, [ctypes.POINTER(ctypes.c_float)]),
}


class DeviceError(Exception):
    """A call of the library failed; the message says which and why."""


class Library:
    """A built library: `call(name, ...)` calls a function and raises where it gives a fault.

    Raises:
        OSError: the file is no library.
    """

    def __init__(self, path: Path) -> None:
        self._loaded = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._loaded, name)
            function.restype = result
            function.argtypes = arguments

    @property
    def device(self) -> Optional[str]:
        """The GPU's name, or None where there is none that can be used."""
        name = self._loaded.gpu_check_device_name()
        return None if name is None else name.decode()

    def call(self, name: str, *arguments: Any) -> int:
        """The result of a function.

        Raises:
            DeviceError: it is a status other than 0, or a negative number of bytes.
        """
        result = getattr(self._loaded, name)(*arguments)
        returned, _ = _SIGNATURES[name]
        failed = result != 0 if returned is _I32 else returned is _I64 and result < 0
        if failed:
            message = self._loaded.graph_opt_cuda_message(result).decode()
            raise DeviceError("{} gives {}: {}".format(name, result, message))
        return int(result or 0)

    def emulate_order(self, order: int) -> None:
        """For tests, whose library runs a block's threads one after another: in which order."""
        self._loaded.gpu_check_emulated_order(ctypes.c_int32(order))

    def milliseconds(self) -> float:
        """Time on the device since `gpu_check_start`."""
        passed = ctypes.c_float()
        self.call("gpu_check_stop", ctypes.byref(passed))
        return passed.value


class Memory:
    """Device memory, given back when the `with` block ends."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._pieces: List[int] = []

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        for piece in self._pieces:
            self._library.call("gpu_check_free", piece)
        self._pieces = []

    def allocate(self, num_bytes: int) -> int:
        """The address of new memory, aligned to 256 bytes.

        Raises:
            DeviceError: there is not so much.
        """
        piece = self._library.call("gpu_check_allocate", num_bytes)
        if not piece:
            raise DeviceError("no {} bytes of device memory".format(num_bytes))
        self._pieces.append(piece)
        return piece

    def put(self, values: Array) -> int:
        """The address of a copy of an array."""
        values = np.ascontiguousarray(values)
        piece = self.allocate(values.nbytes)
        self._library.call("gpu_check_copy_to_device", piece, values.ctypes.data, values.nbytes)
        return piece

    def get(self, address: int, shape: Sequence[int], dtype: str) -> Array:
        """The array at an address."""
        values = np.empty(shape, dtype)
        self._library.call("gpu_check_copy_from_device", values.ctypes.data, address, values.nbytes)
        return values
