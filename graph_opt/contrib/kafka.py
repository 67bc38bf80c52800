"""`tf.contrib.kafka`, and DeepRec's `KafkaDataset`: names that say what to use."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.contrib.files import missing_from

_INSTEAD = (
    "tensorflow_io's tfio.experimental.streaming.KafkaGroupIODataset, or "
    "tf.data.Dataset.from_generator over a consumer of a Python client for Kafka"
)


class KafkaDataset:
    """Not supported: neither TensorFlow 2.15 nor graph_opt has a client for Kafka.

    Args:
      topics: As in DeepRec, as for the others.
      servers: As there.
      group: As there.
      eof: As there.
      timeout: As there.
      **others: As there.

    Raises:
      tf.errors.UnimplementedError: Always; it says what to use.
    """

    def __init__(
        self,
        topics: Any,
        servers: Any = "localhost",
        group: Any = "",
        eof: Any = False,
        timeout: Any = 1000,
        **others: Any,
    ) -> None:
        raise tf.errors.UnimplementedError(
            None,
            None,
            "KafkaDataset: graph_opt has no client for Kafka; use {}".format(_INSTEAD),
        )


__getattr__ = missing_from(__name__, {"*": "tensorflow_io"})
