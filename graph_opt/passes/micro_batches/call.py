"""One node, and how a copy of it for a micro-batch reads its inputs."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import value_dtype
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.passes.micro_batches.values import Count, Rows, Value

COPY, WHOLE, DIVIDED, NUMBERS = "copy", "whole", "divided", "numbers"
_NEED = "an op that computes each row of its result from the same row of the batch"


@dataclasses.dataclass(frozen=True)
class Use:
    """How a copy reads one input.

    Attributes:
      kind: `COPY`: the micro-batch's own tensor; `WHOLE`: the tensor that all share; `DIVIDED`: the
        micro-batch's rows of such a tensor; `NUMBERS`: a constant in which some elements are
        numbers of rows.
      rows: Where the rows of a `DIVIDED` tensor are.
      places: Of `NUMBERS`, the elements, with what each is.
    """

    kind: str
    rows: Optional[Rows] = None
    places: Tuple[Tuple[int, Count], ...] = ()


class Call:
    """What a rule gets to see of a node, and says of it.

    Args:
      view: The graph.
      name: The node.
      values: What is known of its data inputs.
      shapes: Their shapes, as far as they are known.

    Attributes:
      uses: How copies read the inputs; rules change what differs from the default.
      weighted: Whether the result of a copy is the mean over its rows, and so adds up to that of
        the batch only in proportion to their number.
    """

    def __init__(
        self,
        view: GraphView,
        name: str,
        values: Sequence[Value] = (),
        shapes: Sequence[Shape] = (),
    ) -> None:
        self._shapes = shapes
        self.view = view
        self.name = name
        self.values = list(values)
        self.uses: Dict[int, Use] = {
            slot: Use(WHOLE if value.shared and value.early else COPY)
            for slot, value in enumerate(values)
        }
        self.weighted: Optional[Rows] = None

    @property
    def op(self) -> str:
        """Its op."""
        return self.view.op(self.name)

    def refusal(self, saw: str = "") -> Refusal:
        """Why no copies of it can be made."""
        return Refusal("rows_mixed", at=self.name, need=_NEED, saw=saw or self.op)

    def integer(self, key: str, default: int = 0) -> int:
        """An attribute that is an integer or a boolean."""
        value = self.view.attribute(self.name, key)
        if value is None:
            return default
        return int(value.b) if value.WhichOneof("value") == "b" else int(value.i)

    def dtype(self, slot: int) -> tf.DType:
        """The dtype of an input; `variant` if it is not known."""
        return self._dtype_of(self.view.inputs(self.name)[slot])

    @property
    def result_dtype(self) -> tf.DType:
        """The dtype of the first result, likewise."""
        return self._dtype_of(TensorRef(self.name, 0))

    def _dtype_of(self, tensor: TensorRef) -> tf.DType:
        number = self.view.dtype(tensor)
        return tf.variant if number is None else tf.as_dtype(value_dtype(number))

    def shape(self, slot: int) -> Tuple[Optional[int], ...]:
        """The static shape of an input, of known rank.

        Raises:
          Refusal: Its rank is not known.
        """
        shape = self._shapes[slot]
        if shape is None:
            raise self.refusal("an input of unknown rank")
        return shape

    def rank(self, slot: int) -> int:
        """The rank of an input."""
        return len(self.shape(slot))

    def rows(self, slot: int) -> Optional[Rows]:
        """Where an input has the batch's rows."""
        return self.values[slot].rows

    def rows_along(self, slot: int) -> Rows:
        """The same, of an input that must have some."""
        found = self.rows(slot)
        if found is None:
            raise self.refusal("an input without rows")
        return found

    def total(self, slot: int) -> bool:
        """Whether an input is a sum over the batch."""
        return self.values[slot].total

    def numbers(self, slot: int) -> Any:
        """The integers of an input."""
        found = self.values[slot].numbers
        if found is None:
            raise self.refusal("a shape, axis or place that each step computes")
        return found

    def integers(self, slot: int) -> List[int]:
        """The same, of an input whose integers are all known."""
        found = list(self.numbers(slot).reshape(-1))
        if not all(isinstance(one, int) for one in found):
            raise self.refusal("an axis or place that each step computes")
        return found

    def axis(self, slot: int, rank: int) -> int:
        """An input that is an axis of a tensor of this rank."""
        return self.integers(slot)[0] % rank if rank else 0

    def share(self, slot: int) -> None:
        """Has all copies read the same tensor."""
        value = self.values[slot]
        if value.early:
            self.uses[slot] = Use(WHOLE)
        elif not value.shared:
            raise self.refusal("a value that takes all rows of the batch")

    def divide(self, slot: int, rows: Rows) -> None:
        """Has each copy read its rows of a tensor that has them without anyone saying so."""
        if not self.values[slot].early:
            raise self.refusal("a value that takes all rows of the batch")
        self.uses[slot] = Use(DIVIDED, rows)

    def count(self, slot: int, place: int, rows: Rows) -> Optional[Count]:
        """The number of rows that an element of a shape is; None if it is none.

        An element of a constant is one if the number of rows is known and divides it.
        """
        element = self.numbers(slot).reshape(-1)[place]
        if isinstance(element, Count):
            return element if element.rows.unite(rows.rows) else None
        length = rows.rows.static
        if not isinstance(element, int) or not length or element <= 0 or element % length:
            return None
        if self.view.constant(self.view.inputs(self.name)[slot]) is None:
            return None
        found = Count(rows.rows, element // length)
        self._number(slot, place, found)
        return found

    def counts(self, slot: int, place: int, rows: Rows) -> bool:
        """Whether an element of a shape is the number of these rows."""
        found = self.count(slot, place, rows)
        return found is not None and Rows(0, found.rows, found.times).alike(rows)

    def _number(self, slot: int, place: int, count: Count) -> None:
        """Has each copy read its own number of rows in a place of a constant."""
        use = self.uses[slot]
        places = use.places if use.kind == NUMBERS else ()
        self.uses[slot] = Use(NUMBERS, None, (*places, (place, count)))

    def require_shared(self, slots: Iterable[int]) -> None:
        """Refuses unless these inputs are the same for all rows."""
        for slot in slots:
            self.share(slot)

    def align(self, slots: Sequence[int]) -> Rows:
        """Finds where the result has rows of inputs that are broadcast to each other.

        Returns:
          The rows, with an axis that counts backward, from -1.
        """
        with_rows = [slot for slot in slots if self.rows(slot) is not None]
        late = [slot for slot in with_rows if not self.values[slot].early]
        first = (late or sorted(with_rows, key=self.rank, reverse=True))[0]
        found = self.rows_along(first)
        found = found._replace(axis=found.axis - self.rank(first))
        for slot in slots:
            if slot != first:
                self._align(slot, found)
        return found

    def _align(self, slot: int, found: Rows) -> None:
        if self.total(slot):
            raise self.refusal("a sum over the batch beside its rows")
        own, rank = self.rows(slot), self.rank(slot)
        if own is not None and own.axis - rank == found.axis and own.alike(found):
            return
        axis = rank + found.axis
        size = self.shape(slot)[axis] if axis >= 0 else 1
        if size == 1:
            self.share(slot)
        elif size is not None and size == found.length:
            self.divide(slot, found._replace(axis=axis))
        else:
            raise self.refusal("inputs with rows along different axes")


def forward(rows: Rows, rank: int) -> Rows:
    """Rows with an axis that counts from 0, of one that counts backward."""
    return rows._replace(axis=rows.axis + rank)
