"""The one way to report that something is left unchanged, and why."""

from __future__ import annotations

from typing import Dict


class Refusal(Exception):
    """Why a pass leaves a lookup or a whole graph unchanged.

    Attributes:
      code: Stable snake_case code; `docs/refusals.md` has a row for each.
      node: Name of the node that is in the way.
      need: What would have been needed.
      saw: What was there instead.

    Example:
      >>> str(Refusal("placeholder_upstream", at="ids", need="a feed of the IO stage", saw="none"))
      'ids: placeholder_upstream: need a feed of the IO stage, saw none'
    """

    def __init__(self, code: str, *, at: str, need: str, saw: str) -> None:
        super().__init__("{}: {}: need {}, saw {}".format(at, code, need, saw))
        self.code = code
        self.node = at
        self.need = need
        self.saw = saw

    def to_dict(self) -> Dict[str, str]:
        """The four fields, for reports and JSON."""
        return {"code": self.code, "node": self.node, "need": self.need, "saw": self.saw}
