"""Tells TensorFlow which ops have gradients, and which functions compute them."""

from __future__ import annotations

from typing import Any, NoReturn

from graph_opt.compat import tf
from graph_opt.compat.exchange_sums import EXCHANGE_SUMS
from graph_opt.compat.stateful_ops import BRING_ROWS
from graph_opt.ops.all_to_all import differentiate_all_to_all
from graph_opt.ops.dynamic_table import differentiate_lookup
from graph_opt.ops.exchange_gradients import differentiate_combine, differentiate_gather
from graph_opt.ops.group_gradients import differentiate
from graph_opt.ops.late_training import no_gradient
from graph_opt.ops.message_names import ALL_TO_ALL
from graph_opt.ops.sent_messages import PREPARE, REQUESTS
from graph_opt.ops.stage_nodes import BUFFER_PUT, BUFFER_TAKE, CONTROLS

_DIFFERENTIABLE = {
    "GroupEmbeddingLookup": differentiate,
    "ResourceGroupEmbeddingLookup": differentiate,
    "ExchangeGather": differentiate_gather,
    "ResourceExchangeGather": differentiate_gather,
    "ExchangeCombine": differentiate_combine,
    ALL_TO_ALL: differentiate_all_to_all,
    "DynamicTableLookup": differentiate_lookup,
    "DynamicTableLookupAndEvict": differentiate_lookup,
}
_NOT_DIFFERENTIABLE = (
    BUFFER_PUT,
    BUFFER_TAKE,
    *CONTROLS,
    "GroupEmbeddingGrad",
    "GroupEmbeddingWeightsGrad",
    "ResourceGroupEmbeddingWeightsGrad",
    "GroupEmbeddingApply",
    "ResourceGroupEmbeddingApply",
    *sorted(BRING_ROWS),
    "GroupEmbeddingCatchUpAll",
    "ResourceGroupEmbeddingCatchUpAll",
    "GroupEmbeddingInitialRows",
    PREPARE,
    "GroupEmbeddingPackGradients",
    "GroupEmbeddingApplyPacked",
    "ResourceGroupEmbeddingApplyPacked",
    REQUESTS,
    EXCHANGE_SUMS,
    "ExchangeApply",
    "ResourceExchangeApply",
    "ExchangeCombineGrad",
    "ExchangeCombineWeightsGrad",
    "GroupDynamicRows",
    "DynamicTableInitialize",
    "DynamicTableIsInitialized",
    "DynamicTableDestroy",
    "DynamicTableSlotInitialize",
    "DynamicTableApply",
    "DynamicTableSetStep",
    "DynamicTableExport",
    "DynamicTableRowsSince",
    "DynamicTableExportFiltered",
    "DynamicTableImport",
    "DynamicTableImportFiltered",
    "DynamicTableAssign",
    "DynamicTableErase",
    "DynamicTableSize",
    "DynamicTableMetadata",
    "DynamicTableEvict",
    "DynamicTableCompact",
    "DynamicTableEndEpoch",
    "DynamicTableMetrics",
    "GraphOptLoaded",
    "GraphOptLibrary",
)
# Passes write these, to get rows from servers or read them again, once the gradients are there.
_OF_REWRITTEN_GRAPHS = (
    "GroupEmbeddingRefresh",
    "ResourceGroupEmbeddingRefresh",
    "GroupEmbeddingRefreshPacked",
    "GroupEmbeddingGather",
    "ResourceGroupEmbeddingGather",
    "GroupEmbeddingCombine",
    "ExchangeRefresh",
)


def _refuse(operation: Any, *gradients: Any) -> NoReturn:
    raise LookupError(no_gradient(operation.name, operation.type))


for _op_type, _differentiate in _DIFFERENTIABLE.items():
    tf.RegisterGradient(_op_type)(_differentiate)
for _op_type in _NOT_DIFFERENTIABLE:
    tf.no_gradient(_op_type)
for _op_type in _OF_REWRITTEN_GRAPHS:
    tf.RegisterGradient(_op_type)(_refuse)
