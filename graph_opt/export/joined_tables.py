"""A graph that looks up whole tables, in place of one rank's graph of an exchange.

    exchange   ids ─ Prepare ═ ExchangeGather(this rank's parts) ═ ExchangeCombine ─ pooled rows
    exported   ids ─ group lookup(the parts of all ranks) ─ pooled rows

Part r of table `users` becomes the variable `users/part_r`, as do the tables that rank r has in a
variable of that name; a table of which one rank has all keeps its name.
"""

from __future__ import annotations

import collections
from typing import Any, Dict, List, NamedTuple, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import attributes_of
from graph_opt.graph.op_call import Tensor, by_argument, call_op
from graph_opt.graph.undo import node_of_input

VARIABLES = ("VarHandleOp", "VariableV2", "Variable")
_COLOCATION, _GRADIENT = "_class", "_gradient_op_type"
_COMBINE = "ExchangeCombine"
_BY_KEY = b"key"
_LOOKUPS = {
    "ExchangeGather": "GroupEmbeddingLookup",
    "ResourceExchangeGather": "ResourceGroupEmbeddingLookup",
}
_COMBINE_ROWS, _COMBINE_INVERSE = 0, 2
_BATCH = ("ids", "positions", "shapes", "weights")


class VariablePart(NamedTuple):
    """A variable of the exported graph.

    Attributes:
      name: Its name there.
      source: The variable of this rank's graph with its values, if this rank is `rank`.
      rank: The rank that has its values.
      shape: Its shape.
      dtype: Its dtype.
      use_resource: Whether it is a resource variable.
    """

    name: str
    source: str
    rank: int
    shape: Tuple[int, ...]
    dtype: Any
    use_resource: bool

    def make(self) -> Any:
        """A variable like it, in the current graph."""
        zeros = tf.zeros_initializer()
        return tf.Variable(
            lambda: zeros(self.shape, self.dtype), name=self.name, use_resource=self.use_resource
        )


class JoinedTables(NamedTuple):
    """An exported graph.

    Attributes:
      graph_def: Its nodes, which need no other rank.
      parts: All its variables.
    """

    graph_def: Any
    parts: List[VariablePart]


def joined_tables(graph_def: Any, outputs: Sequence[str]) -> JoinedTables:
    """The graph that computes some outputs from whole tables.

    Args:
      graph_def: What one of several ranks runs, without rewrites.
      outputs: Names of the operations that are needed.

    Raises:
      ValueError: The outputs depend on a collective that is no exchange, or on a table whose rows
        come and go, or an exchange is in a function.

    Example:
      >>> exported = joined_tables(graph.as_graph_def(), ["scores"])
    """
    nodes = {node.name: node for node in graph_def.node}
    parts: Dict[str, VariablePart] = {}
    replaced = tf.GraphDef()
    replaced.CopyFrom(graph_def)
    for node in replaced.node:
        if node.op == _COMBINE and not _tables_by_key(node, nodes):
            node.CopyFrom(_group_lookup(node, nodes, parts))
    _add_variables(replaced, list(parts.values()))
    _keep_what_is_needed(replaced, outputs)
    _require_no_tables_by_key(replaced, nodes)
    _require_no_collectives(replaced)
    used = {node.name: node for node in replaced.node}
    of_tables = [part for part in parts.values() if part.name in used]
    others = [
        _variable(node) for name, node in used.items() if node.op in VARIABLES and name not in parts
    ]
    # Savers need the nodes that initialize a variable.
    _add_variables(replaced, [*of_tables, *others])
    for node in replaced.node:
        for attribute in (_COLOCATION, _GRADIENT):
            node.attr.pop(attribute, None)
    return JoinedTables(replaced, [*of_tables, *others])


def _tables_by_key(node: Any, nodes: Dict[str, Any]) -> List[str]:
    """The tables of an ExchangeCombine whose rows come and go."""
    prepare = _source(node.input[_COMBINE_INVERSE], nodes, ("GroupEmbeddingPrepare",))
    strategies = prepare.attr["partition_strategies"].list.s
    names = node.attr["table_names"].list.s
    return [
        name.decode("utf-8")
        for name, strategy in zip(names, strategies)
        if strategy.startswith(_BY_KEY)
    ]


def _require_no_tables_by_key(graph_def: Any, nodes: Dict[str, Any]) -> None:
    for node in graph_def.node:
        names = _tables_by_key(nodes[node.name], nodes) if node.op == _COMBINE else []
        if names:
            raise ValueError(
                "the outputs look up '{}', whose rows come and go with their keys: restore a "
                "checkpoint of it as an EmbeddingVariable in a process of its own, and export "
                "that".format(names[0])
            )


def _group_lookup(node: Any, nodes: Dict[str, Any], parts: Dict[str, VariablePart]) -> Any:
    """The lookup of whole tables in place of an ExchangeCombine."""
    gather = _source(node.input[_COMBINE_ROWS], nodes, tuple(_LOOKUPS))
    prepare = _source(node.input[_COMBINE_INVERSE], nodes, ("GroupEmbeddingPrepare",))
    attributes = node.attr
    names = attributes["table_names"].list.s
    rows = prepare.attr["shard_rows"].list.i
    ranks = attributes["shard_servers"].list.i
    widths = attributes["table_widths"].list.i
    counts = attributes["table_shards"].list.i
    tables: List[Tensor] = []
    variables = [_source(gather.input[table], nodes, VARIABLES) for table in range(len(names))]
    several = collections.Counter(variable.name for variable in variables)
    for table, variable in enumerate(variables):
        for _ in range(counts[table]):
            shard = len(tables)
            use_resource = variable.op == "VarHandleOp"
            has_parts = counts[table] > 1 or several[variable.name] > 1
            suffix = "/part_{}".format(ranks[shard]) if has_parts else ""
            part = VariablePart(
                variable.name + suffix,
                variable.name,
                ranks[shard],
                (rows[shard], widths[table]),
                tf.as_dtype(variable.attr["dtype"].type),
                use_resource,
            )
            parts[part.name] = part
            text = part.name if use_resource else part.name + "/read"
            dtype = tf.resource if use_resource else part.dtype
            tables.append(Tensor(text, dtype.as_datatype_enum))
    op, texts = _LOOKUPS[gather.op], iter(node.input)
    given = by_argument(node, texts)
    arguments = {name: given[name] for name in _BATCH}
    arguments.update(attributes_of(op, node), tables=tables)
    lookup = call_op(op, node.name, arguments, node.device).node
    lookup.input.extend(texts)  # what it waits for
    return lookup


def _source(text: str, nodes: Dict[str, Any], ops: Sequence[str]) -> Any:
    """The node of one of these ops that a tensor comes from, along first inputs."""
    node = nodes[node_of_input(text)]
    while node.op not in ops:
        if not node.input or node.input[0].startswith("^"):
            raise ValueError(
                "'{}' does not come from {}: the graph was rewritten, or a table is no "
                "variable".format(text, " or ".join(ops))
            )
        node = nodes[node_of_input(node.input[0])]
    return node


def _add_variables(graph_def: Any, parts: Sequence[VariablePart]) -> None:
    """Adds the nodes of variables, in place of those of the same names."""
    with tf.Graph().as_default() as scratch:
        for part in parts:
            part.make()
    made = {node.name: node for node in scratch.as_graph_def().node}
    kept = [node for node in graph_def.node if node.name not in made]
    _keep(graph_def, [*kept, *made.values()])


def _variable(node: Any) -> VariablePart:
    shape = tuple(dim.size for dim in node.attr["shape"].shape.dim)
    dtype = tf.as_dtype(node.attr["dtype"].type)
    return VariablePart(node.name, node.name, 0, shape, dtype, node.op == "VarHandleOp")


def _keep_what_is_needed(graph_def: Any, outputs: Sequence[str]) -> None:
    nodes = {node.name: node for node in graph_def.node}
    needed: Set[str] = set()
    waiting = list(outputs)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(node_of_input(text) for text in nodes[name].input)
    _keep(graph_def, [node for node in graph_def.node if node.name in needed])


def _keep(graph_def: Any, nodes: Sequence[Any]) -> None:
    result = tf.GraphDef()
    result.node.extend(nodes)
    del graph_def.node[:]
    graph_def.node.extend(result.node)


def _require_no_collectives(graph_def: Any) -> None:
    functions = [node for one in graph_def.library.function for node in one.node_def]
    for node in [*graph_def.node, *functions]:
        if node.op.startswith(("Horovod", "Exchange")):
            raise ValueError(
                "the outputs depend on '{}' ({}), which needs other ranks: export outputs that do "
                "not, and lookups that are not in a tf.function".format(node.name, node.op)
            )
