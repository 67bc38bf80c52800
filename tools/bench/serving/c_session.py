"""A session through TensorFlow's C API, as programs that serve have one.

`Session.run` of Python looks at each feed before TensorFlow gets it, for about ten microseconds: of
a request with 200 feeds that is more than all else. Here the tensors of a request are made once,
and a call does what a server does once it has them.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import tensorflow
import tensorflow.compat.v1 as tf

_LIBRARY = "libtensorflow_cc.so.2"
_STRING_BYTES = 24  # of a TF_TString
_POINTERS = (
    "TF_NewStatus", "TF_NewGraph", "TF_NewSessionOptions", "TF_LoadSessionFromSavedModel",
    "TF_GraphOperationByName", "TF_AllocateTensor", "TF_TensorData",
)  # fmt: skip
_TEXTS = ("TF_Message",)
_NUMBERS = ("TF_Dim", "TF_TensorByteSize")


class _Output(ctypes.Structure):
    _fields_ = (("operation", ctypes.c_void_p), ("index", ctypes.c_int))


def _loaded() -> Any:
    library = ctypes.CDLL(str(Path(tensorflow.__file__).parent / _LIBRARY))
    for names, result in (
        (_POINTERS, ctypes.c_void_p),
        (_TEXTS, ctypes.c_char_p),
        (_NUMBERS, ctypes.c_int64),
    ):
        for name in names:
            getattr(library, name).restype = result
    return library


class CSession:
    """A SavedModel in a session, as a context.

    Args:
        folder: The SavedModel. This process has loaded the ops that it needs.
        tags: Of the graph.

    Raises:
        RuntimeError: What TensorFlow says of it.
    """

    def __init__(self, folder: str, tags: Sequence[str]) -> None:
        self._library = _loaded()
        self._graph = _pointer(self._library.TF_NewGraph())
        options = _pointer(self._library.TF_NewSessionOptions())
        named = (ctypes.c_char_p * len(tags))(*(tag.encode() for tag in tags))
        status = _Status(self._library)
        session = self._library.TF_LoadSessionFromSavedModel(
            options, None, folder.encode(), named, len(tags), self._graph, None, status.pointer
        )
        self._library.TF_DeleteSessionOptions(options)
        status.check()
        self._session = _pointer(session)

    def __enter__(self) -> CSession:
        return self

    def __exit__(self, *error: Any) -> None:
        status = _Status(self._library)
        self._library.TF_CloseSession(self._session, status.pointer)
        status.check()
        status = _Status(self._library)
        self._library.TF_DeleteSession(self._session, status.pointer)
        status.check()
        self._library.TF_DeleteGraph(self._graph)

    def call(self, fetch: str, feeds: Mapping[str, np.ndarray]) -> Callable[[], np.ndarray]:
        """A request, which may be sent from several threads.

        Args:
            fetch: Name of a tensor of float32.
            feeds: Tensors by name, strings as an array of bytes of dtype object.

        Returns:
            A function that sends it and returns the tensor.
        """
        library, count = self._library, len(feeds)
        inputs = (_Output * count)(*(self._output(name) for name in feeds))
        tensors = [_tensor(library, array) for array in feeds.values()]
        values = (ctypes.c_void_p * count)(*tensors)
        output = self._output(fetch)

        def send() -> np.ndarray:
            result, status = ctypes.c_void_p(), _Status(library)
            library.TF_SessionRun(
                self._session, None, inputs, values, count, ctypes.byref(output),
                ctypes.byref(result), 1, None, 0, None, status.pointer,
            )  # fmt: skip
            status.check()
            return _taken(library, result)

        return send

    def _output(self, name: str) -> _Output:
        operation, _, index = name.partition(":")
        found = self._library.TF_GraphOperationByName(self._graph, operation.encode())
        if found is None:
            raise ValueError("the graph has no operation {!r}".format(operation))
        return _Output(found, int(index))


class _Status:
    """What a call says, deleted when that was looked at."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.pointer = _pointer(library.TF_NewStatus())

    def check(self) -> None:
        """Raises RuntimeError if the call failed."""
        failed = self._library.TF_GetCode(self.pointer) != 0
        message = self._library.TF_Message(self.pointer) if failed else b""
        self._library.TF_DeleteStatus(self.pointer)
        if failed:
            raise RuntimeError(message.decode())


def _pointer(number: Any) -> ctypes.c_void_p:
    """A plain number would be passed on as 32 bits."""
    return ctypes.c_void_p(number)


def _tensor(library: Any, array: np.ndarray) -> int:
    """A tensor with the values of an array, which lives as long as the process."""
    is_text = array.dtype == object
    dtype = (tf.string if is_text else tf.as_dtype(array.dtype)).as_datatype_enum
    size = _STRING_BYTES * array.size if is_text else array.nbytes
    sizes = (ctypes.c_int64 * array.ndim)(*array.shape)
    tensor: int = library.TF_AllocateTensor(dtype, sizes, array.ndim, ctypes.c_size_t(size))
    data: int = library.TF_TensorData(_pointer(tensor)) or 0
    if not is_text:
        ctypes.memmove(data, np.ascontiguousarray(array).ctypes.data, size)
        return tensor
    for place, text in enumerate(array.flat):
        string = _pointer(data + place * _STRING_BYTES)
        library.TF_StringInit(string)
        library.TF_StringCopy(string, text, ctypes.c_size_t(len(text)))
    return tensor


def _taken(library: Any, tensor: ctypes.c_void_p) -> np.ndarray:
    """The values of a tensor of float32, which is deleted."""
    shape = [library.TF_Dim(tensor, axis) for axis in range(library.TF_NumDims(tensor))]
    size = library.TF_TensorByteSize(tensor)
    values = ctypes.string_at(library.TF_TensorData(tensor), size) if size else b""
    library.TF_DeleteTensor(tensor)
    return np.frombuffer(values, np.float32).reshape(shape)
