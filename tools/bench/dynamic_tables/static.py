"""Our own static tables, whose ids are row numbers: resource variables in fused lookups."""

from __future__ import annotations

import contextlib
from typing import Iterator

import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.dynamic_tables.passes import (
    MOST_ROWS_WITH_ADAM,
    labelled_runs,
    runs_in_session,
    trained,
)
from tools.bench.group_lookup_batches import Batches, tables_of
from tools.bench.group_lookup_cases import Size
from tools.bench.group_lookup_server import Prepared

LABEL = "static"


@contextlib.contextmanager
def prepared(size: Size) -> Iterator[Prepared]:
    """All passes but inserts, of which there are none."""
    with tf.Graph().as_default():
        batches = Batches(size)
        tables = tables_of(size, True, "adagrad")
        if size.rows <= MOST_ROWS_WITH_ADAM:
            tables += tables_of(size, True, "adam")
        ops = trained(batches, tables, batches.sparse_ids())
        with runs_in_session(lambda session: None) as session:
            runs = labelled_runs(session, batches, LABEL, ops)
            chosen = graph_opt.instruction_set(size.dimension)
            yield Prepared(lambda ids: batches.load(session, ids), runs, {}, chosen)
