"""How charts and tables show models and modes of training."""

from __future__ import annotations

from typing import Dict

from tools.bench.training.sessions import ASYNC, BOTH, FUSED, PIPELINED, RETURNED, STOCK

WORKLOADS = {"wide": "wide", "dlrm": "DLRM"}
# They stand out from white and from black.
COLOURS: Dict[str, str] = {
    STOCK: "#8c959f",
    ASYNC: "#bf8700",
    FUSED: "#2da44e",
    BOTH: "#218bff",
    RETURNED: "#1b7c83",
    PIPELINED: "#a475f9",
}
FLOOR_COLOUR = "#cf222e"
