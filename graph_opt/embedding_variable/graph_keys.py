"""The names that DeepRec adds to `tf.GraphKeys`."""

from __future__ import annotations

from graph_opt.compat.graph_collections import export_as_names

# All EmbeddingVariables of a graph: the parts of those that are partitioned.
EMBEDDING_VARIABLES = "embedding_variables"
# Scripts run what is in these before they initialize variables; nothing needs to be.
EV_INIT_VAR_OPS = "ev_init_var_ops"
EV_INIT_SLOT_OPS = "ev_init_slot_ops"

GRAPH_KEYS = {
    "EMBEDDING_VARIABLES": EMBEDDING_VARIABLES,
    "EV_INIT_VAR_OPS": EV_INIT_VAR_OPS,
    "EV_INIT_SLOT_OPS": EV_INIT_SLOT_OPS,
}

export_as_names(EMBEDDING_VARIABLES)
