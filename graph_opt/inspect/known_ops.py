"""Graphs with ops that this process does not have, made such that TensorFlow can import them."""

from __future__ import annotations

from typing import Any, Dict, List, Set

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import is_registered, output_dtypes
from graph_opt.graph.known_attributes import drop_unknown_attributes, has_unknown_attributes

_COLOCATED = "_class"
# Collectives that return what has the shape of their first input.
_ALIKE = frozenset(["HorovodAllreduce", "HorovodBroadcast"])


def with_known_ops(graph_def: Any) -> Any:
    """The graph itself, or a copy to infer shapes from if this process lacks ops of it.

    A collective of Horovod becomes an op that returns the same dtypes, and shapes where they are
    those of its input. Other unknown ops are left out, with all that depends on them. Ops to which
    a later release of TensorFlow has given attributes are as this one has them.

    Args:
      graph_def: A GraphDef; not changed.
    """
    library = {function.signature.name for function in graph_def.library.function}
    unknown = {
        node.name
        for node in graph_def.node
        if node.op not in library and not is_registered(node.op)
    }
    if not unknown and not has_unknown_attributes(graph_def):
        return graph_def
    known = tf.GraphDef()
    known.versions.CopyFrom(graph_def.versions)
    known.library.CopyFrom(graph_def.library)
    kept: Dict[str, Any] = {}
    for node in graph_def.node:
        kept[node.name] = _stand_in(node) if node.name in unknown else node
    for name in _without(kept, [name for name, node in kept.items() if node is None]):
        del kept[name]
    for node in kept.values():
        copy = known.node.add()
        copy.CopyFrom(node)
        copy.attr.pop(_COLOCATED, None)  # It may name a node that was left out.
    drop_unknown_attributes(known)
    return known


def _stand_in(node: Any) -> Any:
    """A node of the same dtypes whose op TensorFlow has; None if they are not known."""
    dtypes = output_dtypes(node)
    if dtypes is None:
        return None
    result = tf.NodeDef(name=node.name)
    if node.op in _ALIKE:
        result.op = "Identity"
        result.input.extend(node.input)
        result.attr["T"].CopyFrom(node.attr["T"])
        return result
    result.op = "PyFunc"
    result.attr["token"].s = b""
    result.attr["Tin"].list.SetInParent()
    result.attr["Tout"].list.type.extend(dtypes)
    return result


def _without(nodes: Dict[str, Any], lost: List[str]) -> Set[str]:
    """Names of lost nodes, and of all that depend on one."""
    readers: Dict[str, List[str]] = {}
    for name, node in nodes.items():
        for text in node.input if node is not None else ():
            readers.setdefault(text.lstrip("^").partition(":")[0], []).append(name)
    found, pending = set(lost), list(lost)
    while pending:
        for reader in readers.get(pending.pop(), ()):
            if reader not in found:
                found.add(reader)
                pending.append(reader)
    return found
