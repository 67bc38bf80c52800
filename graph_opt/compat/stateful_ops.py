"""TensorFlow's stateful ops, by what their state is, and which of them draw from it."""

from __future__ import annotations

import re
from typing import Any, Iterable, List, Mapping, Set

from graph_opt.compat.op_definitions import is_stateful

VARIABLES = frozenset(["VariableV2", "Variable", "VarHandleOp", "TemporaryVariable"])
PLACEHOLDERS = frozenset(["Placeholder", "PlaceholderV2", "PlaceholderWithDefault"])
# Handles of state: everyone who has the handle works on the same object.
HANDLES = frozenset(
    [
        "HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2",
        "MutableHashTableOfTensors", "MutableHashTableOfTensorsV2", "MutableDenseHashTable",
        "MutableDenseHashTableV2", "AnonymousHashTable", "Iterator", "IteratorV2",
        "OneShotIterator", "AnonymousIteratorV3", "FIFOQueue", "FIFOQueueV2",
        "RandomShuffleQueue", "RandomShuffleQueueV2", "PaddingFIFOQueue", "PaddingFIFOQueueV2",
        "PriorityQueueV2", "KeyIndexHandleOp", "TFRA>CuckooHashTableOfTensors",
    ]
)  # fmt: skip
_READS = frozenset(
    [
        "ResourceGather", "ResourceGatherNd", "ReadVariableOp", "LookupTableFind",
        "LookupTableFindV2", "LookupTableSize", "LookupTableSizeV2", "VariableShape",
        "IsVariableInitialized", "VarIsInitializedOp", "ResourceGroupEmbeddingLookup",
        "ResourceGroupEmbeddingGather", "ResourceExchangeGather", "TFRA>CuckooHashTableFind",
        "TFRA>CuckooHashTableFindWithExists",
    ]
)  # fmt: skip
# They move rows to where a read finds them, and so draw on state only as that read does.
BRING_ROWS = frozenset(
    [
        "GroupEmbeddingCatchUp", "ResourceGroupEmbeddingCatchUp",
        "GroupEmbeddingCatchUpPacked", "ResourceGroupEmbeddingCatchUpPacked",
        "GroupEmbeddingCatchUpExchanged", "ResourceGroupEmbeddingCatchUpExchanged",
    ]
)  # fmt: skip
# It numbers keys that it has not seen, but a key has the same number whenever that was.
NUMBERS_KEYS = frozenset(["ResourceIntegerLookup"])
# They make rows for keys that they have not seen, but a key's initial row is the same whenever that
# was; and they count keys, each occurrence once, since a batch is looked up once.
FINDS_ROWS = frozenset(["DynamicTableLookup", "GroupDynamicRows"])
# It passes on what one rank asks of the others, and has no state of its own.
_REQUESTS = frozenset(["ExchangeRequests"])
# What it tells is compared with the same later; it reads no rows itself.
_LOGS = frozenset(["RowLogPosition", "StageServedRows", "UpdatedRowsPosition"])
READS = _READS | _LOGS | BRING_ROWS | NUMBERS_KEYS | FINDS_ROWS | _REQUESTS
# Tables that their initializer fills: a find gives the same whenever it runs.
CONSTANT_READS = frozenset(
    ["LookupTableFind", "LookupTableFindV2", "LookupTableSize", "LookupTableSizeV2"]
)
CONSTANT_HANDLES = frozenset(
    handle
    for handle in HANDLES
    if "Mutable" not in handle and handle != "KeyIndexHandleOp" and ">" not in handle
)
# Tables that steps may write, and what restores them from a checkpoint.
MUTABLE_HASH_TABLES = frozenset(handle for handle in HANDLES if handle.startswith("Mutable"))
HASH_TABLE_INSERTS = frozenset(["LookupTableInsert", "LookupTableInsertV2"])
HASH_TABLE_IMPORTS = frozenset(["LookupTableImport", "LookupTableImportV2"])
HASH_TABLE_EXPORTS = frozenset(["LookupTableExport", "LookupTableExportV2"])
# These act outside of the graph, once for each batch.
CALLS_PYTHON = frozenset(["PyFunc", "EagerPyFunc"])
ONCE_A_BATCH = CALLS_PYTHON.union(["Assert", "Print", "PrintV2"])
RANDOM = frozenset(
    [
        "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "RandomShuffle",
        "TruncatedNormal", "Multinomial", "ParameterizedTruncatedNormal", "RandomGamma",
        "RandomPoisson", "RandomPoissonV2", "LogUniformCandidateSampler",
        "UniformCandidateSampler", "FixedUnigramCandidateSampler",
    ]
)  # fmt: skip
# They call a function once at most, and here.
SINGLE_CALLS = frozenset(
    ["If", "StatelessIf", "PartitionedCall", "StatefulPartitionedCall", "Case", "StatelessCase"]
)
FUNCTION_CALLS = SINGLE_CALLS | {"While", "StatelessWhile", "For", "RemoteCall"}
# map_fn and loops make these anew in each step: no step sees those of another.
_OF_ONE_STEP = ("TensorArray", "Stack")
_DATASETS = re.compile(r"Dataset(V\d)?$")
_HARMLESS = VARIABLES | PLACEHOLDERS | HANDLES | READS | ONCE_A_BATCH


def may_draw(op: str) -> bool:
    """Whether nodes of this op may yield something else each time; `draws` examines a node."""
    if op in _HARMLESS or op.startswith(_OF_ONE_STEP):
        return False
    return op in FUNCTION_CALLS or is_stateful(op)


def draws(node: Any, functions: Mapping[str, Any]) -> bool:
    """Whether what a node yields depends on how often it ran: iterators, queues, seeded randomness.

    Random numbers without a seed differ each time anyway, and a `py_func` usually works on what
    something else drew: neither counts.

    Args:
      node: A NodeDef.
      functions: The graph's FunctionDefs by name, for nodes that call functions.
    """
    pending: List[Any] = [node]
    seen: Set[str] = set()
    while pending:
        each = pending.pop()
        if each.op in FUNCTION_CALLS:
            called = [name for name in called_functions([each]) if name not in seen]
            seen.update(called)
            for name in called:
                pending.extend(functions[name].node_def if name in functions else ())
        elif each.op in RANDOM:
            if each.attr["seed"].i or each.attr["seed2"].i:
                return True
        elif may_draw(each.op):
            return True
    return False


def functions_only_read(node: Any, functions: Mapping[str, Any]) -> bool:
    """Whether the functions that a node calls change no state.

    Args:
      node: A NodeDef.
      functions: The graph's FunctionDefs by name.
    """
    pending = called_functions([node])
    seen = set(pending)
    while pending:
        function = functions.get(pending.pop())
        if function is None:
            return False
        for inner in function.node_def:
            if not _only_reads(inner.op) and is_stateful(inner.op):
                return False
            fresh = [name for name in called_functions([inner]) if name not in seen]
            seen.update(fresh)
            pending.extend(fresh)
    return True


def _only_reads(op: str) -> bool:
    """Whether an op changes no state itself; those that make datasets have none of their own."""
    return op in READS or op in ONCE_A_BATCH or op in FUNCTION_CALLS or bool(_DATASETS.search(op))


def called_functions(nodes: Iterable[Any]) -> List[str]:
    """Names of the functions in the attributes of NodeDefs."""
    names: List[str] = []
    for node in nodes:
        for key in node.attr:
            value = node.attr[key]
            kind = value.WhichOneof("value")
            if kind == "func":
                names.append(value.func.name)
            if kind == "list":
                names.extend(function.name for function in value.list.func)
    return names
