"""Graphs of Horovod scripts, run by ranks that are threads: as they are, and with sharded tables.

A script's collectives are Identity nodes while it is built, so that it needs no Horovod. The pass
sees Horovod's ops in their place, and what is left of them becomes messages within the process.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.config.options import SessionOptions, session_options
from graph_opt.graph.rewrite import apply_to_graph_def
from graph_opt.graph.view import GraphView
from graph_opt.ops.library import load_library
from graph_opt.passes.conditional_collectives import fold_conditionals
from graph_opt.passes.fusion.deferred import DeferredVariables
from graph_opt.passes.fusion.fuse_group_embedding import fuse_group_embedding
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.shard_tables.exchange_lookups import exchange_lookups
from graph_opt.passes.shard_tables.messages import Messages
from graph_opt.passes.shard_tables.sharded_table import ShardedTable
from graph_opt.rules.find import find_lookups
from graph_opt.rules.match.table import find_read
from graph_opt.rules.optimizers.sparse_update import sparse_updates
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sharding.placement import ModRows, RowsRule
from tests.control_flow import control_flow_v2

GATHER = "HorovodAllgather"
GROUPED = "HorovodGroupedAllgather"
_WAIT_SECONDS = 60
Feed = Callable[[int, int], Dict[str, Any]]
Rule = Callable[[int, int], RowsRule]


class Script(NamedTuple):
    """A script as Horovod would run it.

    Attributes:
      graph_def: Its graph, with Horovod's ops.
      fetches: What each step fetches.
      feed: `(step, rank)` -> what it is fed.
      variables: The values that its variables start with, by name of the op.
    """

    graph_def: Any
    fetches: Sequence[str]
    feed: Feed
    variables: Dict[str, np.ndarray]


class Trained(NamedTuple):
    """What a rank has after some steps.

    Attributes:
      fetched: Of each step.
      variables: By name of the op; of sharded ones, this rank's part.
      state: The graph after the passes; None without them.
    """

    fetched: List[Any]
    variables: Dict[str, np.ndarray]
    state: Optional[PassState]


def gathered(gradient: Any, ranks: int) -> Any:
    """What `hvd.allreduce` makes of IndexedSlices."""
    values = tf.identity(gradient.values, name=GATHER) / tf.cast(ranks, gradient.values.dtype)
    indices = tf.identity(gradient.indices, name=GATHER)
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def conditionally(gradient: Any, ranks: int) -> Any:
    """The same as `DistributedOptimizer` calls it, in a graph without functions."""
    return tf.cond(tf.constant(True), lambda: gathered(gradient, ranks), lambda: gradient)


def script(build: Callable[[], Sequence[tf.Tensor]], feed: Feed) -> Script:
    """Builds a script.

    Args:
      build: Builds the graph and returns what steps fetch.
      feed: `(step, rank)` -> what a step is fed.
    """
    graph = tf.Graph()
    with control_flow_v2(False), graph.as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        fetches = [tensor.name for tensor in build()]
        session.run(tf.global_variables_initializer())
        values = session.run({one.op.name: one for one in tf.global_variables()})
        made = graph.as_graph_def(add_shapes=True)
    for node in made.node:
        if GATHER in node.name.rpartition("/")[2] and node.op == "Identity":
            node.op = GATHER
    return Script(made, fetches, feed, values)


def train(of: Script, ranks: int, steps: int) -> List[Trained]:
    """Runs a script as it is."""
    return run_ranks(
        ranks, lambda transport: _run(of, of.graph_def, of.variables, transport, steps, None)
    )


def train_sharded(
    of: Script,
    tables: Sequence[str],
    ranks: int,
    steps: int,
    config: Any = None,
    rule: Rule = ModRows,
) -> List[Trained]:
    """Runs a script of which some tables are sharded."""
    load_library()

    def work(transport: InProcessTransport) -> Trained:
        state, sharded = divided_state(of, tables, transport, session_options(config), rule)
        graph_def = apply_to_graph_def(of.graph_def, *state.rewrites)
        values = dict(of.variables)
        for table in sharded:
            for name in table.variables:
                values[name] = values[name][table.rows.keys(transport.rank)]
        return _run(of, graph_def, values, transport, steps, state)

    return run_ranks(ranks, work, _WAIT_SECONDS)


def divided_state(
    of: Script,
    tables: Sequence[str],
    transport: InProcessTransport,
    options: SessionOptions,
    rule: Rule = ModRows,
) -> Any:
    """The graph after the passes, and the tables."""
    state = fold_conditionals(PassState.of(of.graph_def))
    sharded = sharded_tables(state.view, tables, transport.rank, transport.size, rule)
    messages = Messages(transport.rank, transport.size, transport.group_name, _WAIT_SECONDS * 1000)
    state = exchange_lookups(state, sharded, messages, options)
    return fuse_group_embedding(state, options), sharded


def sharded_tables(
    view: GraphView, tables: Sequence[str], rank: int, ranks: int, rule: Rule = ModRows
) -> List[ShardedTable]:
    """What is known of some tables of a graph."""
    lookups = find_lookups(view).lookups
    updates = sparse_updates(view, tables)
    assert not updates.refusals, updates.refusals
    found = []
    for name in tables:
        of_table = [one for one in lookups if name in [table.name for table in one.tables]]
        table = next(one for one in of_table[0].tables if one.name == name)
        reads = [find_read(view, slot) for slot in updates.found[name].slots]
        slots = tuple(read.variable for read in reads if read is not None)
        assert table.shape is not None and table.shape[0] is not None
        found.append(
            ShardedTable(
                table,
                tuple(of_table),
                updates.found[name],
                slots,
                rule(table.shape[0], ranks),
                rank,
            )
        )
    return found


def require_same(some: Sequence[Trained], others: Sequence[Trained], rule: Rule = ModRows) -> None:
    """Requires that ranks with sharded tables have what ranks with whole ones have."""
    for rank, (one, other) in enumerate(zip(some, others)):
        for fetched, expected in zip(one.fetched, other.fetched):
            np.testing.assert_allclose(fetched, expected, rtol=2e-4, atol=1e-5)
        for name, expected in other.variables.items():
            found = one.variables[name]
            if found.shape != expected.shape:
                expected = expected[rule(len(expected), len(some)).keys(rank)]
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5, err_msg=name)


def _run(
    of: Script,
    graph_def: Any,
    values: Dict[str, np.ndarray],
    transport: InProcessTransport,
    steps: int,
    state: Optional[PassState],
) -> Trained:
    deferred = None if state is None else state.name_map.part(DeferredVariables)
    last = [] if deferred is None else [deferred.catch_up_all]
    ends = [*of.fetches, *last]
    runnable = _within_process(_of_steps(of, graph_def, values, ends), transport)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(runnable, name="")
        assigns, reads = _variables(graph, values)
        with tf.Session() as session:
            session.run(
                [assign for assign, _ in assigns], {key: value for _, (key, value) in assigns}
            )
            fetched = [
                session.run(list(of.fetches), of.feed(step, transport.rank))
                for step in range(steps)
            ]
            session.run([graph.get_operation_by_name(name) for name in last])
            return Trained(fetched, session.run(reads), state)


def _variables(graph: Any, values: Dict[str, np.ndarray]) -> Any:
    assigns, reads = [], {}
    for name, value in values.items():
        variable = graph.get_tensor_by_name(name + ":0")
        given = tf.placeholder(value.dtype, value.shape)
        if variable.dtype == tf.resource:
            assign = tf.raw_ops.AssignVariableOp(resource=variable, value=given)
            reads[name] = tf.raw_ops.ReadVariableOp(resource=variable, dtype=value.dtype)
        else:
            assign = tf.raw_ops.Assign(ref=variable, value=given, validate_shape=True).op
            reads[name] = tf.identity(variable)
        assigns.append((assign, (given, value)))
    return assigns, reads


def _of_steps(
    of: Script, graph_def: Any, values: Dict[str, np.ndarray], ends: Sequence[str]
) -> Any:
    """What these need, with variables of the shapes of these values and no other static shape."""
    view = GraphView(graph_def)
    run = view.ancestors([name.partition(":")[0] for name in ends])
    run.update(dict.fromkeys(values))
    changed = tf.GraphDef(versions=graph_def.versions, library=graph_def.library)
    changed.node.extend(node for node in graph_def.node if node.name in run)
    for node in changed.node:
        node.attr.pop("_output_shapes", None)
        if node.op in ("VariableShape", "Shape"):
            read = find_read(view, view.inputs(node.name)[0])
            if read is not None:
                _become_constant(node, of.variables[read.variable].shape)
        if node.name in values:
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(values[node.name].shape).as_proto())
    return changed


def _become_constant(node: Any, shape: Sequence[int]) -> None:
    """Readers of a table's shape see that of the whole table."""
    dtype = tf.int64 if node.attr["out_type"].type == tf.int64.as_datatype_enum else tf.int32
    node.op = "Const"
    node.input[:] = []
    node.attr.clear()
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(list(shape), dtype))


def _within_process(graph_def: Any, transport: InProcessTransport) -> Any:
    """The same graph with messages within the process in the place of Horovod's."""
    changed = tf.GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        if node.op != GATHER:
            changed.node.add().CopyFrom(node)
            continue
        with tf.Graph().as_default() as graph:
            given = tf.placeholder(node.attr["T"].type, None, name="given")
            name = node.name.replace("/", "_")
            tf.identity(transport.all_gather(given, name), name="received")
        for copied in graph.as_graph_def().node:
            if copied.name == "given":
                continue
            added = changed.node.add()
            added.CopyFrom(copied)
            added.name = _within(node, copied.name)
            added.input[:] = [_within(node, text) for text in copied.input]
    return changed


def _within(node: Any, text: str) -> str:
    """How a tensor of what replaces a collective is spelled."""
    if text.startswith("given"):
        return str(node.input[0])
    return node.name if text == "received" else "{}/{}".format(node.name, text)
