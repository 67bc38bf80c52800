"""Whether an export predicts what the model that it was made from does."""

from __future__ import annotations

import contextlib
import os
import zipfile
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.ops.library import load_library
from graph_opt.reporting.value_differences import relative_difference, size_of
from graph_opt.saved_models.graphs import graphs_of_export
from graph_opt.saved_models.named_nodes import predicting_signatures
from graph_opt.serving.read_back_tables import lowered_tables, set_tables, take_updates_back
from graph_opt.serving.repeated_requests import repeated_inputs, with_first_row

Request = Mapping[str, np.ndarray]
Arrays = Sequence[np.ndarray]
Predictions = Dict[Tuple[str, str], List[np.ndarray]]
"""For each output of a signature its values in all requests."""

_SIZES = (1, 32, 512)
_MOST_EXAMPLES = 4096
_MOST_SINGLE = 64


class ComparedOutput(NamedTuple):
    """The values of one output in all requests.

    Attributes:
      signature: Name of the signature.
      output: Name of its output.
      requests: How many were compared.
      values: How many numbers they had.
      difference: The largest difference, as a part of the largest value of its request; 0.0 if all
        are equal bit for bit.
      mean: The mean difference, as a part of the largest value of all requests.
      apart: The largest difference in absolute numbers.
      mean_apart: The mean difference in absolute numbers.
      table_dtype: In which dtype the fused graph has tables of float32; empty: in none.
      beyond_tables: The largest difference, as `difference` is, from the graph in TensorFlow's own
        ops if its tables have the values of the fused graph's: what these change is not in it.
    """

    signature: str
    output: str
    requests: int
    values: int
    difference: float
    mean: float
    apart: float
    mean_apart: float
    table_dtype: str
    beyond_tables: float


def requests_in(path: str, folder: str) -> List[Request]:
    """Reads requests: batches of 1, 32 and 512 rows, in turn.

    Args:
      path: A `.npz` file with the inputs of a request by name, or a `.tfrecord` file of serialized
        `tf.train.Example`s for a model with a single input, of strings.
      folder: The model.

    Raises:
      tf.errors.InvalidArgumentError: The file is neither; the model has several inputs, or none of
        strings, where examples are given.
      tf.errors.NotFoundError: There is no such file.
    """
    if path.endswith(".npz"):
        try:
            if os.path.exists(path) and not zipfile.is_zipfile(path):
                raise zipfile.BadZipFile("no .npz file, or cut off")
            with np.load(path) as file:
                whole = {name: file[name] for name in file.files}
        except FileNotFoundError as error:
            raise tf.errors.NotFoundError(None, None, "{}: no such file".format(path)) from error
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise _invalid("{}: cannot be read: {}".format(path, error)) from error
        return _parts(whole)
    if not path.endswith((".tfrecord", ".tfrecords")):
        raise _invalid("{}: requests are read from .npz and .tfrecord files".format(path))
    records = tf.io.tf_record_iterator(path)
    examples = [record for record, _ in zip(records, range(_MOST_EXAMPLES))]
    if not examples:
        raise _invalid("{}: there are no records".format(path))
    return _parts({_input_of_examples(folder): np.array(examples, object)})


def compare_predictions(folder: str, requests: Sequence[Request]) -> List[ComparedOutput]:
    """Runs requests on both graphs of an export.

    Args:
      folder: What `export_fused` wrote.
      requests: Each has the inputs of at least one signature, by name. Inputs that were exported as
        repeated get the values of their first row in all rows.

    Returns:
      What came of each output of the signatures whose inputs the requests have.

    Raises:
      tf.errors.InvalidArgumentError: It is no such folder; no signature has these inputs.
      tf.errors.OpError: What either graph raises for a request, such as a negative id.
    """
    stock, fused = graphs_of_export(folder)
    repeated = repeated_inputs(fused)
    requests = [with_first_row(request, repeated) for request in requests]
    names = [
        name
        for name, signature in predicting_signatures(stock).items()
        if set(signature.inputs) <= set(requests[0])
    ]
    if not names:
        raise _invalid(_no_signature(folder, stock, requests[0]))
    load_library()
    tables = lowered_tables(folder, stock, fused)
    rounded: Predictions = {}
    with _session(folder, stock) as session:
        expected = _all_predicted(session, stock, names, requests)
        if tables:
            set_tables(session, tables)
            rounded = _all_predicted(session, stock, names, requests)
    with _session(folder, fused) as session:
        take_updates_back(session, fused, folder)
        found = _all_predicted(session, fused, names, requests)
    dtypes = ", ".join(sorted({table.head.dtype.name for table in tables}))
    return [
        _compared(key, dtypes, expected[key], found[key], rounded.get(key, expected[key]))
        for key in sorted(expected)
    ]


def _all_predicted(
    session: Any, meta_graph: Any, names: Sequence[str], requests: Sequence[Request]
) -> Predictions:
    predictions: Predictions = {}
    for name in names:
        for request in requests:
            values = _predicted(session, meta_graph.signature_def[name], request)
            for output, value in values.items():
                predictions.setdefault((name, output), []).append(value)
    return predictions


def _compared(
    key: Tuple[str, str], table_dtype: str, expected: Arrays, found: Arrays, rounded: Arrays
) -> ComparedOutput:
    apart = np.concatenate([_apart(*pair) for pair in zip(expected, found)])
    size = max(map(_size, expected))
    mean = float(apart.mean()) if apart.size else 0.0
    return ComparedOutput(
        *key,
        requests=len(expected),
        values=sum(value.size for value in expected),
        difference=max(map(_difference, expected, found)),
        mean=mean / size if size else (np.inf if mean else 0.0),
        apart=float(apart.max(initial=0.0)),
        mean_apart=mean,
        table_dtype=table_dtype,
        beyond_tables=max(map(_difference, rounded, found)),
    )


def _predicted(session: Any, signature: Any, request: Request) -> Dict[str, np.ndarray]:
    feeds = {info.name: request[key] for key, info in signature.inputs.items()}
    fetches = {key: info.name for key, info in signature.outputs.items()}
    return {key: np.asarray(value) for key, value in session.run(fetches, feeds).items()}


def _difference(expected: np.ndarray, found: np.ndarray) -> float:
    if expected.dtype.kind in "fiucb":
        return relative_difference(expected, found)
    return 0.0 if np.array_equal(expected, found) else float("inf")


def _apart(expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    """How far numbers are apart: infinitely, if one is no number, or a request has others."""
    if expected.dtype.kind not in "fiub" or expected.shape != found.shape:
        return np.array([0.0 if np.array_equal(expected, found) else np.inf])
    left, right = expected.astype(np.float64).ravel(), found.astype(np.float64).ravel()
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(left - right))
    return np.where(np.isnan(apart), np.inf, apart)


def _size(value: np.ndarray) -> float:
    return size_of(value) if value.dtype.kind in "fiub" else 0.0


@contextlib.contextmanager
def _session(folder: str, meta_graph: Any) -> Iterator[Any]:
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        tf.saved_model.loader.load(session, list(meta_graph.meta_info_def.tags), folder)
        yield session


def _input_of_examples(folder: str) -> str:
    stock, _ = graphs_of_export(folder)
    names = {
        name
        for signature in stock.signature_def.values()
        if len(signature.inputs) == 1
        for name, info in signature.inputs.items()
        if info.dtype == tf.string.as_datatype_enum
    }
    if len(names) != 1:
        raise _invalid(
            "{}: takes no serialized examples: give its inputs by name, in a .npz file".format(
                folder
            )
        )
    return names.pop()


def _no_signature(folder: str, meta_graph: Any, request: Request) -> str:
    wanted = [
        "{} needs {}".format(name, ", ".join(sorted(set(signature.inputs) - set(request))))
        for name, signature in predicting_signatures(meta_graph).items()
    ]
    return "{}: the requests have {}, and of the signatures, {}".format(
        folder, ", ".join(sorted(request)) or "nothing", "; ".join(wanted) or "none has inputs"
    )


def _parts(whole: Request) -> List[Request]:
    """Requests of few and of many rows; the whole where inputs have no rows in common."""
    lengths = {len(array) if array.ndim else -1 for array in whole.values()}
    if len(lengths) != 1 or min(lengths) < 1:
        return [whole]
    rows = lengths.pop()
    parts: List[Request] = []
    begin = 0
    for number in range(_MOST_SINGLE):
        end = min(begin + _SIZES[number % len(_SIZES)], rows)
        if begin < end:
            parts.append({name: array[begin:end] for name, array in whole.items()})
        begin = end
    return parts


def _invalid(text: str) -> Exception:
    return tf.errors.InvalidArgumentError(None, None, text)
