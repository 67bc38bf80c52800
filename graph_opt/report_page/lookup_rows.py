"""The tables of a page: lookups with all that is known of each, and what they read."""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Sequence

from graph_opt.compat.op_definitions import dtype_name, dtype_size
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.reporting.remedies import REMEDIES
from graph_opt.reporting.report import Report
from graph_opt.reporting.tables import shape_text
from graph_opt.reporting.user_lookups import UserLookup, user_lookups
from graph_opt.rules.op_names import VARIABLES

# Where ids enter a graph, or get the name of their feature.
_SOURCES = re.compile(
    r"^(IteratorGetNext(Sync)?|QueueDequeue\w*|TensorBufferTake|Placeholder\w*|ParseExample(V2)?"
    r"|ParseSingleExample|DecodeCSV|E?PyFunc\w*|Stage|Unstage|ReaderRead\w*)$"
)
_MOST_STEPS = 3000
_MOST_SOURCES = 4


def lookup_rows(report: Report, view: GraphView) -> List[Dict[str, Any]]:
    """One row for each lookup, as its author wrote it.

    Args:
      report: What passes found and did.
      view: The graph in which the lookups were found.
    """
    return [_row(lookup, view) for lookup in user_lookups(report)]


def table_rows(report: Report, view: GraphView) -> List[Dict[str, Any]]:
    """One row for each variable that a lookup reads."""
    readers: Dict[str, int] = {}
    for lookup in user_lookups(report):
        for name in lookup.tables:
            readers[name] = readers.get(name, 0) + lookup.count
    return [dict(_variable(view, name), lookups=count) for name, count in readers.items()]


def _row(lookup: UserLookup, view: GraphView) -> Dict[str, Any]:
    variables = [_variable(view, name) for name in lookup.tables]
    first = variables[0] if variables else {}
    return {
        "name": lookup.name,
        "count": lookup.count,
        "api": lookup.api,
        "tables": list(lookup.tables),
        "shape": first.get("shape", ""),
        "device": first.get("device", ""),
        "combiner": lookup.combiner or "",
        "ids": _ids_from(view, lookup.output),
        "group": lookup.group,
        "gradient": lookup.gradient,
        "update": lookup.update,
        "stage": lookup.stage,
        "reasons": [
            dict(refusal, remedy=REMEDIES.get(refusal["code"], "")) for refusal in lookup.refusals
        ],
        "node": lookup.output.rpartition(":")[0],
    }


def _variable(view: GraphView, name: str) -> Dict[str, Any]:
    if name not in view:
        return {"name": name, "shape": "", "dtype": "", "bytes": None, "device": ""}
    shape, dtype = _shape(view, name), _dtype(view, name)
    return {
        "name": name,
        "shape": shape_text(shape),
        "dtype": dtype_name(dtype) if dtype else "",
        "bytes": _bytes(shape, dtype_size(dtype)),
        "device": view.device(name),
    }


def _shape(view: GraphView, name: str) -> Shape:
    given = view.attribute(name, "shape")
    if given is None or given.shape.unknown_rank:
        return None
    return tuple(None if size.size < 0 else size.size for size in given.shape.dim)


def _dtype(view: GraphView, name: str) -> int:
    given = view.attribute(name, "dtype")
    return 0 if given is None else given.type


def _bytes(shape: Shape, size: Any) -> Any:
    if shape is None or size is None or None in shape:
        return None
    for length in shape:
        size *= length
    return size


def _ids_from(view: GraphView, output: str) -> str:
    """The tensors of the input that a lookup depends on, the nearest first."""
    found: Dict[str, List[int]] = {}
    for tensor in _sources(view, output):
        found.setdefault(tensor.node, []).append(tensor.index)
    texts = [_outputs(node, indices) for node, indices in found.items()]
    if len(texts) > _MOST_SOURCES:
        texts[_MOST_SOURCES:] = ["{} more".format(len(texts) - _MOST_SOURCES)]
    return "  ".join(texts)


def _outputs(node: str, indices: Sequence[int]) -> str:
    if len(indices) > _MOST_SOURCES:
        return "{} ({} outputs)".format(node, len(indices))
    return "{}:{}".format(node, ",".join(map(str, indices)))


def _sources(view: GraphView, output: str) -> Iterator[TensorRef]:
    start = TensorRef.parse(output)
    queue: Deque[TensorRef] = deque([start] if start.node in view else [])
    seen = {start.node}
    given = set()
    for _ in range(_MOST_STEPS):
        if not queue:
            return
        tensor = queue.popleft()
        if _SOURCES.match(view.op(tensor.node)):
            if tensor not in given:
                given.add(tensor)
                yield tensor
            continue
        queue.extend(_unseen(view, view.inputs(tensor.node), seen))


def _unseen(view: GraphView, tensors: Sequence[TensorRef], seen: Any) -> Iterator[TensorRef]:
    for tensor in tensors:
        op = view.op(tensor.node)
        if op in VARIABLES or (tensor.node in seen and not _SOURCES.match(op)):
            continue
        seen.add(tensor.node)
        yield tensor
