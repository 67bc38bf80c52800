"""What all ranks have restored before their first step, of which rank 0 tells the others.

Not through the store: whoever writes there could have ranks read any checkpoint into their tables.
"""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional


class RestoredAgreement:
    """Collects on rank 0 what each rank says.

    Args:
      size: Number of ranks.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._changed = threading.Condition()
        self._said: Dict[Optional[int], Dict[int, Any]] = {}

    def say(
        self, session: Optional[int], rank: int, plain: Any, seconds: float
    ) -> Optional[List[Any]]:
        """Takes what a rank says.

        Args:
          session: Number of the session that has restored it.
          rank: The rank.
          plain: What it says, as JSON.
          seconds: How long to wait for the others.

        Returns:
          What all have said, by rank; None if one has said nothing by then.
        """
        if not 0 <= rank < self._size:
            raise ValueError("rank {} of {} ranks".format(rank, self._size))
        with self._changed:
            said = self._said.setdefault(session, {})
            said[rank] = plain
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: len(said) == self._size, seconds):
                return None
            return [said[one] for one in range(self._size)]
