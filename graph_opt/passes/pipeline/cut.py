"""What main and the stage each run, for a choice of updates to be pushed.

pushed   the updates, and what on servers leads to them; on the worker, what comes after others
sent     what main gives the stage for them
ahead    of these and of the values that updates return, what main waited for
idle     on servers, what only waits for these
main     what a step still runs
"""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, List, Set, Tuple

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.pipeline.counters import Counter
from graph_opt.passes.pipeline.training_step import TrainingStep
from graph_opt.rules.op_names import VARIABLES, WHOLE_READS

_NONE: FrozenSet[str] = frozenset()


class Cut:
    """What a choice of updates leads to.

    Args:
      view: The graph.
      step: The step that trains.
      order: The updates to be pushed, each after those that it waits for.
      counters: Those that count steps.

    Attributes:
      moving: The same.
      changed: The variables that they change.
      counters, counted: Those of them that count steps, and their variables.
      changed_in_main: Variables that the other updates change.
      after: What waits for those of them that are by gradients.
      sent: Tensors of main from which they are computed.
      pushed: The updates and the nodes that lead to them, each after its inputs.
      ahead: What main does not wait for any more.
      instead: What main runs in the place of these, and of nodes that only wait for them.
      first: Nodes of main for which pushed nodes wait.
      earlier: The same, where these wait for updates themselves: which updates.
      main: What main runs, each after its inputs.
      in_main: The same.
    """

    def __init__(
        self,
        view: GraphView,
        step: TrainingStep,
        order: List[str],
        counters: Dict[str, Counter],
    ) -> None:
        self.step = step
        self.view = view
        self.order = order
        self.moving = frozenset(order)
        self.counters = {name: counters[name] for name in order if name in counters}
        self.counted = frozenset(each.variable for each in self.counters.values())
        self.changed = _NONE.union(*(step.written[name] for name in order))
        stays = [step.written[name] for name in step.updates if name not in self.moving]
        self.changed_in_main = _NONE.union(*stays)
        self.after = view.descendants(name for name in order if name in step.trained)
        self.sent: Dict[TensorRef, None] = {}
        found = self._found_pushed()
        self.pushed = {name: None for name in step.nodes if name in found}
        self.ahead = self._unread().union(
            name for name in self.pushed if name in self.moving or name in self.after
        )
        self.first, self.earlier = self._waits_of_pushed()
        self.instead = self._found_instead()
        self.in_main = self._found_main()
        self.main = [name for name in step.nodes if name in self.in_main]

    def is_far(self, reader: str) -> bool:
        """Whether main runs a node, on the worker."""
        return reader in self.in_main and not self.step.is_on_server(reader)

    def behind(self, name: str) -> List[str]:
        """The updates that come after a node."""
        behind = self.view.descendants([name])
        return [update for update in self.order if update in behind]

    def _found_pushed(self) -> Set[str]:
        found = set(self.order)
        waiting = list(self.order)
        while waiting:
            reader = waiting.pop()
            for tensor in self.view.inputs(reader):
                source = tensor.node
                if self.view.op(source) in VARIABLES:
                    continue
                if self._is_sent(source, reader):
                    self.sent[tensor] = None
                elif source not in found:
                    found.add(source)
                    waiting.append(source)
        return found

    def _is_sent(self, name: str, reader: str) -> bool:
        step = self.step
        if name not in step.inside or name in step.written:
            return True
        if name in self.after:
            return False
        reads = step.constant.get(name)
        is_near = step.is_on_server(name)
        if reads is not None and (is_near or not step.is_on_server(reader)):
            return bool(reads & self.changed_in_main)
        return not is_near

    def _found_main(self) -> Set[str]:
        """What a step still runs once it does not wait for updates any more."""
        view = self.view
        found = set(self.waited_for(self.step.ends))
        found.update(tensor.node for tensor in self.sent)
        found.update(self.first)
        waiting = list(found)
        while waiting:
            name = waiting.pop()
            above = [tensor.node for tensor in view.inputs(name)]
            above += self.waited_for(view.controls(name))
            fresh = [each for each in above if each not in found and each in self.step.inside]
            found.update(fresh)
            waiting.extend(fresh)
        return found

    def waited_for(self, names: Iterable[str]) -> List[str]:
        """The nodes themselves, or what main runs instead."""
        found: Dict[str, None] = {}
        for name in names:
            found.update(dict.fromkeys(self.instead.get(name, (name,))))
        return list(found)

    def _found_instead(self) -> Dict[str, Tuple[str, ...]]:
        found: Dict[str, Tuple[str, ...]] = {}
        for name in self.step.nodes:
            is_idle = self._may_idle(name)
            if not is_idle and name not in self.ahead:
                continue
            above: Dict[str, None] = {}
            for source in self.view.predecessors(name):
                above.update(dict.fromkeys(found.get(source, ())))
            for control in self.view.controls(name):
                if control not in found and not self._is_nothing(control):
                    above[control] = None
            if not is_idle or not any(self.step.is_on_server(each) for each in above):
                found[name] = tuple(above)
        return found

    def _may_idle(self, name: str) -> bool:
        is_server = self.step.is_on_server(name) and self.view.op(name) == "NoOp"
        return is_server and name in self.after

    def _is_nothing(self, control: str) -> bool:
        """Whether main need not run what a pushed node waits for."""
        if control in self.pushed or control not in self.step.inside:
            return True
        return control in self.step.constant or self.view.op(control) == "Const"

    def _unread(self) -> Set[str]:
        """Values that updates return, and that nothing reads: their readers wait for them."""
        view, step = self.view, self.step
        found = set()
        for name in step.nodes:
            if view.op(name) not in WHOLE_READS or name in self.pushed:
                continue
            if not step.is_on_server(name):
                continue
            after = any(each in self.moving for each in view.predecessors(name))
            if after and not any(each in step.inside for each in view.readers(name)):
                found.add(name)
        return found

    def _waits_of_pushed(self) -> Tuple[Dict[str, None], Dict[str, Tuple[str, ...]]]:
        """Nodes of main for which pushed nodes wait: first ones, and those after updates."""
        view = self.view
        first: Dict[str, None] = {}
        after: Dict[str, Tuple[str, ...]] = {}
        for name in self.pushed:
            for control in view.controls(name):
                if control in first or control in after or self._is_nothing(control):
                    continue
                above = view.ancestors([control])
                updates = tuple(each for each in self.order if each in above)
                if updates:
                    after[control] = updates
                else:
                    first[control] = None
        return first, after
