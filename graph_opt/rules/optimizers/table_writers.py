"""What changes a table: except for initializers and checkpoints, it must be a single update.

sparse update      one that may be recognised, and a decay of its rows before it
ScatterUpdate      sets rows: no update if the table has another, such as that of an optimizer
Apply*             a dense one: TensorFlow made the gradient as large as the table
Assign             of a value that depends on a variable, such as an average; initializers,
                   restored checkpoints and what another rank has (hvd.broadcast) do not
all else           an unknown optimizer or a function
"""

from __future__ import annotations

from typing import FrozenSet, Iterator, List, NamedTuple, Optional, Tuple

from graph_opt.compat.op_definitions import takes_reference
from graph_opt.compat.stateful_ops import called_functions, functions_only_read
from graph_opt.compat.variable_ops import CHANGES, VariableUse, is_use, use_of
from graph_opt.graph.control_flow_ops import INTO_CONTROL_FLOW, SWITCHES
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.match.forward import ForwardPart
from graph_opt.rules.op_names import ALL_ASSIGNS
from graph_opt.rules.optimizers.row_decay import is_row_decay

_BROADCAST = "HorovodBroadcast"
_PASS_ON = frozenset(["Identity", "RefIdentity"])


def assigned(view: GraphView, name: str) -> Refusal:
    """The refusal for an assignment that no optimizer is known to write so."""
    need = "a table that only one optimizer changes"
    return Refusal("table_assigned", at=name, need=need, saw=view.op(name))


class Branch(NamedTuple):
    """A branch of a tf.cond of TensorFlow 1.

    Attributes:
      condition: The boolean that decides, as the tf.cond's Switch nodes read it.
      taken: For which of its values the branch runs: 0 or 1.
    """

    condition: TensorRef
    taken: int


class Writer(NamedTuple):
    """A node that changes a table.

    Attributes:
      node: Its name.
      branches: The branches that it is in, outermost first; empty if it runs in every step.
      loop: The Enter of a tf.while_loop that it is in; "" for none.
      decay: A node that takes a part of the same rows away before; "" for none.
    """

    node: str
    branches: Tuple[Branch, ...] = ()
    loop: str = ""
    decay: str = ""


def table_writer(
    view: GraphView, forward: ForwardPart, table: str, known: FrozenSet[str]
) -> Optional[Writer]:
    """The node of a known op that updates a table; None if nothing does.

    Raises:
      Refusal: table_updated_twice, update_is_dense, table_assigned, optimizer_unknown,
        update_in_control_flow.
    """
    trains = [writer for writer in writers_of(view, table) if _trains(view, forward, writer.node)]
    # Rows that the script sets itself, such as those of new items, are no part of an optimizer.
    writers = [each for each in trains if not _uses(view, each, VariableUse.SETS_ROWS)] or trains
    writers = _with_decay(view, writers)
    for writer in writers:
        if len(writers) > 1 and _uses(view, writer, VariableUse.ADDS):
            raise _updated_twice(table, writers)
        _require_known(view, writer, known)
        if len(writers) > 1 and view.op(writer.node) in ALL_ASSIGNS:
            raise assigned(view, writer.node)
    if len(writers) > 1:
        raise _updated_twice(table, writers)
    return writers[0] if writers else None


def _updated_twice(table: str, writers: List[Writer]) -> Refusal:
    first, second, *_ = writers
    need = "a single update of {}".format(table)
    return Refusal(
        "table_updated_twice", at=second.node, need=need, saw="another: {}".format(first.node)
    )


def _with_decay(view: GraphView, writers: List[Writer]) -> List[Writer]:
    """The writers; of an update and the decay of its rows before it the update alone."""
    decays = [each for each in writers if len(writers) == 2 and is_row_decay(view, each.node)]
    if len(decays) != 1:
        return writers
    (update,) = [each for each in writers if each not in decays]
    alike = (update.branches, update.loop) == (decays[0].branches, decays[0].loop)
    return [update._replace(decay=decays[0].node)] if alike else writers


def writers_of(view: GraphView, table: str) -> Iterator[Writer]:
    """Nodes that may change the variable, among them calls of functions that get it."""
    is_resource = view.op(table) == "VarHandleOp"
    stack = [Writer(table)]
    seen = {table}
    while stack:
        holder = stack.pop()
        for tensor, use in view.node_uses(holder.node):
            name, op = use.consumer, view.op(use.consumer)
            if name in seen:
                continue
            found = _inside(view, holder, tensor)._replace(node=name)
            if op in INTO_CONTROL_FLOW or (op in _PASS_ON and _passes_on(op, is_resource)):
                seen.add(name)
                stack.append(found)
            elif _may_write(view, name, use.slot, is_resource):
                seen.add(name)
                yield found


def _inside(view: GraphView, holder: Writer, tensor: TensorRef) -> Writer:
    """What holds for readers of an output of a node that passes the variable on."""
    op = view.op(holder.node)
    if op in SWITCHES:
        branch = Branch(view.inputs(holder.node)[1], tensor.index)
        return holder._replace(branches=(*holder.branches, branch))
    return holder._replace(loop=holder.node) if op in INTO_CONTROL_FLOW else holder


def _passes_on(op: str, is_resource: bool) -> bool:
    """Whether the variable itself is passed on: an Identity of a reference is just its value."""
    return is_resource or op == "RefIdentity"


def may_change(op: str) -> bool:
    """Whether an op may change a variable whose reference or handle it is given."""
    return is_use(op, CHANGES) or use_of(op) is None


def _may_write(view: GraphView, name: str, slot: int, is_resource: bool) -> bool:
    if may_change(view.op(name)):
        return is_resource or takes_reference(view.nodes[name], slot)
    return is_resource and _calls_writer(view, name)


def _uses(view: GraphView, writer: Writer, use: VariableUse) -> bool:
    return use_of(view.op(writer.node)) is use


def _calls_writer(view: GraphView, name: str) -> bool:
    """Whether a node calls functions, and one of them may change a variable that it gets."""
    node = view.nodes[name]
    return bool(called_functions([node])) and not functions_only_read(node, view.functions)


def _trains(view: GraphView, forward: ForwardPart, name: str) -> bool:
    """Whether this changes the variable in training; an Assign may initialize or restore it."""
    if view.op(name).startswith(_BROADCAST):
        return False
    if view.op(name) not in ALL_ASSIGNS:
        return True
    value: TensorRef = view.through_identity(view.inputs(name)[1])
    if view.op(value.node) == _BROADCAST or _is_own_value(view, name, value):
        return False
    return forward.depends_on_dense_variable(value.node)


def _is_own_value(view: GraphView, assign: str, value: TensorRef) -> bool:
    """Whether an Assign changes nothing, like a broadcast of a sharded table."""
    if view.op(value.node) == "ReadVariableOp":
        value = view.inputs(value.node)[0]
    return value.node == view.inputs(assign)[0].node


def _require_known(view: GraphView, writer: Writer, known: FrozenSet[str]) -> None:
    name, op = writer.node, view.op(writer.node)
    if op not in known and use_of(op) is VariableUse.TRAINS:
        need = "an update of only the rows that were looked up"
        raise Refusal("update_is_dense", at=name, need=need, saw=op)
    if op not in known:
        if op in ALL_ASSIGNS:
            raise assigned(view, name)
        need = "an optimizer that docs/optimizers.md lists"
        raise Refusal("optimizer_unknown", at=name, need=need, saw=op)
    if writer.loop:
        need = "an update that runs at most once in a step"
        raise Refusal("update_in_control_flow", at=name, need=need, saw="one in a tf.while_loop")
