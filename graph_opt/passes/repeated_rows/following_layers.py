"""What follows a product: its bias and activation, and layers that read nothing but its result.

    product -> BiasAdd -> Sigmoid                            the end of a layer
            -> Reshape -> MatMul -> Reshape -> BiasAdd       a layer that follows

Layers of rows with places, as `tf.layers.dense` writes them, read the shape of what they get. Such
readers do not matter where all that is computed from the shape is read by the layers themselves.
"""

from __future__ import annotations

from typing import AbstractSet, Any, List, NamedTuple, Optional, Sequence, Set

from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.passes.repeated_rows.classify import Classifier

_ACTIVATIONS = frozenset(
    ["Elu", "LeakyRelu", "Relu", "Relu6", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh"]
)
_ADDS = frozenset(["Add", "AddV2", "BiasAdd"])
_PASS_ON = frozenset(["Identity", "Reshape", "Transpose"])
_MATRIX = 2


class LayerEnd(NamedTuple):
    """What follows a product.

    Attributes:
      bias: What is added; None for nothing.
      activation: The node that comes then; None for none.
      sum: The last tensor before it.
      result: The last tensor of all.
      sizes: Of its axes behind the rows: places and columns, or columns alone.
    """

    bias: Optional[TensorRef]
    activation: Optional[str]
    sum: TensorRef
    result: TensorRef
    sizes: Sequence[int]


class FollowingLayer(NamedTuple):
    """A layer of shared weights whose input is read by nothing else.

    Attributes:
      weights: [columns of the layer before, width].
      width: Its columns.
      end: What follows its product.
    """

    weights: TensorRef
    width: int
    end: LayerEnd


class FollowingLayers:
    """Finds what follows the products of a graph.

    Args:
      view: The graph.
      classifier: What is known of its nodes.
      fetched: Nodes that requests fetch.
    """

    def __init__(self, view: GraphView, classifier: Classifier, fetched: AbstractSet[str]) -> None:
        self._view = view
        self._classifier = classifier
        self._fetched = fetched

    def end(self, product: TensorRef, width: int, places: Optional[int]) -> LayerEnd:
        """The bias and the activation behind a product.

        Args:
          product: [rows, width], or [rows * places, width].
          width: How many columns it has.
          places: How many places each row has; None for a matrix.
        """
        view = self._view
        bias, result, sizes = None, product, [width]
        use = self._only_use(result)
        while use is not None and view.op(use.consumer) in ("Reshape", "Identity"):
            if use.slot or not self._keeps_columns(TensorRef(use.consumer, 0), width, places):
                return LayerEnd(None, None, result, result, sizes)
            result = TensorRef(use.consumer, 0)
            sizes = [size for size in (self._sizes(result) or ())[1:] if size is not None]
            use = self._only_use(result)
        if use is not None and view.op(use.consumer) in _ADDS and use.slot == 0:
            added = view.inputs(use.consumer)[1]
            if self._is_shared(added) and self._classifier.shape(added) == (width,):
                bias, result = added, TensorRef(use.consumer, 0)
                use = self._only_use(result)
        if use is not None and view.op(use.consumer) in _ACTIVATIONS:
            activated = TensorRef(use.consumer, 0)
            return LayerEnd(bias, use.consumer, result, activated, sizes)
        return LayerEnd(bias, None, result, result, sizes)

    def after(self, tensor: TensorRef, width: int, places: int) -> Optional[FollowingLayer]:
        """The layer that alone reads a tensor [rows, places, width], or [rows * places, width]."""
        view = self._view
        passed = self._passed_on(tensor, width, places)
        source = TensorRef(passed[-1], 0) if passed else tensor
        use = self._only_use(source) if passed else self._use_beside_shapes(tensor)
        if use is None or use.slot or view.op(use.consumer) != "MatMul":
            return None
        weights = view.inputs(use.consumer)[1]
        shape = self._classifier.shape(weights)
        flipped = [view.attribute(use.consumer, key) for key in ("transpose_a", "transpose_b")]
        if any(key is not None and key.b for key in flipped) or not self._is_shared(weights):
            return None
        if shape is None or len(shape) != _MATRIX or shape[0] != width or not shape[1]:
            return None
        product = TensorRef(use.consumer, 0)
        end = self.end(product, shape[1], places)
        readers = {*passed, *self._between(product, end.sum)}
        return FollowingLayer(weights, shape[1], end) if self._goes(tensor, readers) else None

    def _passed_on(self, tensor: TensorRef, width: int, places: int) -> List[str]:
        """The nodes that alone pass on a tensor, in order, as rows or as rows and places."""
        view = self._view
        passed: List[str] = []
        use = self._use_beside_shapes(tensor)
        while use is not None and view.op(use.consumer) in _PASS_ON and use.slot == 0:
            result, others = TensorRef(use.consumer, 0), view.inputs(use.consumer)[1:]
            if not self._keeps_columns(result, width, places) or not self._keeps_order(result):
                break
            if any(view.controls(each.node) for each in others):
                break
            passed.append(use.consumer)
            use = self._only_use(result)
        return passed

    def _between(self, first: TensorRef, last: TensorRef) -> Set[str]:
        """The nodes of a chain behind its first."""
        found: Set[str] = set()
        while last != first:
            found.add(last.node)
            last = self._view.inputs(last.node)[0]
        return found

    def _goes(self, tensor: TensorRef, readers: AbstractSet[str]) -> bool:
        """Whether all that is computed from a tensor's shape is read by these nodes alone."""
        view = self._view
        waiting: List[str] = self._shapes_of(tensor)
        seen: Set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen or name in readers:
                continue
            seen.add(name)
            if name in self._fetched or view.control_uses(name) or view.controls(name):
                return False
            if self._classifier.numbers(TensorRef(name, 0)) is None:
                return False
            waiting += [use.consumer for _, use in view.node_uses(name)]
        return True

    def _shapes_of(self, tensor: TensorRef) -> List[str]:
        uses = self._view.uses(tensor)
        return [use.consumer for use in uses if self._view.op(use.consumer) == "Shape"]

    def _is_shared(self, tensor: TensorRef) -> bool:
        value = self._classifier.value(tensor)
        return value is not None and value.shared

    def _keeps_columns(self, tensor: TensorRef, width: int, places: Optional[int]) -> bool:
        """Whether a node gives rows, or rows and places, of as many columns as it gets."""
        sizes = self._sizes(tensor)
        return sizes is not None and sizes[1:] in ([width], [places, width])

    def _sizes(self, tensor: TensorRef) -> Optional[List[Any]]:
        """A shape, which for a Reshape may follow from the numbers that it reads."""
        shape = self._classifier.shape(tensor)
        if self._view.op(tensor.node) == "Reshape" and (shape is None or None in shape[1:]):
            target = self._classifier.numbers(self._view.inputs(tensor.node)[1])
            return None if target is None else list(target.reshape(-1))
        return None if shape is None else list(shape)

    def _keeps_order(self, tensor: TensorRef) -> bool:
        """Whether a node is no Transpose, or one that changes nothing."""
        if self._view.op(tensor.node) != "Transpose":
            return True
        order = self._classifier.numbers(self._view.inputs(tensor.node)[1])
        return order is not None and list(order) == list(range(len(order)))

    def _only_use(self, tensor: TensorRef) -> Optional[Use]:
        return self._single(tensor, self._view.uses(tensor))

    def _use_beside_shapes(self, tensor: TensorRef) -> Optional[Use]:
        """The only use of a tensor that needs more than its shape."""
        shapes = self._shapes_of(tensor)
        uses = [use for use in self._view.uses(tensor) if use.consumer not in shapes]
        return self._single(tensor, uses)

    def _single(self, tensor: TensorRef, uses: Sequence[Use]) -> Optional[Use]:
        if len(uses) != 1 or tensor.node in self._fetched:
            return None
        waits = [*self._view.controls(uses[0].consumer), *self._view.control_uses(tensor.node)]
        return None if waits else uses[0]
