"""Attributes of ops that a stage's own threads run, where a session would run them on main's.

So it is on servers, and in stage pools of which a config says how many threads an op has. The
kernels are asynchronous ones (`ops_src/kernels/threads/stage_kernel.h`), which hand their work to
threads of the stage (`ops_src/threads/stage_pool.h`).
"""

from __future__ import annotations

from typing import Any, Dict

from graph_opt.compat import tf
from graph_opt.ops.stage_spec import StageSpec

# The ops that have such a kernel.
OPS = frozenset(
    [
        "GroupEmbeddingLookup",
        "ResourceGroupEmbeddingLookup",
        "GroupEmbeddingPrepare",
        "GroupEmbeddingCombine",
    ]
)

_KERNEL = "_kernel"


def has_stage_threads(node: Any) -> bool:
    """Whether a NodeDef has these attributes."""
    return node.op in OPS and _KERNEL in node.attr


def stage_threads(spec: StageSpec, in_cluster: bool) -> Dict[str, Any]:
    """AttrValues of a node of a stage; empty if the session's threads are to run it.

    Args:
      spec: The stage.
      in_cluster: Whether the node is placed on a task of a cluster. These threads then have the
        stage's priority while its buffer holds a batch, unless it has a thread pool; elsewhere the
        threads that run its steps yield themselves.
    """
    priority = spec.priority if in_cluster and spec.thread_pool < 0 else 0
    if priority <= 0 and not spec.intra_op_threads:
        return {}
    return {
        _KERNEL: tf.AttrValue(s=b"stage_pool"),
        "_stage_buffer": tf.AttrValue(s=spec.name.encode("utf-8")),
        "_stage_pool_threads": tf.AttrValue(i=spec.intra_op_threads or spec.threads_num),
        "_stage_pool_priority": tf.AttrValue(i=max(priority, 0)),
        "_stage_pool_asked_for": tf.AttrValue(b=spec.intra_op_threads > 0),
    }
