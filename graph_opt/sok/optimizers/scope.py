"""`OptimizerScope`, which scripts put around other optimizers' updates of tables."""

from __future__ import annotations

from typing import Any, Sequence


class OptimizerScope:
    """A block in which an optimizer of TensorFlow updates tables. They need no such block.

    Args:
      trainable_variables: The tables.

    Raises:
      ValueError: They are neither a list nor a tuple.

    Example:
      >>> with sok.OptimizerScope(tables):
      ...     optimizer.apply_gradients(zip(gradients, tables))
    """

    def __init__(self, trainable_variables: Sequence[Any]) -> None:
        if not isinstance(trainable_variables, (list, tuple)):
            raise ValueError(
                "trainable_variables is a {}; need a list or a tuple".format(
                    type(trainable_variables).__name__
                )
            )

    def __enter__(self) -> OptimizerScope:
        return self

    def __exit__(self, *error: Any) -> None:
        pass
