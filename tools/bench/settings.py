"""The options that the benchmarks run graph_opt with."""

from __future__ import annotations

from typing import Any

import graph_opt

THREADS = 1
CAPACITY = 2


def async_config(threads: int = THREADS, capacity: int = CAPACITY) -> Any:
    """Prefetched lookups, with an IO stage put where the model has none.

    Args:
        threads: threads that run lookups.
        capacity: batches held ready.
    """
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.do_async_embedding = True
    options = config.graph_options.optimizer_options.async_embedding_options
    options.threads_num = threads
    options.capacity = capacity
    options.infer_io_stage = True
    return config
