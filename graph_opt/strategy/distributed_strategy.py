"""`tf.config.experimental.enable_distributed_strategy`: what group lookups do with their tables."""

from __future__ import annotations

from typing import Callable, List

from graph_opt.compat.embedding_columns import see_tables_of_columns
from graph_opt.embedding.marked_tables import is_to_be_sharded, mark_lookups
from graph_opt.reporting.stderr import say
from graph_opt.sharding.transport_in_use import transport_or_init
from graph_opt.strategy import data_parallel

COLLECTIVE = "collective"
LOCALIZED = "localized"
PARAMETER_SERVER = "parameter_server"
STRATEGIES = (COLLECTIVE, LOCALIZED, PARAMETER_SERVER)

_undo: List[Callable[[], None]] = []


def enable_distributed_strategy(strategy: str = COLLECTIVE) -> None:
    """Chooses how the models that the script builds from now on are trained.

    - `collective`: on all ranks alike. Sessions divide the tables of group lookups
      (`tf.nn.group_embedding_lookup_sparse` and the like) and of all embedding columns among the
      ranks, and look up all of them in one exchange; optimizers of `tf.train` apply the average of
      all ranks' gradients. Horovod is initialized if the script has not done so. With one rank: as
      `localized`.
    - `localized`: in one process, where all tables on a device are looked up by one op. So it is if
      this function is never called.
    - `parameter_server`: the same, with the tables where their devices say; `do_group_embedding`
      packs what servers are asked.

    Args:
      strategy: One of these.

    Raises:
      ValueError: There is no such strategy.
      ImportError: A launcher has started several ranks, but Horovod is not installed.

    Example:
      >>> tf.config.experimental.enable_distributed_strategy("collective")
    """
    if strategy not in STRATEGIES:
        raise ValueError(
            "strategy is {!r}; choose one of {}".format(strategy, ", ".join(STRATEGIES))
        )
    several = strategy == COLLECTIVE and transport_or_init().size > 1
    if strategy == COLLECTIVE and not several:
        say("the strategy 'collective' has one rank: tables stay whole")
    while _undo:
        _undo.pop()()
    if several:
        mark_lookups(True)
        data_parallel.begin()
        _undo.extend([lambda: mark_lookups(False), data_parallel.end])
        _undo.append(see_tables_of_columns(is_to_be_sharded))


def enable_group_embedding(fusion_type: str = LOCALIZED) -> None:
    """The older name of `enable_distributed_strategy`.

    Args:
      fusion_type: Its strategy.

    Raises:
      ValueError: There is no such strategy.

    Example:
      >>> tf.config.experimental.enable_group_embedding(fusion_type="collective")
    """
    enable_distributed_strategy(fusion_type)


def leave_strategy() -> None:
    """Ends the strategy that was chosen."""
    enable_distributed_strategy(LOCALIZED)
