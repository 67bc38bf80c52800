"""Runs one pass on a graph, after those that precede it, and tells what it did."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.config.options import SessionOptions, session_options
from graph_opt.graph.rewrite import apply_to_graph_def
from graph_opt.graph.view import GraphView
from graph_opt.ops.library import load_library
from graph_opt.passes.name_map import NameMap
from graph_opt.passes.optimize import PASSES
from graph_opt.passes.pass_state import PassState
from graph_opt.reporting.report import Report
from tests.passes.drawings import Change

NAMES = tuple(one.run.__name__ for one in PASSES)


class Passed(NamedTuple):
    """What a pass made of a graph.

    Attributes:
      change: The graph that it was given, and what it made of it.
      earlier: The state that it was given.
      state: The one that it returned.
    """

    change: Change
    earlier: PassState
    state: PassState

    @property
    def view(self) -> GraphView:
        """The graph as later passes see it."""
        return self.state.view

    @property
    def name_map(self) -> NameMap:
        """What names stand for, as far as it is known."""
        return self.state.name_map

    @property
    def report(self) -> Report:
        """What is reported so far."""
        return self.state.report

    @property
    def is_idle(self) -> bool:
        """Whether the pass returned the very state that it was given."""
        return self.state is self.earlier

    def drawn(self, short: Optional[Dict[str, str]] = None, *show: str) -> List[str]:
        """The lines of what the pass changed; see `Change.drawn`."""
        return self.change.drawn(short or {}, show)

    def moved(self) -> List[str]:
        """The edges that it moved, as `reader:slot was -> is`."""
        was = {node.name: node.input for node in self.change.before.node}
        return [
            "{}:{} {} -> {}".format(node.name, slot, old, new)
            for node in self.change.after.node
            if node.name in was
            for slot, (old, new) in enumerate(zip(was[node.name], node.input))
            if old != new and not old.startswith("^")
        ]


def ran_pass(name: str, config: Any, graph_def: Any = None, **known: Any) -> Passed:
    """Runs the passes up to one of them.

    Args:
      name: The pass.
      config: A ConfigProto, or SessionOptions.
      graph_def: The graph; None for the default one.
      **known: What else sessions know, as fields of SessionOptions; `async_embedding` are those
        of its options.
    """
    if graph_def is None:
        graph_def = running_graph_def(add_shapes=True)
    options = options_of(config, **known)
    earlier, state = states(graph_def, options, NAMES.index(name))
    before = apply_to_graph_def(graph_def, *earlier.rewrites)
    after = apply_to_graph_def(before, *state.rewrites[len(earlier.rewrites) :])
    return Passed(Change(before, after), earlier, state)


def options_of(config: Any, **known: Any) -> SessionOptions:
    """The options that passes are given."""
    options = config if isinstance(config, SessionOptions) else session_options(config)
    ahead: Dict[str, Any] = known.pop("async_embedding", {})
    if ahead and options.async_embedding is not None:
        known["async_embedding"] = dataclasses.replace(options.async_embedding, **ahead)
    return dataclasses.replace(options, **known)


def states(graph_def: Any, options: SessionOptions, last: int) -> Tuple[PassState, PassState]:
    """The states before and after the pass of this number."""
    load_library()
    state = PassState.of(graph_def)
    for one in PASSES[:last]:
        state = one.run(state, options)
    return state, PASSES[last].run(state, options)
