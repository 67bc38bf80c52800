"""`tf.cond` whose branches read different inputs.

With functions, the If itself returns the batch. With TensorFlow 1's control flow, a batch leaves
through several Merge nodes, and an IdentityN behind them stands for the choice. Either way, the
stage of each input has the nodes of its branch.

    train ──> Switch:1 ──> get_next ──┐
                                      Merge ──> IdentityN ──> the model
    test ───> Switch:0 ──> get_next ──┘
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.function_bodies import FunctionBody, function_body
from graph_opt.compat.stateful_ops import called_functions
from graph_opt.graph.control_flow_ops import LOOPS, MERGES, SWITCHES
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.io_stages import BATCH_SOURCES
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.prefetch.choices import Choice
from graph_opt.passes.prefetch.movable import Movability

_SCOPE = "chosen_input"
_NOT_IN_BRANCH = MERGES | LOOPS
_BRANCHES = ("else_branch", "then_branch")
_BOOL = tf.bool.as_datatype_enum


class _Conditional(Choice):
    """A choice between two inputs by a boolean: False for the first, True for the second."""

    @property
    def count(self) -> int:
        """Two."""
        return 2

    def name_of(self, number: int) -> str:
        """The condition with its value."""
        return "{} == {}".format(self.chosen_by.node, bool(number))

    def write_selection(self, writer: NodeWriter) -> List[Tensor]:
        """The condition and its negation."""
        condition = Tensor(self.chosen_by.input_name, _BOOL)
        return [writer.call("is_0", "LogicalNot", x=condition).result, condition]


class FunctionalConditional(_Conditional):
    """An If node whose branches each read an iterator or queue."""

    def refuse_batches(self, movability: Movability) -> Optional[Refusal]:
        """Refuses branches that do more than read state, and inputs that only main has."""
        # What is not known counts as stateful, so this reason is looked for first.
        if any(self._body(number, "") is None for number in range(2)):
            need = "branches of ops that this process has registered"
            return Refusal("unknown_op", at=self.source, need=need, saw="another op")
        refusal = movability.refuse_function(self.source, also=frozenset(BATCH_SOURCES))
        if refusal is not None:
            return refusal
        given = [tensor.node for tensor in self.view.inputs(self.source)[1:]]
        for name in given + list(self.view.controls(self.source)):
            refusal = movability.refuse_outside(self.source, name, reads_table=False)
            if refusal is not None:
                return refusal
        return None

    def write_batch(self, number: int, writer: NodeWriter) -> Sequence[str]:
        """Copies the branch's nodes; a call would hold on to the other input as well."""
        body = self._body(number, writer.name(self.source))
        assert body is not None
        writer.nodes.extend(body.nodes)
        types = self.view.nodes[self.source].attr["Tout"].list.type
        return [
            writer.call(
                "{}/result_{}".format(self.source, index),
                "Identity",
                waits_for=body.controls,
                input=Tensor(result, dtype),
            ).result
            for index, (result, dtype) in enumerate(zip(body.results, types))
        ]

    def _body(self, number: int, scope: str) -> Optional[FunctionBody]:
        name = self.view.nodes[self.source].attr[_BRANCHES[number]].func.name
        given = [tensor.input_name for tensor in self.view.inputs(self.source)[1:]]
        return function_body(self.view.functions[name], given, scope)


def functional_conditionals(view: GraphView) -> Dict[str, Choice]:
    """The If nodes both of whose branches read a batch, by name."""
    found: Dict[str, Choice] = {}
    for name in view.of_op("If", "StatelessIf"):
        attributes = view.nodes[name].attr
        branches = [attributes[branch].func.name for branch in _BRANCHES]
        if attributes["Tcond"].type == _BOOL and all(_reads(view, one) for one in branches):
            found[name] = FunctionalConditional(view, name, view.inputs(name)[0])
    return found


def _reads(view: GraphView, function: str) -> bool:
    """Whether a function, or one that it calls, reads a batch."""
    pending, seen = [function], {function}
    while pending:
        body = view.functions.get(pending.pop())
        for node in body.node_def if body is not None else ():
            if node.op in BATCH_SOURCES:
                return True
            fresh = [name for name in called_functions([node]) if name not in seen]
            seen.update(fresh)
            pending.extend(fresh)
    return False


class _Side(NamedTuple):
    """What one input of a Merge depends on inside its branch."""

    nodes: FrozenSet[str]
    sources: FrozenSet[str]
    condition: TensorRef
    value: int


class _Group(NamedTuple):
    """The Merge nodes through which the batch of a tf.cond leaves."""

    merges: Tuple[str, ...]
    condition: TensorRef
    nodes: Tuple[FrozenSet[str], FrozenSet[str]]
    sources: Tuple[FrozenSet[str], FrozenSet[str]]


class BranchedInput(_Conditional):
    """A tf.cond of TensorFlow 1's control flow, joined by an IdentityN."""

    def __init__(self, view: GraphView, source: str, group: _Group) -> None:
        super().__init__(view, source, group.condition)
        self._group = group

    @property
    def of_model(self) -> str:
        """The first Merge: the IdentityN is ours."""
        return self._group.merges[0]

    def refuse_batches(self, movability: Movability) -> Optional[Refusal]:
        """Refuses branches that do more than read state, and inputs that only main has."""
        for name in sorted(self._group.nodes[0] | self._group.nodes[1]):
            if self.view.op(name) in BATCH_SOURCES:
                continue
            refusal = movability.refuse_operation(name)
            for tensor in self.view.inputs(name):
                refusal = refusal or self._refuse_captured(movability, name, tensor)
            if refusal is not None:
                return refusal
        return None

    def _refuse_captured(
        self, movability: Movability, name: str, tensor: TensorRef
    ) -> Optional[Refusal]:
        if self.view.op(tensor.node) not in SWITCHES:
            return None
        captured = self.view.inputs(tensor.node)[0]
        return movability.refuse_outside(name, captured.node, reads_table=False)

    def write_batch(self, number: int, writer: NodeWriter) -> Sequence[str]:
        """Copies the branch."""
        inside = self._group.nodes[number]
        for name in self.view.topological_order() or ():
            if name in inside:
                self._copy(name, inside, writer)
        merged = [self.view.inputs(merge)[number] for merge in self._group.merges]
        return [self._copied(tensor, inside, writer) for tensor in merged]

    def _copy(self, name: str, inside: FrozenSet[str], writer: NodeWriter) -> None:
        original = self.view.nodes[name]
        attributes = {key: value for key, value in original.attr.items() if key != "_class"}
        inputs = [self._copied(tensor, inside, writer) for tensor in self.view.inputs(name)]
        waits = [writer.name(each) for each in self.view.controls(name) if each in inside]
        inputs += ["^" + each for each in waits]
        writer.node(name, original.op, inputs, original.device, **attributes)

    def _copied(self, tensor: TensorRef, inside: FrozenSet[str], writer: NodeWriter) -> str:
        if self.view.op(tensor.node) in SWITCHES:
            return self.view.inputs(tensor.node)[0].input_name
        if tensor.node in inside:
            return TensorRef(writer.name(tensor.node), tensor.index).input_name
        return tensor.input_name


class JoinedInputs(NamedTuple):
    """The conditionals of TensorFlow 1's control flow that choose an input.

    Attributes:
      rewrite: Adds the IdentityN nodes.
      groups: The Merge nodes behind each of them, by its name.
    """

    rewrite: Rewrite
    groups: Dict[str, _Group]

    def choices(self, view: GraphView) -> Dict[str, Choice]:
        """The choices in the rewritten graph, by name of the IdentityN."""
        return {name: BranchedInput(view, name, group) for name, group in self.groups.items()}

    @property
    def absorbed(self) -> FrozenSet[str]:
        """The iterators' and queues' reads that a choice stands for."""
        groups = self.groups.values()
        return frozenset().union(*(side for group in groups for side in group.sources))

    @property
    def aliases(self) -> Dict[str, str]:
        """For the tensor of each Merge, the output of the IdentityN that has its value."""
        return {
            str(TensorRef(merge, 0)): str(TensorRef(name, index))
            for name, group in self.groups.items()
            for index, merge in enumerate(group.merges)
        }


NOT_JOINED = JoinedInputs(Rewrite(), {})


def join_conditional_inputs(view: GraphView) -> JoinedInputs:
    """Puts an IdentityN behind each tf.cond whose branches read different inputs."""
    nodes: List[Any] = []
    edits = Edits(view)
    groups: Dict[str, _Group] = {}
    for number, group in enumerate(_groups(view)):
        suffix = "" if number == 0 else "_{}".format(number)
        writer = NodeWriter(view, _SCOPE + suffix, view.device(group.merges[0]))
        name = writer.name("IdentityN")
        if name in view:
            continue
        tensors = [TensorRef(merge, 0) for merge in group.merges]
        joined = writer.call("IdentityN", "IdentityN", input=tensors)
        nodes.extend(writer.nodes)
        groups[name] = group
        for tensor, output in zip(tensors, joined.outputs("output")):
            edits.replace(tensor, output)
    return JoinedInputs(edits.rewrite(nodes), groups)


def _groups(view: GraphView) -> List[_Group]:
    """Merge nodes by what their branches read, without those that main also reads inside."""
    found: List[_Group] = []
    for merge in view.of_op("Merge"):
        sides = [_side(view, tensor) for tensor in view.inputs(merge)]
        one, other = sides if len(sides) == 2 else (None, None)
        if one is None or other is None or one.condition != other.condition:
            continue
        if (one.value, other.value) != (0, 1) or not (one.sources or other.sources):
            continue
        group = _Group(
            (merge,), one.condition, (one.nodes, other.nodes), (one.sources, other.sources)
        )
        found = _with(found, group)
    return [group for group in found if all(group.sources) and not _leaks(view, group)]


def _with(groups: Sequence[_Group], added: _Group) -> List[_Group]:
    """The groups with one more, joined with those that read the same."""
    apart: List[_Group] = []
    for group in groups:
        same = any(one & other for one, other in zip(group.sources, added.sources))
        if not same or group.condition != added.condition:
            apart.append(group)
            continue
        added = _Group(
            group.merges + added.merges,
            added.condition,
            (group.nodes[0] | added.nodes[0], group.nodes[1] | added.nodes[1]),
            (group.sources[0] | added.sources[0], group.sources[1] | added.sources[1]),
        )
    return [*apart, added]


def _side(view: GraphView, tensor: TensorRef) -> Optional[_Side]:
    """The nodes between a Merge and the Switches of its branch; None for anything more complex."""
    inside: Set[str] = set()
    switched: Set[Tuple[TensorRef, int]] = set()
    pending = [tensor]
    while pending:
        at = pending.pop()
        if view.op(at.node) in SWITCHES:
            condition = view.through_identity(view.inputs(at.node)[1])
            switched.add((condition, at.index))
            continue
        if view.op(at.node) in _NOT_IN_BRANCH:
            return None
        if at.node in inside:
            continue
        above = list(view.inputs(at.node))
        above += [TensorRef(name, 0) for name in view.controls(at.node)]
        if not above:  # Outside, and yet not behind a Switch.
            return None
        inside.add(at.node)
        pending.extend(above)
    if len(switched) != 1:
        return None
    condition, value = next(iter(switched))
    nodes = frozenset(name for name in inside if not _is_pivot(view, name))
    sources = frozenset(name for name in nodes if view.op(name) in BATCH_SOURCES)
    return _Side(nodes, sources, condition, value)


def _is_pivot(view: GraphView, name: str) -> bool:
    """Whether the node only tells what waits for it that its branch runs."""
    if view.op(name) != "Identity":
        return False
    source = view.inputs(name)[0].node
    return view.op(source) in SWITCHES and len(set(view.inputs(source))) == 1


def _leaks(view: GraphView, group: _Group) -> bool:
    """Whether anything but the Merges reads what is computed in the branches."""
    inside = group.nodes[0] | group.nodes[1]
    allowed = inside.union(group.merges)
    if any(view.uses(TensorRef(merge, 1)) for merge in group.merges):
        return True
    return any(
        reader not in allowed
        for name in inside
        if view.op(name) != "Const"
        for reader in view.successors(name)
    )
