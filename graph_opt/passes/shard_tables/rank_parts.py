"""Writes what a variable needs in order to have a rank's rows only.

keys = Range -> PlaceholderWithDefault       static shapes of a live graph stay the whole table's
Assign(whole)                     -> Assign(GatherV2(whole, keys)), Fill, or rows drawn by key
Assign(HorovodBroadcast(value))   -> Assign(value)
readers that come later           -^ Assert, which fails: there is no whole value
"""

from __future__ import annotations

import hashlib
from typing import AbstractSet, Any, Dict, List, Optional, Set

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.stateful_ops import HANDLES, PLACEHOLDERS, VARIABLES
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor, attribute_value
from graph_opt.graph.rewrite import OUTPUT_SHAPES, Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.shard_tables.initial_values import Drawn, drawn, one_number
from graph_opt.passes.shard_tables.sharded_variables import ShardedVariable
from graph_opt.passes.shard_tables.variable_uses import VariableUses, variable_uses

_INT64 = tf.int64.as_datatype_enum
_SHARDED = (
    "'{}' is sharded across {} ranks, of which this one has {} of {} rows: it cannot be read whole "
    "by a node that was added after the session's first run"
)
_RESTORES = frozenset(["RestoreV2", "RestoreSlice", "Restore"])
# What is made of these is given by a step, or by nodes that other steps run, too.
_GIVEN = PLACEHOLDERS | VARIABLES | HANDLES | _RESTORES


class RankParts:
    """Collects the nodes and edges for some variables.

    Args:
      view: The graph.
      memory_budget_bytes: Random initial values of more bytes than this are drawn row by row,
        which gives other numbers than TensorFlow's; 0 for no limit.

    Attributes:
      fed, unread, values, assigned: As in `ShardedVariables`.
      redrawn: The variables with other initial values than TensorFlow's.
      made_whole: Those of more bytes than `memory_budget_bytes` whose initial values every rank
        makes whole, as their distribution is not known.
    """

    def __init__(self, view: GraphView, memory_budget_bytes: int = 0) -> None:
        self._view = view
        self._budget = memory_budget_bytes
        self._nodes: List[Any] = []
        self._edits = Edits(view)
        self._last: Optional[str] = None
        self._earlier: Set[str] = set()
        self.fed: Dict[str, str] = {}
        self.unread: Dict[str, str] = {}
        self.values: Dict[str, str] = {}
        self.assigned: Dict[str, str] = {}
        self.redrawn: List[str] = []
        self.made_whole: List[str] = []

    def rewrite(self) -> Rewrite:
        """What was collected."""
        return self._edits.rewrite(self._nodes)

    def shard(self, variable: ShardedVariable, known: AbstractSet[str]) -> None:
        """Makes a variable this rank's part of what it was.

        Args:
          variable: The variable.
          known: Nodes that look its rows up or update them, and so need no change.
        """
        writer = self._writer(variable)
        self._write_keys(writer, variable)
        self._write_whole(writer, variable)
        uses = variable_uses(self._view, variable.name, known)
        local = variable.local_shape()
        self._set(variable.name, "shape", attribute_value(local, "shape"))
        for tensor in uses.values:
            if not (variable.is_resource and tensor.node == variable.name):
                self._set(tensor.node, OUTPUT_SHAPES, attribute_value([local], "list(shape)"))
        self._change_uses(writer, variable, uses)

    def change_new_uses(self, variable: ShardedVariable, new: AbstractSet[str]) -> None:
        """Changes what uses a variable that was sharded before.

        Args:
          variable: The variable.
          new: Names of the nodes that the graph got since.
        """
        uses = variable_uses(self._view, variable.name, only=new)
        self._change_uses(self._writer(variable), variable, uses)
        for name in dict.fromkeys(use.consumer for use in uses.others):
            self._edits.wait(name, variable.whole)

    def _writer(self, variable: ShardedVariable) -> NodeWriter:
        writer = NodeWriter(self._view, variable.scope, self._view.device(variable.name))
        writer.nodes = self._nodes
        return writer

    def _change_uses(
        self, writer: NodeWriter, variable: ShardedVariable, uses: VariableUses
    ) -> None:
        for tensor in uses.values:
            if not (variable.is_resource and tensor.node == variable.name):
                self.values[str(tensor)] = variable.name
        for assignment in uses.assignments:
            if assignment.is_broadcast:
                part = variable.scope + "/value"
            else:
                part = self._part(writer, variable, assignment.node, assignment.value)
                self.fed[part + ":0"] = variable.name
                for tensor in uses.values:
                    if assignment.node in (tensor.node, *self._view.controls(tensor.node)):
                        self.assigned[str(tensor)] = str(assignment.value)
            self._edits.move_input(assignment.node, 1, part)
        for shape in uses.shapes:
            self._answer_shape(writer, variable, shape)

    def _write_keys(self, writer: NodeWriter, variable: ShardedVariable) -> None:
        rows = variable.rows.keys(variable.rank, 0, 2)
        first = int(rows[0]) if len(rows) else 0
        step = int(rows[1] - rows[0]) if len(rows) > 1 else 1
        limit = first + step * variable.local_rows
        numbers: Dict[str, Any] = {
            name: writer.constant("keys/" + name, np.int64(number))
            for name, number in (("start", first), ("limit", limit), ("delta", step))
        }
        keys = writer.call("keys/range", "Range", **numbers).result
        writer.call("keys", "PlaceholderWithDefault", input=keys, shape=(None,))

    def _write_whole(self, writer: NodeWriter, variable: ShardedVariable) -> None:
        table, at = TensorRef(variable.name, 0), ["loc:@" + variable.name]
        if variable.is_resource:
            writer.call("value", "ReadVariableOp", _class=at, resource=table, dtype=variable.dtype)
        else:
            writer.call("value", "Identity", _class=at, input=table)
        text = _SHARDED.format(
            variable.name, variable.rows.num_ranks, variable.local_rows, variable.shape[0]
        )
        name = variable.whole[len(variable.scope) + 1 :]
        # An op that acts on state, which TensorFlow keeps though nothing reads its outputs.
        writer.call(
            name,
            "Assert",
            condition=writer.constant(name + "/never", False),
            data=[writer.constant(name + "/why", text)],
            summarize=1,
        )

    def _part(
        self, writer: NodeWriter, variable: ShardedVariable, assign: str, whole: TensorRef
    ) -> str:
        """A tensor with this rank's rows of one with all."""
        view, scope = self._view, "of/" + assign
        number = one_number(view, whole)
        if number is not None:
            self.unread[str(whole)] = variable.name
            value = writer.constant(scope + "/number", number)
            return self._filled(writer, variable, scope, value)
        distribution = drawn(view, whole)
        size = variable.shape[0] * variable.shape[1] * tf.as_dtype(variable.dtype).size
        if 0 < self._budget < size:
            if distribution is not None:
                self.redrawn.append(variable.name)
                self.unread[str(whole)] = variable.name
                return self._drawn(writer, variable, scope, distribution)
            self.made_whole.append(variable.name)
        gather = writer.call(
            scope + "/rows",
            "GatherV2",
            params=whole,
            indices=Tensor(variable.keys, _INT64),
            axis=writer.constant(scope + "/axis", np.int32(0)),
        )
        self._one_at_a_time(whole, gather.name)
        return gather.name

    def _filled(
        self, writer: NodeWriter, variable: ShardedVariable, scope: str, value: Tensor
    ) -> str:
        keys = Tensor(variable.keys, _INT64)
        size = writer.call(scope + "/size", "Size", input=keys).result
        width = writer.constant(scope + "/width", np.int32(variable.shape[1]))
        dims = writer.call(scope + "/shape", "Pack", values=[size, width]).result
        return writer.call(scope + "/rows", "Fill", dims=dims, value=value).name

    def _drawn(
        self, writer: NodeWriter, variable: ShardedVariable, scope: str, found: Drawn
    ) -> str:
        rows = writer.call(
            scope + "/rows",
            "GroupEmbeddingInitialRows",
            rows=Tensor(variable.keys, _INT64),
            distribution=found.distribution,
            first=found.first,
            second=found.second,
            key=_stream(variable.name, found),
            width=variable.shape[1],
        )
        if variable.dtype == tf.float32.as_datatype_enum:
            return rows.name
        return writer.call(scope + "/cast", "Cast", x=rows.result, DstT=variable.dtype).name

    def _one_at_a_time(self, whole: TensorRef, gather: str) -> None:
        """Lets a whole initial value be made only once the one before it is no longer needed."""
        view = self._view
        made_of = view.ancestors([whole.node])
        if any(view.op(name) in _GIVEN for name in made_of):
            return
        if self._last is not None:
            for name in made_of:
                starts = all(view.op(one.node) == "Const" for one in view.inputs(name))
                if starts and view.op(name) != "Const" and name not in self._earlier:
                    self._edits.wait(name, self._last)
        self._last = gather
        self._earlier.update(made_of)

    def _answer_shape(self, writer: NodeWriter, variable: ShardedVariable, name: str) -> None:
        """Makes what asks for the shape of the variable get that of the whole."""
        op = self._view.op(name)
        dtype = self._view.dtypes(name)
        kind = tf.as_dtype(dtype[0] if dtype else tf.int32).as_numpy_dtype
        answers = {"Size": variable.shape[0] * variable.shape[1], "Rank": 2}
        answer = np.asarray(answers.get(op, variable.shape), kind)
        constant = writer.constant("of/" + name, answer)
        self._edits.move(self._view.uses(TensorRef(name, 0)), constant)

    def _set(self, node: str, key: str, value: Any) -> None:
        if key in self._view.nodes[node].attr:
            self._edits.set(node, key, value)


def _stream(name: str, found: Drawn) -> int:
    text = "{}:{}:{}".format(found.seeds[0], found.seeds[1], name)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)
