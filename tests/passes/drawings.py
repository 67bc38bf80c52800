"""Graphs as lines of text, to write small ones by hand and to tell what a pass changed.

    rows = GatherV2(table, ids, axis, ^count) on /job:ps/task:0

A line of a graph that is written by hand also has the attributes: `name=value`. Values are numbers,
texts, lists of either, shapes such as `(None, 4)`, and dtypes such as `float32`.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Sequence

from graph_opt.compat import tf
from graph_opt.graph.rewrite import Rewrite, apply_to_graph_def
from graph_opt.graph.view import GraphView, shape_proto
from graph_opt.ops.library import load_library

_LINE = re.compile(r"(\S+) = (\w+)\(([^)]*)\)(?: on (\S+))?((?: \w+=.+)?)$")
_ATTRIBUTE = re.compile(r" (\w+)=")


class Change(NamedTuple):
    """How a graph looks before and after a pass.

    Attributes:
      before, after: The GraphDefs.
    """

    before: Any
    after: Any

    @classmethod
    def by(cls, view: GraphView, *rewrites: Rewrite) -> Change:
        """What rewrites make of the graph of a view."""
        before = tf.GraphDef(node=view.nodes.values())
        return cls(before, apply_to_graph_def(before, *rewrites))

    @property
    def added(self) -> List[Any]:
        """The NodeDefs that only the later graph has."""
        names = {node.name for node in self.before.node}
        return [node for node in self.after.node if node.name not in names]

    def drawn(self, short: Dict[str, str], show: Sequence[str] = ()) -> List[str]:
        """The changed nodes with `-` as they were and `+` as they are, then those that are new.

        Args:
          short: What to write for parts of names, the longest first.
          show: Attributes that lines have, where nodes do.
        """
        was = {node.name: node for node in self.before.node}
        lines = []
        for node in self.after.node:
            if node.name in was:
                old, new = (line_of(one, show) for one in (was[node.name], node))
                lines += ["- " + old, "+ " + new] if old != new else []
        lines += ["+ " + line_of(node, show) for node in self.added]
        return [_shortened(line, short) for line in lines]


def graph_of(text: str) -> Any:
    """The GraphDef of a drawing, with our ops known."""
    load_library()
    graph_def = tf.GraphDef()
    for line in lines(text):
        found = _LINE.match(line)
        assert found is not None, line
        name, op, inputs, device, attributes = found.groups()
        given = [one.strip() for one in inputs.split(",") if one.strip()]
        node = graph_def.node.add(name=name, op=op, input=given, device=device or "")
        for key, value in _attributes(attributes):
            node.attr[key].CopyFrom(_attribute(value))
    return graph_def


def view_of(text: str) -> GraphView:
    """The view of a drawing."""
    return GraphView(graph_of(text))


def lines_of(nodes: Iterable[Any], show: Sequence[str] = ()) -> List[str]:
    """The lines of NodeDefs."""
    return [line_of(node, show) for node in nodes]


def line_of(node: Any, show: Sequence[str] = ()) -> str:
    """The line of a NodeDef, with the attributes of these names that it has."""
    line = "{} = {}({})".format(node.name, node.op, ", ".join(node.input))
    line += " on " + node.device if node.device else ""
    known = ((key, value_of(node.attr[key])) for key in show if key in node.attr)
    return line + "".join(" {}={!r}".format(key, value) for key, value in known)


def value_of(attribute: Any) -> Any:
    """An AttrValue as Python has it."""
    kind = attribute.WhichOneof("value")
    if kind == "list":
        fields = attribute.list.ListFields()
        return [_plain(field.name, one) for field, values in fields for one in values]
    return None if kind is None else _plain(kind, getattr(attribute, kind))


def _plain(kind: str, value: Any) -> Any:
    if kind == "s":
        return value.decode("utf-8")
    if kind == "type":
        return tf.as_dtype(value).name
    if kind == "shape":
        shape = tf.TensorShape(value)
        return None if shape.rank is None else tuple(shape.as_list())
    return value


def _attributes(text: str) -> List[Any]:
    parts = _ATTRIBUTE.split(text)
    return list(zip(parts[1::2], parts[2::2]))


def _attribute(text: str) -> Any:
    """The AttrValue of a value in a line."""
    value = _literal(text)
    if not isinstance(value, list):
        return tf.AttrValue(**_field(value))
    fields: Dict[str, List[Any]] = {}
    for one in value:
        for key, plain in _field(one).items():
            fields.setdefault(key, []).append(plain)
    return tf.AttrValue(list=tf.AttrValue.ListValue(**fields))


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except ValueError:
        names = [name.strip() for name in text.strip("[]").split(",")]
        dtypes = [tf.as_dtype(name) for name in names]
        return dtypes if text.startswith("[") else dtypes[0]


def _field(value: Any) -> Dict[str, Any]:
    if isinstance(value, bool):
        return {"b": value}
    if isinstance(value, int):
        return {"i": value}
    if isinstance(value, float):
        return {"f": value}
    if isinstance(value, tuple):
        return {"shape": shape_proto(value)}
    if isinstance(value, tf.DType):
        return {"type": value.as_datatype_enum}
    return {"s": value.encode("utf-8")}


def _shortened(line: str, short: Dict[str, str]) -> str:
    for text in sorted(short, key=len, reverse=True):
        line = line.replace(text, short[text])
    return line


def lines(text: str) -> List[str]:
    """The lines of a text, each without indentation and with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]
