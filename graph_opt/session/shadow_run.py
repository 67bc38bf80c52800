"""One training step that is shadowed: both forward parts, then the step itself, once."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.sessions import Prepared, RunPrepared, share_session
from graph_opt.compat.stateful_ops import CALLS_PYTHON
from graph_opt.compat.tensor_keys import key_of, tensor_of
from graph_opt.graph.operations import operations_behind
from graph_opt.passes.io_stages import BATCH_SOURCES, BUFFER_TAKE
from graph_opt.reporting.value_differences import size_of
from graph_opt.session.compared_tensors import Pair
from graph_opt.session.shadow_difference import Difference, difference
from graph_opt.session.shadowed_step import ShadowedStep
from graph_opt.session.stock_graph import StockFetches, StockGraph

_DRAWS = (*BATCH_SOURCES, BUFFER_TAKE, *CALLS_PYTHON)
_LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.UnavailableError,
)


class Compared(NamedTuple):
    """What comparing a step has shown.

    Attributes:
      differences: Of each pair, losses first; empty if one side failed.
      failure: How only one side failed; "" if neither or both did.
      moved: Whether the variables changed meanwhile, so that nothing is known.
      sizes: The largest number of each tensor.
    """

    differences: Tuple[Tuple[Pair, Difference], ...] = ()
    failure: str = ""
    moved: bool = False
    sizes: Mapping[str, float] = {}

    @property
    def beyond_rounding(self) -> List[Pair]:
        """The pairs that differ."""
        return [pair for pair, found in self.differences if not found.is_rounding]

    def of(self, pair: Pair) -> Difference:
        """The difference of a pair."""
        return next(found for one, found in self.differences if one is pair)


class ShadowRun:
    """A step.

    Args:
      session: The session.
      stock: Copies of the user's nodes.
      plan: What to share and to compare.
      prepared: Its fetches, targets, and values by the feeds' references.
      run: Runs a step and returns the values of its fetches.
    """

    def __init__(
        self,
        session: Any,
        stock: StockGraph,
        plan: ShadowedStep,
        prepared: Prepared,
        run: RunPrepared,
    ) -> None:
        self._session = session
        self._shared = share_session(session)
        self._stock = stock
        self._plan = plan
        self._run = run
        self._fetches, self._targets, fed = prepared
        self._fed = {**fed, **StockFetches(session.graph).fed(fed)}
        self._user_fed = dict(fed)
        self._drawn: Dict[str, Any] = {}

    @property
    def feeds(self) -> List[Any]:
        """All tensors that are fed, of both graphs."""
        return [tensor_of(reference) for reference in self._fed]

    def draw(self) -> None:
        """Takes the step's batch, and draws what else it draws.

        Raises:
          tf.errors.OpError: Of the step, such as the end of the input.
        """
        plan = self._plan
        if not plan.shared:
            return
        try:
            values = self.values(plan.shared, list(self._user_fed))
        except tf.errors.OpError as error:
            raise self._session.error_raised(error) from None
        self._share(plan.shared, values)
        if plan.draws:
            drawn = {key_of(tensor) for tensor in plan.draws}
            self.values(plan.draws, [key for key in self._fed if key not in drawn])

    def compare(self, scales: Dict[str, float]) -> Compared:
        """Computes both forward parts and compares them.

        Args:
          scales: The largest number that each tensor has had so far.
        """
        pairs = self._plan.pairs
        stock, failed = self._tried([pair.stock for pair in pairs])
        main, other = self._tried([pair.main for pair in pairs])
        if failed or other:
            is_same = bool(failed and other)
            return Compared(failure="" if is_same else _one_failed(failed, other))
        found = [
            (pair, difference(pair.name, one, two, scales.get(pair.name, 0.0)))
            for pair, one, two in zip(pairs, stock, main)
        ]
        sizes = {pair.name: size_of(one) for pair, one in zip(pairs, stock)}
        return Compared(tuple(found), sizes=sizes)

    def compare_at_once(self, scales: Dict[str, float]) -> Compared:
        """The same with rows that are looked up anew, between two looks at the variables.

        Others may have written the variables since the batch was looked up.
        """
        pairs = self._plan.pairs
        before, _ = self._tried([pair.stock for pair in pairs])
        self.look_up_again()
        compared = self.compare(scales)
        after, _ = self._tried([pair.stock for pair in pairs])
        same = len(before) == len(after) and all(
            np.array_equal(one, two, equal_nan=True) for one, two in zip(before, after)
        )
        return compared if same else Compared(moved=True)

    def look_up_again(self) -> bool:
        """Does the work of the stages again for this batch; returns whether it could."""
        ahead = {
            tensor: put
            for tensor, put in ((one, self._stock.put(one)) for one in self._plan.shared)
            if put is not None and put.op.type not in _DRAWS
        }
        graph = self._session.graph
        sources = {
            graph.get_tensor_by_name(source): self._drawn[taken.name]
            for name, source in self._stock.sources.items()
            for taken in self._plan.shared
            if self._stock.put(taken) is graph.get_tensor_by_name(source)
        }
        behind = operations_behind([put.op for put in ahead.values()], list(sources))
        if not ahead or any(operation.type in _DRAWS for operation in behind):
            return False
        values = self._session.within_limit(self._shared.run, list(ahead.values()), sources)
        self._share(list(ahead), values)
        return True

    def values(self, tensors: Sequence[Any], fed: Optional[Sequence[Any]] = None) -> List[Any]:
        """Computes tensors of either graph for this step."""
        keys = self._fed if fed is None else fed
        feeds = {tensor_of(key): self._fed[key] for key in keys}
        found: List[Any] = self._session.within_limit(self._shared.run, list(tensors), feeds)
        return found

    def values_with(self, tensors: Sequence[Any], instead: Mapping[Any, Any]) -> List[Any]:
        """The same with values in the place of tensors, by their references."""
        feeds = {tensor_of(key): value for key, value in {**instead, **self._fed}.items()}
        found: List[Any] = self._session.within_limit(self._shared.run, list(tensors), feeds)
        return found

    def draw_again(self, compared: Compared) -> None:
        """Has the step as built draw anew what the rewritten graph drew from something else."""
        copies = [copy for found in self._plan.copies.values() for copy in found]
        drawn = {copy.op for copy in copies}
        differing = set(compared.beyond_rounding).intersection(self._plan.drawn_from)
        wrong = {reader for pair in differing for reader in pair.stock.consumers()} & drawn
        for copy in copies:
            if wrong & operations_behind([copy.op]):
                self._fed.pop(key_of(copy), None)

    def as_rewritten(self) -> List[Any]:
        """Runs the step, and returns what it fetches."""
        return self._ran(self._fetches, self._targets)

    def as_built(self) -> List[Any]:
        """Runs the step in TensorFlow's ops, and returns what it fetches."""
        return self._ran(self._plan.fetches, self._plan.targets)

    def _ran(self, fetches: Sequence[Any], targets: Sequence[Any]) -> List[Any]:
        once = {tensor_of(key).op for key in self._fed}
        wanted = [tensor for tensor in fetches if key_of(tensor) not in self._fed]
        run = [target for target in targets if target not in once]
        values = iter(self._run(wanted, run, self._fed))
        return [
            self._fed[key_of(tensor)] if key_of(tensor) in self._fed else next(values)
            for tensor in fetches
        ]

    def _share(self, tensors: Sequence[Any], values: Sequence[Any]) -> None:
        for tensor, value in zip(tensors, values):
            self._drawn[tensor.name] = value
            for each in (tensor, *self._plan.copies.get(tensor.name, ())):
                self._fed[key_of(each)] = value

    def _tried(self, tensors: Sequence[Any]) -> Tuple[List[Any], str]:
        """The values, or how computing them failed."""
        try:
            return self.values(tensors), ""
        except _LOST:
            raise
        except tf.errors.OpError as error:
            return [], "{}: {}".format(type(error).__name__, str(error.message).partition("\n")[0])


def _one_failed(stock: str, main: str) -> str:
    if main:
        return "it fails with {}, which it does not as built".format(main)
    return "it does not fail as it does when built: {}".format(stock)
