"""Which embedding layers do no more than look up rows, so that any rank's rows will do."""

from __future__ import annotations

from typing import Any, Dict

from graph_opt.compat import tf
from graph_opt.distributed_embeddings.embedding import Embedding


def looks_up_rows(kind: Any) -> bool:
    """Whether a class of layers is an `Embedding`, of Keras or ours, that calls it unchanged."""
    stock = tf.keras.layers.Embedding
    calls = [one.call for one in (Embedding, stock)]
    return issubclass(kind, (Embedding, stock)) and getattr(kind, "call", None) in calls


def table_dtype(config: Dict[str, Any]) -> Any:
    """Dtype of the table of an embedding layer, from its config."""
    dtype = config.get("dtype") or tf.float32
    if isinstance(dtype, dict):
        dtype = dtype["config"]["name"]
    return tf.as_dtype(tf.float32 if str(dtype).startswith("mixed_") else dtype)
