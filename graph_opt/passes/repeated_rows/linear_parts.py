"""What the columns of a joined matrix are in terms of tensors that vary and that are repeated.

In models with attention, and in those that compare a user with an item, a layer reads

    [h, q, h - q, h * q]        h: repeated in all rows, q: varies

Each part is `scale * q + offset`, and scale and offset are repeated, so the layer is a product of q
alone with a matrix that the first row of h gives, plus a vector.
"""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.repeated_rows.classify import Classifier

_SUMS = {"Add": 1, "AddV2": 1, "Sub": -1}
_RANKS = (2, 3)


class LinearPart(NamedTuple):
    """Columns `sign * scale * base + offset_sign * offset`, all of which have `width` columns.

    Attributes:
      width: How many columns.
      base: What varies, [rows, width] or [rows, 1, width]; None if nothing does.
      sign: 1 or -1.
      scale: What is repeated and multiplied; None for 1.
      offset: What is repeated and added; None for 0.
      offset_sign: 1 or -1.
    """

    width: int
    base: Optional[TensorRef]
    sign: int = 1
    scale: Optional[TensorRef] = None
    offset: Optional[TensorRef] = None
    offset_sign: int = 1


class LinearParts:
    """Finds them.

    Args:
      view: The graph.
      classifier: What is known of its nodes.
    """

    def __init__(self, view: GraphView, classifier: Classifier) -> None:
        self._view = view
        self._classifier = classifier

    def of(self, tensors: Tuple[TensorRef, ...], places: Optional[int]) -> List[LinearPart]:
        """The parts of a matrix, whose columns lie side by side.

        Args:
          tensors: [rows, width] each, or [rows, places, width].
          places: None if they have two axes.

        Returns:
          The parts; empty if one of them has not rows of known size, or with places, if it is not
          linear in what is the same for all places.
        """
        found = [self._part(tensor, places) for tensor in tensors]
        return [] if any(part is None for part in found) else [p for p in found if p is not None]

    def _part(self, tensor: TensorRef, places: Optional[int]) -> Optional[LinearPart]:
        width = self._width(tensor, places)
        if width is None:
            return None
        if self._classifier.is_once(tensor):
            return LinearPart(width, None, offset=tensor)
        linear = self._of_sum(tensor, places) or self._of_product(tensor, places)
        if linear is not None:
            return linear
        base = self._base(tensor, places)
        return None if base is None else LinearPart(width, base)

    def _of_sum(self, tensor: TensorRef, places: Optional[int]) -> Optional[LinearPart]:
        operands = self._once_and_varying(tensor, places, tuple(_SUMS))
        if operands is None:
            return None
        width, once, base, is_first = operands
        sign = _SUMS[self._view.op(tensor.node)]
        if is_first:
            return LinearPart(width, base, sign=sign, offset=once)
        return LinearPart(width, base, offset=once, offset_sign=sign)

    def _of_product(self, tensor: TensorRef, places: Optional[int]) -> Optional[LinearPart]:
        operands = self._once_and_varying(tensor, places, ("Mul",))
        if operands is None:
            return None
        width, once, base, _ = operands
        return LinearPart(width, base, scale=once)

    def _once_and_varying(
        self, tensor: TensorRef, places: Optional[int], ops: Tuple[str, ...]
    ) -> Optional[Tuple[int, TensorRef, TensorRef, bool]]:
        """Width, the repeated operand, the other's base, and whether the former comes first."""
        if self._view.op(tensor.node) not in ops:
            return None
        left, right = self._view.inputs(tensor.node)
        is_first = self._classifier.is_once(left)
        once, varying = (left, right) if is_first else (right, left)
        width, base = self._width(once, places), self._base(varying, places)
        if width is None or base is None or not self._classifier.is_once(once):
            return None
        if (
            width != self._width(tensor, places)
            or (self._classifier.shape(base) or ())[-1] != width
        ):
            return None
        return width, once, base, is_first

    def _base(self, tensor: TensorRef, places: Optional[int]) -> Optional[TensorRef]:
        """The tensor without what repeats it for all places."""
        if not self._has_rows(tensor):
            return None
        if places is None:
            return tensor if self._width(tensor, None) is not None else None
        if self._view.op(tensor.node) == "Tile":
            if self._width(tensor, places) is None:
                return None
            tensor = self._view.inputs(tensor.node)[0]
        shape = self._classifier.shape(tensor)
        is_base = shape is not None and len(shape) == max(_RANKS) and shape[1] == 1
        return tensor if is_base and self._has_rows(tensor) else None

    def _width(self, tensor: TensorRef, places: Optional[int]) -> Optional[int]:
        """How many columns a tensor has, if its other axes are rows and these places."""
        shape = self._classifier.shape(tensor)
        if shape is None or len(shape) != (2 if places is None else max(_RANKS)):
            return None
        if places is not None and shape[1] != places:
            return None
        return shape[-1] if self._has_rows(tensor) else None

    def _has_rows(self, tensor: TensorRef) -> bool:
        value = self._classifier.value(tensor)
        rows = None if value is None else value.rows
        return rows is not None and rows.axis == 0 and rows.times == 1
