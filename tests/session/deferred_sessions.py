"""Sessions whose updates are deferred, for tests."""

from __future__ import annotations

from typing import Any

import graph_opt
from tests.session.small_model import report_on


def fused_config(prefetch: bool = False) -> Any:
    """A config that asks for fused updates, and for prefetching if wanted."""
    config = graph_opt.ConfigProto(intra_op_parallelism_threads=2, inter_op_parallelism_threads=2)
    options = config.graph_options.optimizer_options
    options.do_group_embedding = True
    options.do_async_embedding = prefetch
    if prefetch:
        options.async_embedding_options.threads_num = 1
        options.async_embedding_options.capacity = 2
        options.async_embedding_options.infer_io_stage = True
    return config


def assert_deferred(graph: Any) -> None:
    """Asserts that the updates of all tables of a graph are fused, and deferred."""
    report = report_on(graph)
    assert {lookup.update for lookup in report.fused_lookups} == {"deferred"}, str(report)
    updates = [each for each in graph.get_operations() if "GroupEmbeddingApply" in each.type]
    assert updates and all(each.get_attr("row_states") for each in updates)
