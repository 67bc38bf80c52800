"""The library of kernels, as ctypes calls it, and device memory."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from tools.gpu_check.numbers import Array

NO_FAULT = 2**64 - 1
MOST_SLOTS = 3
_MOST_SIZES = 8
_P = ctypes.c_void_p
_I32 = ctypes.c_int32
_I64 = ctypes.c_int64


class Shard(ctypes.Structure):
    """GraphOptCudaShard."""

    _fields_ = [
        ("num_rows", _I64),
        ("rows", _P),
        ("slots", _P * MOST_SLOTS),
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


class Optimizer(ctypes.Structure):
    """GraphOptOptimizer."""

    _fields_ = [("number", _I32), ("spec", ctypes.c_uint32 * 12)]


_G = ctypes.POINTER(Group)
_SIGNATURES: Dict[str, Any] = {
    "graph_opt_cuda_lookup_workspace": (_I64, [_G]),
    "graph_opt_cuda_sort_workspace": (_I64, [_G]),
    "graph_opt_cuda_lookup": (_I32, [_G, _P, _P, _P]),
    "graph_opt_cuda_sort": (_I32, [_G, _P, _P, _P]),
    "graph_opt_cuda_count_rows": (_I32, [_G, _P, ctypes.POINTER(_I64), _P]),
    "graph_opt_cuda_sum": (_I32, [_G, _P, _P]),
    "graph_opt_cuda_apply": (_I32, [_G, ctypes.POINTER(Optimizer), _P, _P]),
    "graph_opt_cuda_message": (ctypes.c_char_p, [_I32]),
    "graph_opt_optimizer_specs": (ctypes.c_char_p, []),
    "graph_opt_make_optimizer": (
        ctypes.c_char_p,
        [ctypes.c_char_p, _P, _I32, _P, _I32, ctypes.POINTER(Optimizer)],
    ),
    "graph_opt_update_exactly": (None, [ctypes.POINTER(Optimizer), _I64, _P, _P, _P]),
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

    @property
    def optimizers(self) -> List[UsualOptimizer]:
        """Each optimizer without flags, and with each of its flags."""
        specs = json.loads(self.text("graph_opt_optimizer_specs") or "")
        return [
            UsualOptimizer(self, spec, flags)
            for spec in specs
            if not spec["sums_row"]
            for flags in [[], *([flag["name"]] for flag in spec["flags"])]
        ]

    def text(self, name: str, *arguments: Any) -> Optional[str]:
        """What a function of the library says; None for nothing."""
        said = getattr(self._loaded, name)(*arguments)
        return None if said is None else str(said.decode())

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


class UsualOptimizer:
    """An optimizer of `ops_src/optimizers` with its usual hyperparameters.

    Attributes:
      name: What it is, for people.
      initial_slots: Values of its slots before training.
      made: As kernels take it.
    """

    def __init__(self, library: Library, spec: Dict[str, Any], flags: Sequence[str]) -> None:
        self.name = "-".join((spec["name"], *flags))
        self.initial_slots = [slot["initial"] for slot in spec["slots"]]
        self.made = Optimizer()
        self._library = library
        usual = [one["usual"] for one in spec["hyperparameters"]]
        values = (ctypes.c_float * len(usual))(*usual)
        names = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        made = ctypes.byref(self.made)
        name = spec["name"].encode()
        wrong = library.text(
            "graph_opt_make_optimizer", name, values, len(usual), names, len(flags), made
        )
        if wrong is not None:
            raise DeviceError("graph_opt_make_optimizer: " + wrong)

    def updated(self, gradients: Array, weights: Array, slots: Sequence[Array]) -> List[Array]:
        """New weights and slots in float64, by the formula of the optimizer's spec."""
        new = [np.array(values, "f8") for values in (weights, *slots)]
        given = np.array(gradients, "f8")
        addresses = (_P * max(len(slots), 1))(*(values.ctypes.data for values in new[1:]))
        self._library.call(
            "graph_opt_update_exactly",
            ctypes.byref(self.made), given.size, given.ctypes.data, new[0].ctypes.data, addresses,
        )  # fmt: skip
        return new


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
