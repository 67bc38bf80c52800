"""What a pass that makes a stage changed, with short names, and without what only ends a stage."""

from __future__ import annotations

from typing import Dict, List

from tests.passes.one_pass import Passed

SHORT: Dict[str, str] = {
    "async_embedding_1_io/": "io1/",
    "async_embedding_io/": "io/",
    "async_embedding_1/": "B/",
    "async_embedding/": "A/",
    "smart_stage_io/": "io/",
    "smart_stage/": "A/",
    "gradients/": "g/",
    "TensorBuffer": "",
    "embedding_lookup": "emb",
}
_ENDS = ("Const(", "Placeholder", "Status", "Cancel", "Resume", "Close", "Size(", "Metrics")


def stage_drawn(passed: Passed) -> List[str]:
    """The lines."""
    return [line for line in passed.drawn(SHORT) if not any(end in line for end in _ENDS)]
