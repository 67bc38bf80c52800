"""How many updates rows may miss that are looked up ahead."""

from __future__ import annotations

from typing import Optional

from graph_opt.config.options import AsyncEmbeddingOptions, SessionOptions
from graph_opt.passes.prefetch.exact.exact_tables import ExactTables
from graph_opt.rules.lookup import Lookup

_TUNED_MOST = 16  # updates: a tuned stage has at most 8 threads, and room for 8 batches


def most_missed(options: AsyncEmbeddingOptions) -> int:
    """The most updates that a row can miss which is read ahead and not refreshed."""
    fixed = max(options.threads_num, 0) + max(options.capacity, 0)
    return fixed + (_TUNED_MOST if min(options.threads_num, options.capacity) < 0 else 0)


def most_missed_by(lookup: Lookup, exact: Optional[ExactTables], options: SessionOptions) -> int:
    """How many updates the rows of a lookup that runs ahead may miss when a step uses them."""
    wanted, pipelined = options.async_embedding, options.pipeline_dense
    assert wanted is not None
    most = most_missed(wanted) + (0 if pipelined is None else pipelined.staleness)
    names = [table.name for table in lookup.tables]
    bounded = {} if exact is None else exact.bounded
    return max((bounded.get(name, most) for name in names), default=most)
