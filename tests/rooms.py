"""The rooms of the package: which may import which."""

from __future__ import annotations

from typing import Dict, FrozenSet

# Which room may import which; docs/architecture-rooms.md shows this table. Every room may import
# `compat` and itself; an entry with a dot allows a single module of a room.
MAY_IMPORT: Dict[str, FrozenSet[str]] = {
    "compat": frozenset(),
    "config": frozenset({"ops.stage_spec"}),
    "ops": frozenset({"launch.other_checkouts", "launch.op_libraries"}),
    "graph": frozenset(),
    "rules": frozenset({"graph", "ops.optimizers", "table_files.low_precision_names"}),
    "reporting": frozenset(),
    "passes": frozenset(
        {"rules", "graph", "config", "reporting", "ops.stage_nodes", "ops.stage_spec"}
        | {"ops.library", "ops.optimizers", "ops.deferred_rows", "ops.message_names"}
        | {"ops.served_variables", "ops.stage_threads"}
        | {"sharding.placement"}
    ),
    "export": frozenset({"graph", "ops", "reporting"}),
    "runtime": frozenset({"ops", "export", "reporting"}),
    "embedding": frozenset({"ops", "export", "reporting.warnings_given"}),
    "saved_models": frozenset({"graph"}),
    "inspect": frozenset(
        {"passes", "graph", "reporting", "saved_models", "ops.library", "rules.op_names"}
        | {"rules.frozen_tables"}
    ),
    "serving": frozenset(
        {"passes", "inspect", "saved_models", "graph", "config", "reporting", "ops.library"}
        | {"rules.parsed_examples", "table_files"}
    ),
    "report_page": frozenset(
        {"passes", "rules", "graph", "reporting", "inspect.graph_files"}
        | {"ops.stage_nodes", "ops.stage_spec"}
    ),
    "cost": frozenset(
        {"passes", "rules", "graph", "config", "reporting", "inspect.shapes", "ops.library"}
        | {"report_page.feature_names", "report_page.id_sources"}
        | {"ops.stage_nodes", "ops.stage_spec"}
    ),
    "session": frozenset(
        {"passes", "runtime", "config", "graph", "reporting", "inspect.dump", "embedding"}
        | {"export", "ops.packed_embedding", "ops.library", "sharding", "strategy"}
        | {"contrib", "dynamic", "embedding_variable", "ops.late_threads", "optimizers"}
        | {"ops.masters", "ops.late_training"}
        | {"report_page", "cost", "input.read_ahead", "input.bad_rows", "rules.op_names"}
    ),
    "cli": frozenset(
        {"session", "inspect", "passes", "config", "reporting", "sharding.store", "conversion"}
        | {"table_files.format", "table_files.layouts", "table_files.tables"}
        | {"table_files.low_precision_names"}
        | {"graph.collection", "graph.shared_views"}
        | {"launch", "checking", "report_page", "cost", "serving", "saved_models"}
        | {"ops.library", "ops.instruction_set"}
    ),
    "checking": frozenset(
        {"session", "runtime", "config", "graph", "reporting", "passes.io_stages"}
    ),
    "launch": frozenset(),
    "contrib": frozenset({"optimizers"}),
    "conversion": frozenset({"table_files"}),
    "table_files": frozenset({"sharding.placement"}),
    "train": frozenset({"session", "runtime", "optimizers", "dynamic"}),
    "optimizers": frozenset({"ops"}),
    "sharding": frozenset(
        {"ops", "export", "config", "graph.operations", "embedding.lookup_ids", "reporting.stderr"}
        | {"embedding.lookup_builders", "embedding.tables", "table_files"}
        | {"reporting.warnings_given", "reporting.tables", "graph.control_flow_ops"}
    ),
    "sok": frozenset(
        {
            "dynamic",
            "sharding",
            "table_files",
            "ops",
            "embedding.lookup_ids",
            "embedding.lookup_builders",
        }
        | {"reporting.stderr"}
    ),
    "strategy": frozenset(
        {"sharding", "table_files", "embedding", "graph.operations", "reporting.stderr"}
        | {"saved_models.files"}
    ),
    "dynamic": frozenset(
        {"ops", "export", "sharding", "embedding.lookup_ids", "embedding.lookup_builders"}
        | {"reporting.stderr", "table_files.dynamic_tensors"}
    ),
    "embedding_variable": frozenset(
        {"dynamic", "embedding", "ops", "reporting.stderr", "reporting.warnings_given"}
    ),
    "input": frozenset({"reporting.warnings_given"}),
    "distributed_embeddings": frozenset(
        {"sharding", "table_files", "ops", "export", "embedding", "reporting.stderr"}
    ),
}
