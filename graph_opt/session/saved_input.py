"""What a session says of checkpoints that hold the position of an input which stages read ahead.

`tf.data.experimental.make_saveable_from_iterator` saves where the iterator is. That is not the
batch which main trains next: those between are held by the stages, and no checkpoint has them.
"""

from __future__ import annotations

from typing import Any, Set

from graph_opt.reporting.stderr import say_for_all_ranks
from graph_opt.session.stage_reach import StageReach

_AHEAD = (
    "the position of iterator '{}' is saved as stage '{}' has it, which reads ahead of the step: "
    "training that resumes there skips the batches that were read and not yet trained. To resume "
    "at the exact batch, train in a session without do_async_embedding, do_smart_stage and "
    "graph_opt.staged"
)


class SavedInput:
    """Says so once, before a step that saves such a position.

    Args:
      reach: The stages of the session's graph.
    """

    def __init__(self, reach: StageReach) -> None:
        self._reach = reach
        self._said = False

    def before_step(self, session: Any, reached: Set[Any]) -> None:
        """Looks at a step that the session has not run before.

        Args:
          session: The session.
          reached: `operations_behind` the step.
        """
        iterator, stage = ("", "") if self._said else self._reach.saved_iterator(reached)
        if iterator:
            self._said = True
            say_for_all_ranks(_AHEAD.format(iterator, stage))
