"""Turns a prefetch region and its boundary into new nodes and edges.

    original:  source -> lookup -> dense            (names kept; source and lookup no longer run)
    prefetch:  N/source -> N/lookup -> N/TensorBufferPut
    main:      N/TensorBufferTake -> dense

The prefetch nodes are clones, so that every tensor of the user's graph keeps its name. Where a step
chooses one of several inputs, there is a stage for each of them, and main takes from one:

    main:      N/TensorBufferTake   -> N/choice/Merge -> dense
               N_1/TensorBufferTake ->

What waited in main for a node of prefetch waits for the take. A node that waits for main does not
move in the first place.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Call, Tensor
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.stage_spec import StageSpec
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.prefetch.boundary import Boundary
from graph_opt.passes.prefetch.choices import Choice
from graph_opt.passes.prefetch.fetch_guard import guard_source
from graph_opt.passes.prefetch.region import PrefetchRegion
from graph_opt.passes.prefetch.region_clone import (
    Alternative,
    RegionClone,
    shape_tensors,
    value_dtype_of,
)
from graph_opt.passes.unused_gradients import UnusedGradients


class StageRewrite:
    """Builds the rewrite of one region.

    Args:
      view: The graph.
      region: What moves.
      boundary: What crosses.
      unused: Gradients that may lose their control edges.
      specs: How to run the stage; one for each input, where a step chooses one of several.
      protected: Inputs that are read through an EnsureShape; see `protect_gathers`.
      choice: The inputs that a step chooses from, if the region's source stands for several.

    Attributes:
      specs: The stages; after `build`, with the stages that they take from.
      takes: For each boundary tensor, the tensor of main that carries it: the output of a take, or
        of the Merge of several; set by `build`.

    Raises:
      Refusal: The dtype of a boundary tensor is unknown or cannot be transferred.
    """

    def __init__(
        self,
        view: GraphView,
        region: PrefetchRegion,
        boundary: Boundary,
        unused: UnusedGradients,
        specs: Sequence[StageSpec],
        protected: AbstractSet[Tuple[str, int]],
        choice: Optional[Choice] = None,
    ) -> None:
        self._view = view
        self._region = region
        self._boundary = boundary
        self._unused = unused
        self._choice = choice
        read = [Alternative(choice, number) if choice else None for number in range(len(specs))]
        self._edits = Edits(view)
        self._stages = [
            RegionClone(view, region, boundary, spec, protected, alternative)
            for spec, alternative in zip(specs, read)
        ]
        self._writer = self._stages[0].writer
        self.specs: Sequence[StageSpec] = specs
        self.takes: Dict[TensorRef, str] = {}

    def build(self) -> Rewrite:
        """All nodes and edits of the stage."""
        for stage in self._stages:
            stage.write()
        self.specs = [stage.spec for stage in self._stages]
        outputs = self._taken()
        tensors = self._boundary.tensors
        self.takes = dict(zip(tensors, outputs))
        zeros = self._add_zeros(dict(zip(shape_tensors(self._boundary), outputs[len(tensors) :])))
        self._move_inputs(zeros)
        guard_source(self._writer, self._view, self._region.source, self._edits)
        self._move_waits(outputs)
        return self._edits.rewrite(node for stage in self._stages for node in stage.writer.nodes)

    def _taken(self) -> List[Tensor]:
        """What main reads in place of each tensor that crosses."""
        takes = [stage.take for stage in self._stages]
        records = [Call(take).outputs("record") for take in takes]
        if self._choice is None:
            (only,) = records
            return only
        writer = NodeWriter(self._view, self._writer.name("choice"), self._writer.device)
        for take, chosen in zip(takes, _switched(writer, self._choice.write_selection(writer))):
            take.input.append("^" + chosen)
        merged = [
            writer.call("Merge_{}".format(index), "Merge", inputs=list(same)).output("output")
            for index, same in enumerate(zip(*records))
        ]
        self._writer.nodes.extend(writer.nodes)
        return merged

    def _add_zeros(self, shapes: Dict[TensorRef, Tensor]) -> Dict[str, str]:
        """Fill nodes in main that replace ZerosLike and OnesLike, by the node they replace."""
        made: Dict[str, str] = {}
        for name, tensor in self._boundary.zeros.items():
            device = self._view.device(name)
            dtype = value_dtype_of(self._view, tensor)
            number = 0 if self._view.op(name) == "ZerosLike" else 1
            number_type = tf.as_dtype(dtype).as_numpy_dtype
            value = self._writer.constant(name + "/value", number_type(number), device)
            dims = shapes[tensor]
            fill = self._writer.call(name + "/fill", "Fill", device, dims=dims, value=value)
            made[name] = fill.result
        return made

    def _move_inputs(self, zeros: Dict[str, str]) -> None:
        for tensor, take in self.takes.items():
            uses = self._view.uses(tensor)
            in_main = [use for use in uses if not self._in_prefetch_alone(use.consumer)]
            self._edits.move(in_main, take)
        for name, fill in zeros.items():
            self._edits.move_input(name, 0, fill)
            self._edits.replace(TensorRef(name, 0), fill)

    def _in_prefetch_alone(self, name: str) -> bool:
        return name in self._boundary.hidden

    def _move_waits(self, outputs: Sequence[Tensor]) -> None:
        for source, group in self._unused.released:
            if source in self._boundary.broken:
                self._edits.move_wait(group, source)
        waiting = [
            (user, name)
            for name in self._boundary.hidden
            for user in self._view.control_uses(name)
            if not self._in_prefetch_alone(user)
        ]
        if waiting:
            taken = self._once_taken(outputs)
            for user, name in waiting:
                self._edits.move_wait(user, name, (taken,))

    def _once_taken(self, outputs: Sequence[Tensor]) -> str:
        """A node that runs once main has its batch, and takes none where that is fed."""
        take = self._stages[0].take
        if not outputs:
            return str(take.name)
        return self._writer.call("taken", "Identity", take.device, input=outputs[0]).name


def _switched(writer: NodeWriter, conditions: Sequence[Tensor]) -> List[str]:
    """For each condition, a node that runs if it is true; what waits for it runs then, too."""
    chosen = []
    for number, condition in enumerate(conditions):
        suffix = "Switch_{}".format(number)
        switch = writer.call(suffix, "Switch", data=condition, pred=condition)
        is_true = switch.output("output_true")
        chosen.append(writer.call("Identity_{}".format(number), "Identity", input=is_true).name)
    return chosen
