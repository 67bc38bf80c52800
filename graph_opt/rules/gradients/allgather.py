"""IndexedSlices that ranks send each other before an update takes them, as `hvd.allreduce` writes.

    values  -> HorovodAllgather -> RealDiv(ranks)      indices -> HorovodAllgather
    Switch, Merge around these, or If                  DistributedOptimizer
    HorovodGroupedAllgather:i                          grouped

The update sums the rows that it takes. So a rank may sum its own by row before it sends them,
unless something else reads what was gathered, such as a norm. Whether there are any rows at all, on
which steps of `AdamAsyncOptimizer` depend, stays as it is.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Hashable, List, NamedTuple, Optional, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.function_bodies import function_body
from graph_opt.graph.control_flow_ops import SWITCHES
from graph_opt.graph.op_call import call_op
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.rules.gradients.gather import Slices
from graph_opt.rules.op_names import PASS_VALUES_ON
from graph_opt.rules.optimizers.update_inputs import is_scalar

GATHERS = ("HorovodAllgather", "HorovodGroupedAllgather")
"""What gathers the tensors of all ranks: from input number i, output number i."""
_QUOTIENTS = ("RealDiv", "Div", "DivNoNan")
_NUM_RANKS = "HorovodSize"
_CONDITIONALS = ("If", "StatelessIf")
_BRANCHES = ("then_branch", "else_branch")


class SentSlices(NamedTuple):
    """The slices that a rank sends.

    Attributes:
      slices: Values and indices.
      values_uses: The edges through which values leave for other ranks, or stay if there are none.
      indices_uses: Those of indices.
      gathered: The values, and the indices, of all ranks, as the collectives return them.
      conditional: A node of a tf.cond around a collective; None if the collectives always run.
    """

    slices: Slices
    values_uses: Tuple[Use, ...]
    indices_uses: Tuple[Use, ...]
    gathered: Tuple[TensorRef, ...]
    conditional: Optional[str]


class _Source(NamedTuple):
    """What a tensor is computed from.

    Attributes:
      tensor: This rank's values or indices.
      uses: The edges to the collective, or past it.
      is_sent: Whether a collective is on the way.
    """

    tensor: TensorRef
    uses: Tuple[Use, ...]
    is_sent: bool


def sent_slices(view: GraphView, part: Slices, summed_by: AbstractSet[str]) -> Optional[SentSlices]:
    """The slices of this rank from which those of all ranks are gathered; None if none are.

    Args:
      view: The graph.
      part: IndexedSlices that an update takes.
      summed_by: The update's nodes, which do not depend on the order of rows or on duplicates.
    """
    found: List[_Source] = []
    gathered: List[TensorRef] = []
    conditional: Optional[str] = None
    for tensor, may_scale in ((part.values, True), (part.indices, False)):
        walk = _Walk(view, may_scale)
        source = walk.source(tensor)
        if source is None or not source.is_sent or not walk.is_read_only_by(summed_by):
            return None
        found.append(source)
        gathered += walk.gathered
        conditional = conditional or walk.conditional
    values, indices = found
    slices = Slices(values.tensor, indices.tensor)
    return SentSlices(slices, values.uses, indices.uses, tuple(gathered), conditional)


def is_one_number(view: GraphView, tensor: TensorRef) -> bool:
    """Whether a tensor that gradients are scaled by is known to be a scalar.

    Bodies of functions have no static shapes, so what makes the number of ranks is known.
    """
    tensor = _uncast(view, tensor)
    return view.op(tensor.node) == _NUM_RANKS or is_scalar(view, tensor)


def number_key(view: GraphView, tensor: TensorRef) -> Hashable:
    """The same for scalars of the same value: Horovod asks for the number of ranks each time."""
    source = _uncast(view, tensor)
    value = view.constant(source)
    if value is not None:
        return float(value)
    if view.op(source.node) != _NUM_RANKS:
        return tensor
    process_set = view.attribute(source.node, "process_set_id")
    return _NUM_RANKS, 0 if process_set is None else process_set.i


def _uncast(view: GraphView, tensor: TensorRef) -> TensorRef:
    while view.op(tensor.node) == "Cast":
        tensor = view.inputs(tensor.node)[0]
    return tensor


class _Walk:
    """Follows one tensor upstream to what a rank sends, in a graph or in a function's body."""

    def __init__(self, view: GraphView, may_scale: bool) -> None:
        self._view = view
        self._may_scale = may_scale
        self._nodes: Set[str] = set()
        self.tensors: Dict[TensorRef, None] = {}
        self.gathered: List[TensorRef] = []
        self.conditional: Optional[str] = None

    def is_read_only_by(self, others: AbstractSet[str]) -> bool:
        """Whether nothing but these nodes, and those on the way, reads a tensor on the way."""
        readers = {use.consumer for tensor in self.tensors for use in self._view.uses(tensor)}
        unknown = readers - self._nodes - others
        return all(_tells_only_whether_any(self._view, name) for name in unknown)

    def source(self, tensor: TensorRef) -> Optional[_Source]:
        """What a tensor is computed from; None if by anything but a gather and a scale."""
        view, op = self._view, self._view.op(tensor.node)
        self.tensors[tensor] = None
        self._nodes.add(tensor.node)
        inputs = view.inputs(tensor.node)
        if op in GATHERS:
            return self._sent(tensor)
        if op == "Placeholder" and not inputs:  # an argument of a function
            return _Source(tensor, (), is_sent=False)
        if op in SWITCHES:
            return _Source(inputs[0], (Use(tensor.node, 0),), is_sent=False)
        if op in PASS_VALUES_ON:
            return self.source(inputs[0])
        if op == "Merge" and tensor.index == 0:
            self.conditional = tensor.node
            return self._alternatives([self.source(one) for one in inputs])
        if op in _CONDITIONALS:
            self.conditional = tensor.node
            return self._alternatives([self._branch(tensor, name) for name in _BRANCHES])
        scaled = self._scaled(op, inputs)
        return None if scaled is None else self.source(scaled)

    def _sent(self, gathered: TensorRef) -> Optional[_Source]:
        self.gathered.append(gathered)
        sent = self._view.inputs(gathered.node)[gathered.index]
        op = self._view.op(sent.node)
        if op in SWITCHES or op == "Placeholder":
            source = self.source(sent)
            return None if source is None else source._replace(is_sent=True)
        return _Source(sent, (Use(gathered.node, gathered.index),), is_sent=True)

    def _scaled(self, op: str, inputs: Tuple[TensorRef, ...]) -> Optional[TensorRef]:
        if not self._may_scale or len(inputs) != 2:
            return None
        if (op in _QUOTIENTS or op == "Mul") and is_one_number(self._view, inputs[1]):
            return inputs[0]
        return inputs[1] if op == "Mul" and is_one_number(self._view, inputs[0]) else None

    def _alternatives(self, sources: List[Optional[_Source]]) -> Optional[_Source]:
        known = [source for source in sources if source is not None]
        if len(known) < len(sources) or len({source.tensor for source in known}) != 1:
            return None
        uses = dict.fromkeys(use for source in known for use in source.uses)
        return _Source(known[0].tensor, tuple(uses), any(source.is_sent for source in known))

    def _branch(self, result: TensorRef, branch: str) -> Optional[_Source]:
        """What a branch of a conditional computes its result from."""
        body = _body(self._view, result.node, branch)
        if body is None:
            return None
        inner, results = body
        walk = _Walk(inner, self._may_scale)
        source = walk.source(results[result.index])
        if source is None or not walk.is_read_only_by(frozenset()):
            return None
        if inner.op(source.tensor.node) != "Placeholder":
            return None
        if sum(one in walk.tensors for one in results) != 1:
            return None
        slot = 1 + int(source.tensor.node.rpartition("_")[2])  # the first is the condition
        outer = self._view.inputs(result.node)[slot]
        return _Source(outer, (Use(result.node, slot),), source.is_sent)


def _tells_only_whether_any(view: GraphView, name: str) -> bool:
    """Whether a node reads a tensor for `tf.size(tensor) > 0`, and for nothing else."""
    if view.op(name) != "Size":
        return False
    return all(
        view.op(use.consumer) == "Greater"
        and use.slot == 0
        and view.constant(view.inputs(use.consumer)[1]) == 0
        for use in view.uses(TensorRef(name, 0))
    )


def _body(view: GraphView, name: str, branch: str) -> Optional[Tuple[GraphView, List[TensorRef]]]:
    """A branch as a graph whose placeholders `argument_0`, ... are its arguments; its results."""
    called = view.attribute(name, branch)
    function = view.functions.get(called.func.name) if called is not None else None
    if function is None:
        return None
    arguments = [
        call_op("Placeholder", "argument_{}".format(number), {"dtype": argument.type}).node
        for number, argument in enumerate(function.signature.input_arg)
    ]
    body = function_body(function, [node.name for node in arguments], "body")
    if body is None:
        return None
    graph = tf.GraphDef(node=[*arguments, *body.nodes])
    return GraphView(graph), [TensorRef.parse(result) for result in body.results]
