"""Tells TensorFlow which ops have gradients, and which functions compute them."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.ops.group_gradients import differentiate

_DIFFERENTIABLE = ("GroupEmbeddingLookup", "ResourceGroupEmbeddingLookup")
_NOT_DIFFERENTIABLE = (
    "TensorBufferPut",
    "TensorBufferTake",
    "TensorBufferCancel",
    "TensorBufferClose",
    "TensorBufferSize",
    "TensorBufferMetrics",
    "GroupEmbeddingGrad",
    "GroupEmbeddingWeightsGrad",
    "ResourceGroupEmbeddingWeightsGrad",
    "GroupEmbeddingApply",
    "ResourceGroupEmbeddingApply",
    "GroupEmbeddingBringToDate",
    "ResourceGroupEmbeddingBringToDate",
    "GroupEmbeddingBringPackedToDate",
    "ResourceGroupEmbeddingBringPackedToDate",
    "GroupEmbeddingBringAllToDate",
    "ResourceGroupEmbeddingBringAllToDate",
    "GroupEmbeddingPrepare",
    "GroupEmbeddingPackGradients",
    "GroupEmbeddingApplyPacked",
    "ResourceGroupEmbeddingApplyPacked",
    "GraphOptLoaded",
)

for _op_type in _DIFFERENTIABLE:
    tf.RegisterGradient(_op_type)(differentiate)
for _op_type in _NOT_DIFFERENTIABLE:
    tf.no_gradient(_op_type)
