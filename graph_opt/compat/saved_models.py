"""The message of a `saved_model.pb`, which TensorFlow does not name in its public API."""

from __future__ import annotations

from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

__all__ = ["SavedModel"]
