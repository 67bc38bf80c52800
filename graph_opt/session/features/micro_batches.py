"""Steps that train on one micro-batch after the other: what they compute, summed or joined."""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, List

from graph_opt.passes.micro_batches.micro_batch_names import MicroBatchNames
from graph_opt.session.features.feature import Feature


class MicroBatches(Feature):
    """See `Feature`."""

    part_type = MicroBatchNames

    def __init__(self, graph: Any, part: MicroBatchNames) -> None:
        super().__init__(graph, part)
        self._results, self._scope = part.results, part.scope + "/"

    def fetched_in_step(
        self, fetched: List[Any], reached: AbstractSet[Any], given: Callable[[], AbstractSet[Any]]
    ) -> List[Any]:
        """See `Feature`: a step that trains divides its batch."""
        if not any(operation.name.startswith(self._scope) for operation in reached):
            return fetched
        return [self._whole(tensor) for tensor in fetched]

    def _whole(self, tensor: Any) -> Any:
        name = self._results.get(tensor.name)
        return tensor if name is None else self.graph.get_tensor_by_name(name)
