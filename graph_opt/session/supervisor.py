"""A prefetching `tf.train.Supervisor`, the predecessor of monitored sessions in TF1 scripts."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.config import to_stock
from graph_opt.session.installed_config import checked_options, effective_config
from graph_opt.session.optimization import optimize_training_graph
from graph_opt.session.session import adopt_session


class Supervisor(tf.train.Supervisor):
    """A `tf.train.Supervisor` that prefetches while graph_opt is installed with a config.

    A Supervisor finalizes its graph before it learns the session's config, so only the config given
    to `graph_opt.install` can ask for async embedding.

    Args:
      graph: The graph of the model; the default graph if None.
      arguments: All other arguments of `tf.train.Supervisor`, by position or name.
    """

    def __init__(self, graph: Any = None, *arguments: Any, **named: Any) -> None:
        wanted = effective_config(None)
        optimize_training_graph(tf.get_default_graph() if graph is None else graph, wanted)
        super().__init__(graph, *arguments, **named)

    def prepare_or_wait_for_session(
        self, master: str = "", config: Any = None, *arguments: Any, **named: Any
    ) -> Any:
        """As `tf.train.Supervisor.prepare_or_wait_for_session`."""
        wanted = effective_config(config)
        stock = None
        if wanted is not None:
            checked_options(wanted, master or "")
            stock = to_stock(wanted, master or "")
        session = super().prepare_or_wait_for_session(master, stock, *arguments, **named)
        adopt_session(session, wanted, self.coord)
        return session
