"""Which nodes compute the model, as opposed to gradients, updates, summaries and checkpoints.

A GraphDef does not say, so it is inferred from the sinks: a tensor that nothing reads is a result
(loss, prediction), a write to a variable is not. Whatever depends on a gradient is found from
gradient ops (`ReluGrad`) and from the scalar 1 that `tf.gradients` starts with.
"""

from __future__ import annotations

import re
from typing import Container, Dict, Iterable, List, Optional, Set

from graph_opt.compat.op_definitions import is_stateful
from graph_opt.compat.variable_ops import ACTS, VariableUse, is_use, use_of
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.match.table import count_tables
from graph_opt.rules.op_names import SHAPE_READERS, VARIABLES, WHOLE_READS

# A count of epochs is on the way of the batches that it limits.
_WRITES = (ACTS - {VariableUse.COUNTS}) | {VariableUse.MAINTAINS}
_NO_RESULT = re.compile(r"Summary|^Save|^MergeV2Checkpoints$|^Assert$|^Print|^NoOp$")
_SUMMARY = re.compile(r"Summary")
_GRADIENT = re.compile(r"Grad")
_NO_GRADIENT = frozenset(["StopGradient", "PreventGradient"])

_Nodes = Dict[str, None]  # an ordered set, so that runs are reproducible


class ForwardPart:
    """Answers questions about nodes of one graph; each kind costs at most one traversal.

    Args:
      view: The graph.
    """

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._gradient_ops = [
            op for op in view.ops() if _GRADIENT.search(op) and op not in _NO_GRADIENT
        ]
        self._writer_ops = [op for op in view.ops() if is_use(op, _WRITES)]
        self._writers = frozenset(view.of_op(*self._writer_ops))
        self._gradients: Optional[_Nodes] = None
        self._results: Optional[List[str]] = None
        self._needed: Optional[_Nodes] = None
        self._summarised: Optional[_Nodes] = None
        self._trained: Optional[_Nodes] = None
        self._forward: Optional[_Nodes] = None
        self._dense: Optional[_Nodes] = None
        self._clear: Set[str] = set()

    def feeds_model(self, name: str) -> bool:
        """Whether the node's value reaches a result, unlike an optimizer's read of its slots."""
        if self._needed is None:
            self._needed = self._upstream(self._model_ends())
        if name in self._needed:
            return True
        # The only reader of a loss may be its summary. A row that is summarised but trains nothing
        # belongs to the summary alone.
        return name in self._find_summarised() and name in self._find_trained()

    def idle_gradients(self, sources: Iterable[str]) -> Set[str]:
        """Gradients computed from these nodes that nothing reads, such as those of weights."""
        below = self._downstream(sources)
        return {
            name
            for name in (self._find_gradients() if below else ())
            if name in below and not self._is_read(name) and not is_stateful(self._view.op(name))
        }

    def _is_read(self, name: str) -> bool:
        # What ends a step of a loop has no successor: only the next step reads it.
        return bool(self._view.successors(name) or self._view.uses(TensorRef(name, 0)))

    def stays_inside(self, tensor: TensorRef, nodes: Container[str]) -> bool:
        """Whether only `nodes` read the tensor's values in the forward part.

        Reads of its shape, and reads by gradients or updates, do not count.
        """
        for use in self._view.uses(tensor):
            if use.consumer in nodes or self._view.op(use.consumer) in SHAPE_READERS:
                continue
            if use.consumer in self._find_forward():
                return False
        return True

    def depends_on_dense_variable(self, name: str) -> bool:
        """Whether the node's value depends on a variable in any way but by reading single rows."""
        if self._dense is None:
            if self._is_clear_of_variables(name):
                return False
            self._dense = self._downstream_of_variables()
        return name in self._dense

    def _is_clear_of_variables(self, name: str) -> bool:
        """Whether no variable at all is upstream, as of most ids, weights and initial values.

        What was found clear once is not walked again.
        """
        view = self._view
        seen = {name}
        stack = [name]
        while stack:
            node = stack.pop()
            op = view.op(node)
            if op in VARIABLES:
                return False
            if op in SHAPE_READERS:
                continue
            for tensor in view.inputs(node):
                if tensor.node not in seen and tensor.node not in self._clear:
                    seen.add(tensor.node)
                    stack.append(tensor.node)
        self._clear.update(seen)
        return True

    def _downstream_of_variables(self) -> _Nodes:
        view = self._view
        whole: _Nodes = dict.fromkeys(view.of_op(*sorted(VARIABLES)))
        stack = list(whole)
        dense = dict(whole)
        while stack:  # variables and the nodes that pass their whole value on
            for _, use in view.node_uses(stack.pop()):
                op = view.op(use.consumer)
                if use.slot < count_tables(view, use.consumer) or op in SHAPE_READERS:
                    continue
                dense[use.consumer] = None
                if op in WHOLE_READS and use.consumer not in whole:
                    whole[use.consumer] = None
                    stack.append(use.consumer)
        stack = [name for name in dense if name not in whole]
        while stack:
            for name in view.readers(stack.pop()):
                if name not in dense and view.op(name) not in SHAPE_READERS:
                    dense[name] = None
                    stack.append(name)
        return dense

    def _find_gradients(self) -> _Nodes:
        """Everything that depends on a gradient."""
        if self._gradients is None:
            seeds = self._view.of_op(*self._gradient_ops)
            seeds += [name for name in self._view.of_op("Fill") if self._is_gradient_of_loss(name)]
            self._gradients = self._downstream(seeds)
        return self._gradients

    def _is_gradient_of_loss(self, name: str) -> bool:
        """Whether a Fill makes the scalar 1: d(loss) / d(loss)."""
        dims, value = self._view.inputs(name)[:2]
        shape = self._view.attribute(dims.node, "value")
        if self._view.op(dims.node) != "Const" or shape is None:
            return False
        if [size.size for size in shape.tensor.tensor_shape.dim] != [0]:
            return False
        one = self._view.constant(value)
        return one is not None and one.dtype.kind == "f" and float(one) == 1.0

    def _find_results(self) -> List[str]:
        """Nodes whose outputs nothing reads and that do not write, save or summarise."""
        if self._results is None:
            silent_ops = [op for op in self._view.ops() if _NO_RESULT.search(op)]
            silent = self._writers.union(self._view.of_op(*silent_ops))
            self._results = [
                name
                for name in self._view.nodes
                if name not in silent and not self._view.is_read(name)
            ]
        return self._results

    def _model_ends(self) -> List[str]:
        gradients = self._find_gradients()
        ends = list(self._find_results())
        # A graph pruned to its train op has no results left, but its gradients read the model.
        for name in self._view.of_op(*self._gradient_ops):
            ends.extend(t.node for t in self._view.inputs(name) if t.node not in gradients)
        # Running totals (metrics, moving averages of the loss): what they add up is of the model.
        totals = [op for op in self._writer_ops if use_of(op) is VariableUse.ADDS]
        for name in self._view.of_op(*totals):
            if name not in gradients:
                ends.extend(tensor.node for tensor in self._view.inputs(name)[1:])
        return ends

    def _find_summarised(self) -> _Nodes:
        if self._summarised is None:
            ops = [op for op in self._view.ops() if _SUMMARY.search(op)]
            self._summarised = self._upstream(self._view.of_op(*ops))
        return self._summarised

    def _find_trained(self) -> _Nodes:
        if self._trained is None:
            self._trained = self._upstream(self._find_gradients())
        return self._trained

    def _find_forward(self) -> _Nodes:
        """What leads to a result without depending on a gradient."""
        if self._forward is None:
            gradients = self._find_gradients()
            ends = [name for name in self._find_results() if name not in gradients]
            self._forward = self._upstream(ends)
        return self._forward

    def _downstream(self, starts: Iterable[str]) -> _Nodes:
        seen: _Nodes = dict.fromkeys(starts)
        stack = list(seen)
        while stack:
            for name in self._view.readers(stack.pop()):
                if name not in seen:
                    seen[name] = None
                    stack.append(name)
        return seen

    def _upstream(self, ends: Iterable[str]) -> _Nodes:
        """Follows data edges but stops at writes: what a variable is set to is not its value."""
        inputs, writers = self._view.inputs, self._writers
        seen: _Nodes = dict.fromkeys(ends)
        stack = [name for name in seen if name not in writers]
        while stack:
            for tensor in inputs(stack.pop()):
                source = tensor.node
                if source not in seen:
                    seen[source] = None
                    if source not in writers:
                        stack.append(source)
        return seen
