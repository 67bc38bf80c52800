"""Replaces group lookups that the user called, their gradients and updates, with TensorFlow's ops.

The forward part becomes one `tf.nn.safe_embedding_lookup_sparse` or `tf.nn.embedding_lookup` for
each lookup, which a graph_opt session fuses again. Updates are those of DeepRec's optimizers, which
TensorFlow does not have. What only a rewrite makes (joined columns, fused
updates) does not concern this file, since rewrites are reverted. Lookups that a column scope
replaced with larger ones while the model was built, and that nothing reads, are not exported.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Set

from graph_opt.compat import tf
from graph_opt.export.stock_gradients import row_gradients, weight_gradients
from graph_opt.export.stock_nodes import nodes_in_place_of
from graph_opt.graph.control_flow_ops import ENTERS
from graph_opt.graph.undo import node_of_input
from graph_opt.ops.group_embedding import NO_DEFAULT, SUPERSEDED, GroupAttributes, GroupIds
from graph_opt.ops.row_formulas import FORMULAS, update_rows_by_formula
from graph_opt.ops.stock_lookup import LookupIds, lookup_separately

# Attribute of nodes that a rewrite made; passes use the same name.
_FUSED = "_fused_by_graph_opt"
_REWRITTEN = (
    "a rewrite made it, and the graph had been rewritten before it was imported, or training that "
    "was built after the session's first run reads its shape (build all training before)"
)


def stock_groups(graph_def: Any, graph: Any, made: Dict[bytes, List[Any]]) -> List[str]:
    """Replaces group lookups of a GraphDef, their gradients and updates, in place.

    Args:
      graph_def: The GraphDef.
      graph: Its live graph.
      made: Nodes made before, by the node that they replace: a checkpoint is written many times.

    Returns:
      Lines for the user about nodes that could not be replaced.
    """
    ours = _UPDATES.union(_BUILDERS)
    if not any(node.op in ours for node in graph_def.node):
        return []
    lines: List[str] = []
    nodes: List[Any] = []
    superseded = _superseded(graph_def)
    in_frame = any(node.op in ENTERS for node in graph_def.node)
    for node in graph_def.node:
        if node.op not in ours:
            nodes.append(node)
            continue
        if node.name in superseded:
            continue
        key = node.SerializeToString(deterministic=True)
        try:
            if key not in made:
                made[key] = _replaced(node, graph, in_frame)
            nodes.extend(made[key])
        except (tf.errors.OpError, TypeError, ValueError) as error:
            nodes.append(node)
            lines.append("'{}' has no equivalent in TensorFlow's ops: {}".format(node.name, error))
    replaced = tf.GraphDef()
    replaced.node.extend(nodes)
    del graph_def.node[:]
    graph_def.node.extend(replaced.node)
    return lines


def _superseded(graph_def: Any) -> Set[str]:
    """Unread lookups that a column scope replaced with larger ones while the model was built."""
    found = {node.name for node in graph_def.node if SUPERSEDED in node.attr}
    if found:
        for node in graph_def.node:
            found.difference_update(node_of_input(text) for text in node.input)
    return found


def _replaced(node: Any, graph: Any, in_frame: bool) -> List[Any]:
    attributes = GroupAttributes.of(graph.get_operation_by_name(node.name))
    if _FUSED in node.attr:
        raise tf.errors.UnimplementedError(None, None, _REWRITTEN)
    if node.op in _UPDATES:
        return nodes_in_place_of(
            node, graph, lambda inputs: _build_update(node, inputs), in_frame, writes=True
        )
    build = _BUILDERS[node.op]
    return nodes_in_place_of(node, graph, lambda inputs: build(attributes, inputs), in_frame)


def _build_lookup(attributes: GroupAttributes, inputs: List[Any]) -> List[Any]:
    count = sum(attributes.table_shards)
    return _pooled(attributes, inputs[:count], _ids_of(attributes, inputs[count:]))


def _build_row_gradients(attributes: GroupAttributes, inputs: List[Any]) -> List[Any]:
    lookups = len(attributes.lookup_tables)
    ids = _ids_of(attributes, inputs[: -lookups - 1])
    table_rows, gradients = inputs[-lookups - 1], inputs[-lookups:]
    return row_gradients(attributes, _lookup_ids(attributes, ids), table_rows, gradients)


def _build_weight_gradients(attributes: GroupAttributes, inputs: List[Any]) -> List[Any]:
    shards, lookups = sum(attributes.table_shards), len(attributes.lookup_tables)
    ids = _ids_of(attributes, inputs[shards:-lookups])
    pooled = _pooled(attributes, inputs[:shards], ids)
    return weight_gradients(pooled, ids.weights, inputs[-lookups:])


def _build_update(node: Any, inputs: List[Any]) -> Any:
    """The update of rows that one of our optimizers wrote: one table, whose rows are the ids."""
    optimizer = node.attr["optimizer"].s.decode("utf-8")
    if optimizer not in FORMULAS or node.attr["num_shards"].i != 1:
        raise tf.errors.UnimplementedError(None, None, "it is an update by " + optimizer)
    slots, numbers = (node.attr["num_" + what].i for what in ("slots", "hyperparameters"))
    variables, rest = inputs[: 1 + slots], inputs[1 + slots :]
    rows, gradients = rest[numbers], rest[-1]
    return update_rows_by_formula(optimizer, variables, rest[:numbers], rows, gradients)


_UPDATES = frozenset(["GroupEmbeddingApply", "ResourceGroupEmbeddingApply"])
_Builder = Callable[[GroupAttributes, List[Any]], List[Any]]
_BUILDERS: Dict[str, _Builder] = {
    "GroupEmbeddingLookup": _build_lookup,
    "ResourceGroupEmbeddingLookup": _build_lookup,
    "GroupEmbeddingGrad": _build_row_gradients,
    "GroupEmbeddingWeightsGrad": _build_weight_gradients,
    "ResourceGroupEmbeddingWeightsGrad": _build_weight_gradients,
}


def _ids_of(attributes: GroupAttributes, inputs: List[Any]) -> GroupIds:
    lookups = len(attributes.lookup_tables)
    cuts = [i * lookups for i in range(4)]
    return GroupIds(
        ids=inputs[cuts[0] : cuts[1]],
        positions=inputs[cuts[1] : cuts[2]],
        shapes=inputs[cuts[2] : cuts[3]],
        weights=inputs[cuts[3] :],
    )


def _lookup_ids(attributes: GroupAttributes, ids: GroupIds) -> List[LookupIds]:
    weights = iter(ids.weights)
    return [
        LookupIds(
            attributes.layouts[i],
            ids.ids[i],
            ids.positions[i],
            ids.shapes[i],
            next(weights) if attributes.weighted[i] else None,
        )
        for i in range(len(attributes.lookup_tables))
    ]


def _pooled(attributes: GroupAttributes, shards: List[Any], ids: GroupIds) -> List[Any]:
    pooled = []
    for lookup, lookup_ids in enumerate(_lookup_ids(attributes, ids)):
        table = attributes.lookup_tables[lookup]
        default: Optional[int] = attributes.default_ids[lookup]
        pooled.append(
            lookup_separately(
                [shards[shard] for shard in attributes.shards_of(table)],
                lookup_ids,
                attributes.combiners[lookup],
                None if default == NO_DEFAULT else default,
                attributes.strategy_of(table),
                prune=attributes.safe,
            )
        )
    return pooled
