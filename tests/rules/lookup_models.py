"""Small training graphs, one for each way to look up rows, with what a search must find.

They are built only with functions of `tensorflow.compat.v1`, which is passed in, so that each
release (`tests/releases/write_graphs.py`) can build the same models as the tests.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

EMBEDDING_LOOKUP = "tf.nn.embedding_lookup"
SPARSE = "tf.nn.embedding_lookup_sparse"
SAFE = "tf.nn.safe_embedding_lookup_sparse"
ROWS = 1000  # V
WIDTH = 8  # D


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a search must say about one lookup; `output` is a tensor's name."""

    api: str
    tables: Tuple[str, ...]
    output: str
    combiner: Optional[str] = None
    weighted: bool = False
    partition_strategy: Optional[str] = None
    max_norm: bool = False
    is_resource: bool = False


class Model:
    """A graph under construction: features from an iterator, tables, lookups, then training.

    Args:
      tf: `tensorflow.compat.v1`.
      resource: Whether tables are resource variables, if the API leaves the choice.
      partitions: Number of shards of each table; 1 for a table that is not partitioned.
      strategy: `mod` or `div`.
    """

    def __init__(
        self, tf: Any, resource: bool = False, partitions: int = 1, strategy: str = "mod"
    ) -> None:
        self.tf = tf
        self.resource = resource
        self.partitions = partitions
        self.strategy = strategy
        self.expected: List[Expected] = []
        self.outputs: List[Any] = []
        self._features: Dict[str, Any] = {}

    @property
    def partitioner(self) -> Any:
        """The partitioner of this model's tables, or None."""
        if self.partitions == 1:
            return None
        return self.tf.fixed_size_partitioner(self.partitions)

    def features(self) -> Dict[str, Any]:
        """One batch: dense and sparse ids, weights and strings, of one IteratorGetNext."""
        tf = self.tf
        if not self._features:
            types = {
                "indices": tf.int64,
                "values": tf.int64,
                "weights": tf.float32,
                "shape": tf.int64,
                "ids": tf.int64,
                "words": tf.string,
            }
            shapes = {
                "indices": [None, 2],
                "values": [None],
                "weights": [None],
                "shape": [2],
                "ids": [None, 3],
                "words": [None, 1],
            }
            iterator = tf.data.Iterator.from_structure(types, shapes)
            self._features = iterator.get_next()
        return self._features

    def share_features(self, other: Model) -> None:
        """Uses the batch of another model instead of its own."""
        self._features = other.features()

    def sparse_ids(self) -> Any:
        """SparseTensor of ids, [B, longest row]."""
        features = self.features()
        return self.tf.SparseTensor(features["indices"], features["values"], features["shape"])

    def sparse_words(self) -> Any:
        """The same ids as strings."""
        features = self.features()
        words = self.tf.as_string(features["values"])
        return self.tf.SparseTensor(features["indices"], words, features["shape"])

    def sparse_weights(self) -> Any:
        """Weights with the indices of `sparse_ids`."""
        features = self.features()
        return self.tf.SparseTensor(features["indices"], features["weights"], features["shape"])

    def table(self, name: str = "table", shape: Sequence[int] = (ROWS, WIDTH)) -> Any:
        """A table, of the kind that this model uses."""
        return self.tf.get_variable(
            name, list(shape), use_resource=self.resource, partitioner=self.partitioner
        )

    def shards(self, name: str = "table") -> Tuple[str, ...]:
        """Names of the variable ops of a table."""
        if self.partitions == 1:
            return (name,)
        return tuple("{}/part_{}".format(name, number) for number in range(self.partitions))

    def expect(
        self,
        output: Any,
        api: str,
        table: str = "table",
        before: Sequence[str] = (),
        resource: Optional[bool] = None,
        **facts: Any,
    ) -> None:
        """Records that `output` is a lookup's output, possibly followed by the ops in `before`.

        Args:
          output: What the API returned; it is trained on.
          api: The lookup that must be recognised.
          table: Name of the variable.
          before: Op types to follow upstream through first inputs, from what the API returned.
          resource: Whether the table is a resource variable, if the API determines that.
          facts: Further fields of `Expected`.
        """
        self.outputs.append(output)
        found = output
        for op in before:
            assert found.op.type == op, (found.op.type, op)
            found = found.op.inputs[0]
        if self.partitions > 1:
            facts.setdefault("partition_strategy", self.strategy)
        self.expected.append(
            Expected(
                api=api,
                tables=self.shards(table),
                output=found.name,
                is_resource=self.resource if resource is None else resource,
                **facts,
            )
        )

    def train(self, optimizer: Any = None) -> None:
        """Adds a dense layer, a loss and an optimizer with its gradients.

        Args:
          optimizer: Adagrad if None.
        """
        tf = self.tf
        flat = [
            tf.reshape(tensor, [tf.shape(self.features()["ids"])[0], -1])[:, :1]
            for tensor in self.outputs
        ]
        layer = tf.get_variable("layer", [len(flat), 4], use_resource=self.resource)
        loss = tf.reduce_mean(tf.nn.relu(tf.matmul(tf.concat(flat, 1), layer)))
        (optimizer or tf.train.AdagradOptimizer(0.1)).minimize(loss)


def embedding_lookup(model: Model) -> None:
    """`tf.nn.embedding_lookup` of 2-D ids."""
    rows = model.tf.nn.embedding_lookup(
        model.table(), model.features()["ids"], partition_strategy=model.strategy
    )
    model.expect(rows, EMBEDDING_LOOKUP)


def embedding_lookup_max_norm(model: Model) -> None:
    """The same function, with rows clipped."""
    rows = model.tf.nn.embedding_lookup(
        model.table(),
        model.features()["ids"],
        partition_strategy=model.strategy,
        max_norm=1.0,
    )
    model.expect(rows, EMBEDDING_LOOKUP, max_norm=True)


def _sparse(combiner: str, weighted: bool, max_norm: Optional[float]) -> Callable[[Model], None]:
    def build(model: Model) -> None:
        combined = model.tf.nn.embedding_lookup_sparse(
            model.table(),
            model.sparse_ids(),
            model.sparse_weights() if weighted else None,
            partition_strategy=model.strategy,
            combiner=combiner,
            max_norm=max_norm,
        )
        model.expect(
            combined, SPARSE, combiner=combiner, weighted=weighted, max_norm=bool(max_norm)
        )

    return build


def _safe(
    combiner: str, weighted: bool = False, default_id: Optional[int] = None
) -> Callable[[Model], None]:
    def build(model: Model) -> None:
        combined = model.tf.nn.safe_embedding_lookup_sparse(
            model.table(),
            model.sparse_ids(),
            model.sparse_weights() if weighted else None,
            combiner=combiner,
            default_id=default_id,
            partition_strategy=model.strategy,
        )
        model.expect(combined, SAFE, combiner=combiner, weighted=weighted)

    return build


def shared_ids(model: Model) -> None:
    """Two tables looked up with the same ids, one of them twice."""
    tf = model.tf
    first, second = model.table("first"), model.table("second")
    ids = model.features()["ids"]
    for table, name in ((first, "first"), (second, "second"), (first, "first")):
        rows = tf.nn.embedding_lookup(table, ids, partition_strategy=model.strategy)
        model.expect(rows, EMBEDDING_LOOKUP, table=name)


# Models whose table may be a ref or resource variable, partitioned or not.
CORE_MODELS: Dict[str, Callable[[Model], None]] = {
    "embedding_lookup": embedding_lookup,
    "embedding_lookup_max_norm": embedding_lookup_max_norm,
    "sparse_mean": _sparse("mean", False, None),
    "sparse_sum": _sparse("sum", False, None),
    "sparse_sqrtn": _sparse("sqrtn", False, None),
    "sparse_mean_max_norm": _sparse("mean", False, 1.0),
    "sparse_weighted_mean": _sparse("mean", True, None),
    "sparse_weighted_sum": _sparse("sum", True, None),
    "sparse_weighted_sqrtn": _sparse("sqrtn", True, None),
    "safe_mean": _safe("mean"),
    "safe_sum": _safe("sum"),
    "safe_default_id": _safe("mean", default_id=3),
    "safe_weighted_mean": _safe("mean", weighted=True),
    "safe_weighted_sum": _safe("sum", weighted=True),
    "shared_ids": shared_ids,
}
