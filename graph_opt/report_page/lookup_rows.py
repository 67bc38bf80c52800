"""The tables of a page: lookups with all that is known of each, and what they read."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from graph_opt.compat.op_definitions import dtype_name, dtype_size
from graph_opt.compat.stateful_ops import VARIABLES
from graph_opt.graph.view import GraphView, Shape
from graph_opt.report_page.id_sources import IdSources
from graph_opt.reporting.outcomes import NO_PART
from graph_opt.reporting.remedies import remedy
from graph_opt.reporting.report import Report
from graph_opt.reporting.tables import shape_text
from graph_opt.reporting.user_lookups import UserLookup, lookups_elsewhere, user_lookups

_TABLE = re.compile(r"\btable (\S+)")


def lookup_rows(
    report: Report, view: GraphView, called: Mapping[Tuple[str, str], Sequence[str]]
) -> List[Dict[str, Any]]:
    """One row for each lookup, as its author wrote it, those that no pass can handle last.

    Args:
      report: What passes found and did.
      view: The graph in which the lookups were found.
      called: The nodes in functions that read rows, by the node that calls them and the table.
    """
    ids = IdSources(view)
    rows = [_row(lookup, view, ids) for lookup in user_lookups(report)]
    return rows + [_row_elsewhere(refusal, view, called) for refusal in lookups_elsewhere(report)]


def table_rows(report: Report, view: GraphView) -> List[Dict[str, Any]]:
    """One row for each variable that a lookup reads."""
    readers: Dict[str, int] = {}
    for lookup in user_lookups(report):
        for name in lookup.tables:
            readers[name] = readers.get(name, 0) + lookup.count
    for refusal in lookups_elsewhere(report):
        for name in _variables_of(refusal, view):
            readers[name] = readers.get(name, 0) + 1
    return [dict(_variable(view, name), lookups=count) for name, count in readers.items()]


def _row(lookup: UserLookup, view: GraphView, ids: IdSources) -> Dict[str, Any]:
    table = _table(view, lookup.tables)
    return {
        "name": lookup.name,
        "count": lookup.count,
        "api": lookup.api,
        "tables": list(lookup.tables),
        "shape": table.get("shape", ""),
        "device": table.get("device", ""),
        "combiner": lookup.combiner or "",
        "ids": ids.text(lookup.output),
        "group": lookup.group,
        "gradient": lookup.gradient,
        "update": lookup.update,
        "stage": lookup.stage,
        "reasons": [_reason(refusal) for refusal in lookup.refusals],
        "node": lookup.output.rpartition(":")[0],
    }


def _row_elsewhere(
    refusal: Mapping[str, str],
    view: GraphView,
    called: Mapping[Tuple[str, str], Sequence[str]],
) -> Dict[str, Any]:
    """A lookup of which only its table and the reason are known."""
    names = _variables_of(refusal, view)
    table = _table(view, names)
    inside = [node for name in names for node in called.get((refusal["node"], name), ())]
    node = inside[0] if inside else refusal["node"]
    return {
        "name": node,
        "count": 1,
        "api": "",
        "tables": names,
        "shape": table.get("shape", ""),
        "device": table.get("device", ""),
        "combiner": "",
        "ids": "",
        "group": "",
        "gradient": NO_PART,
        "update": NO_PART,
        "stage": "",
        "reasons": [_reason(refusal)],
        "node": node,
    }


def _reason(refusal: Mapping[str, str]) -> Dict[str, str]:
    return dict(refusal, remedy=remedy(refusal["code"]))


def _variables_of(refusal: Mapping[str, str], view: GraphView) -> List[str]:
    """The variables that a refusal names in its words, and the node if it is one."""
    words = dict.fromkeys([*_TABLE.findall(refusal["saw"]), refusal["node"]])
    return [word for word in words if word in view and view.op(word) in VARIABLES]


def _table(view: GraphView, names: Sequence[str]) -> Dict[str, Any]:
    """What is known of the table that variables are the shards of."""
    if len(names) > 1 and all(name in view for name in names):
        return _described(view, names[0], names)
    return _variable(view, names[0]) if names else {}


def _variable(view: GraphView, name: str) -> Dict[str, Any]:
    """A variable, or all shards of one that a rewritten graph names as a whole."""
    return _described(view, name, [name] if name in view else _shards(view, name))


def _described(view: GraphView, name: str, shards: Sequence[str]) -> Dict[str, Any]:
    if not shards:
        return {"name": name, "shape": "", "dtype": "", "bytes": None, "device": ""}
    shape, dtype = _joined([_shape(view, shard) for shard in shards]), _dtype(view, shards[0])
    devices = dict.fromkeys(view.device(shard) for shard in shards)
    return {
        "name": name,
        "shape": shape_text(shape),
        "dtype": dtype_name(dtype) if dtype else "",
        "bytes": _bytes(shape, dtype_size(dtype)),
        "device": ", ".join(filter(None, devices)),
    }


def _shards(view: GraphView, name: str) -> List[str]:
    """The variables `name/part_0`, `name/part_1` and so on."""
    found: List[str] = []
    while "{}/part_{}".format(name, len(found)) in view:
        found.append("{}/part_{}".format(name, len(found)))
    return found


def _joined(shapes: Sequence[Shape]) -> Shape:
    """The shape of a table with rows, or columns, of all shards."""
    first = shapes[0]
    if len(shapes) == 1 or first is None:
        return first
    sizes = [shape for shape in shapes if shape is not None and len(shape) == len(first)]
    if len(sizes) < len(shapes) or any(None in shape for shape in sizes):
        return None
    differs = [axis for axis in range(len(first)) if len({size[axis] for size in sizes}) > 1]
    axis = differs[0] if differs else 0
    return (*first[:axis], sum(size[axis] or 0 for size in sizes), *first[axis + 1 :])


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
