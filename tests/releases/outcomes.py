"""What becomes of the lookups in the graphs of each release, whichever release optimizes them.

All are found, fused with their gradients and updates, and run ahead, but for those listed here.
"""

from __future__ import annotations

from typing import Dict, NamedTuple

from graph_opt.compat.op_definitions import is_registered

TENSORFLOW_1 = "1.15.5"


class Totals(NamedTuple):
    """How many of a release's graphs and lookups are what."""

    graphs: int
    lookups: int
    fused: int
    ahead: int


# Two of 1.15's lookups, of scattered columns, hash strings by an op of tf.contrib: it is not known
# here whether that may run ahead.
TOTALS: Dict[str, Totals] = {
    TENSORFLOW_1: Totals(graphs=94, lookups=101, fused=93, ahead=99),
    "2.12.1": Totals(graphs=72, lookups=79, fused=73, ahead=79),
    "2.15.1": Totals(graphs=72, lookups=79, fused=73, ahead=79),
    "2.16.2": Totals(graphs=72, lookups=79, fused=73, ahead=79),
    "2.18.1": Totals(graphs=72, lookups=79, fused=73, ahead=79),
    "2.21.0": Totals(graphs=72, lookups=79, fused=73, ahead=79),
}
# Codes of what is not fused, by the model's name. Clipped rows are no release's to fuse.
_NOT_FUSED = {
    "embedding_lookup_max_norm": "rows_clipped",
    "sparse_mean_max_norm": "rows_clipped",
}
_NOT_FUSED_OF_TENSORFLOW_1 = {
    **_NOT_FUSED,
    "contrib_scattered": "rows_not_by_ids",
}
OPTIMIZERS = {
    "adam": "Adam",
    "descent": "GradientDescent",
    "ftrl": "Ftrl",
    "momentum": "Momentum",
    "rmsprop": "RMSProp",
}


def not_fused(release: str, name: str) -> str:
    """The code of why the lookups of a graph are not fused, '' if they are."""
    codes = _NOT_FUSED_OF_TENSORFLOW_1 if release == TENSORFLOW_1 else _NOT_FUSED
    return codes.get(name.partition(".")[0], "")


def not_ahead(name: str) -> str:
    """The code of why the lookups of a graph do not run ahead, '' if they do."""
    scattered = name.startswith("contrib_scattered.")
    return "unknown_op" if scattered and not is_registered("SparseFeatureCrossV2") else ""


def optimizer_of(name: str) -> str:
    """The optimizer of a graph."""
    return OPTIMIZERS.get(name.partition(".")[0], "Adagrad")
