"""How charts and tables show models and modes of training."""

from __future__ import annotations

from typing import Any, Dict

from tools.bench.training.sessions import ASYNC, BOTH, FUSED, PIPELINED, RETURNED, STOCK

GREY = "#8c959f"
WORKLOADS = {"wide": "wide", "dlrm": "DLRM"}
# They stand out from white and from black.
COLOURS: Dict[str, str] = {
    STOCK: GREY,
    ASYNC: "#bf8700",
    FUSED: "#2da44e",
    BOTH: "#218bff",
    RETURNED: "#1b7c83",
    PIPELINED: "#a475f9",
}
FLOOR_COLOUR = "#cf222e"


def without_frame(axis: Any) -> None:
    """Leaves of a panel's frame the two sides that have numbers."""
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color(GREY)
