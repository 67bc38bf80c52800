"""What a step of a stock saver does with sharded tables, and the rest of it as a step of its own.

    saver's     table ──> SaveV2(prefix) ──^> Identity(prefix)       RestoreV2 ──> Assign ──^> NoOp
    the rest    others ─> SaveV2(part)        Identity(prefix)       RestoreV2' ─> Assign' ─^> NoOp'

Of tables whose rows come and go, each rank saves and restores a share (`rank_shares`): nodes of the
saver say which, and they are left out, too.

The saver's nodes stay as they are: a graph that leaves the process has them, and whole tables.
"""

from __future__ import annotations

import contextlib
from typing import Any, Collection, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.live_graph import add_control_inputs, add_nodes, unfinalized
from graph_opt.graph.operations import operations_behind
from graph_opt.sharding.rank_shares import RankShare, share_of
from graph_opt.sharding.step_copies import SCOPE, StepCopies, input_text
from graph_opt.sharding.table_variables import Parts

_SAVE, _RESTORE, _MERGE = "SaveV2", "RestoreV2", "MergeV2Checkpoints"
_SAVE_DYNAMIC, _SAVE_SHARE = "DynamicTableSave", "Assert"
_OLD_FORMAT = ("Save", "SaveSlices", "Restore", "RestoreSlice")
_ASSIGNS = ("Assign", "AssignVariableOp")
_VARIABLES = ("VarHandleOp", "VariableV2", "Variable")
_PASSING_ON = ("Identity", "ReadVariableOp", "EnsureShape")
_RESHAPE = "Reshape"  # of savers made with reshape=True
# Inputs of SaveV2 and RestoreV2: prefix, names, slices, and what is saved.
_FIRST_TENSOR = 3


class SavedVariable(NamedTuple):
    """A table, or a slot, that a saver saves and restores.

    Attributes:
      name: Its name in the checkpoint.
      spec: What SaveV2 calls `shape_and_slices`; "" for all of the tensor.
      variable: Name of the variable's op.
    """

    name: str
    spec: str
    variable: str


class Source(NamedTuple):
    """What a step restores from one checkpoint.

    Attributes:
      prefix: Tensor with the prefix of the checkpoint.
      tables: What is read from it.
      shares: What each rank reads from it.
    """

    prefix: Any
    tables: Tuple[SavedVariable, ...]
    shares: Tuple[RankShare, ...]


class SaverStep(NamedTuple):
    """A step that saves or restores sharded tables.

    Attributes:
      saves: Whether it saves.
      tables: What is to be done for the step.
      shares: When it saves: what each rank is to write.
      prefix: Tensor with the prefix of the checkpoint that it saves; None when it restores.
      sources: When it restores: from where. Initial values may come from several checkpoints.
      others: When it saves: for each node that writes others, the op, and the tensor that takes the
        prefix of its part.
      fetches: What to fetch in place of the step's fetches.
      targets: What to run in place of its targets.
    """

    saves: bool
    tables: Tuple[SavedVariable, ...]
    shares: Tuple[RankShare, ...]
    prefix: Any
    sources: Tuple[Source, ...]
    others: Tuple[Tuple[Any, Any], ...]
    fetches: Tuple[Any, ...]
    targets: Tuple[Any, ...]


def saver_step(
    graph: Any,
    fetches: Sequence[Any],
    targets: Sequence[Any],
    feeds: Sequence[Any],
    variables: Parts,
    shared: Collection[str],
) -> Optional[SaverStep]:
    """What a step does with sharded tables; None if it neither saves nor restores any.

    Args:
      graph: The graph, to which nodes may be added.
      fetches: Tensors that the step fetches.
      targets: Operations that it runs.
      feeds: Tensors that it feeds.
      variables: Tables and slots.
      shared: Names of the tables of which each rank has a share.

    Raises:
      tf.errors.UnimplementedError: It does so in the checkpoint format of version 1.
    """
    reached = operations_behind([one.op for one in fetches] + list(targets), feeds)
    step = _Step(graph, reached, variables, shared)
    if not step.tables and not step.shares:
        return None
    with unfinalized(graph):
        return step.without_tables(fetches, targets)


class _Step:
    def __init__(
        self, graph: Any, reached: Set[Any], variables: Parts, shared: Collection[str]
    ) -> None:
        self._graph = graph
        self._reached = reached
        self._variables = variables
        self._ordered = sorted(reached, key=lambda operation: str(operation.name))
        self._check_format()
        self._saves = {op: self._saved(op) for op in self._ordered if op.type == _SAVE}
        self._restores = {op: self._restored(op) for op in self._ordered if op.type == _RESTORE}
        named = [one for each in self._saves.values() for one in each]
        of_tables = {op: share_of(op) for op in self._ordered}
        self.shares = {
            op: share for op, share in of_tables.items() if share and share.table in shared
        }
        self._has_saves = any(one.variable in variables for one in named)
        self._has_saves |= any(op.type == _SAVE_SHARE for op in self.shares)
        named += [one for each in self._restores.values() for one in each]
        self.tables = [one for one in named if one.variable in variables]

    def without_tables(self, fetches: Sequence[Any], targets: Sequence[Any]) -> SaverStep:
        """The step, once all tables are left out."""
        saves = self._has_saves
        changed = self._saves if saves else self._restores
        merges = [op for op in self._ordered if op.type == _MERGE and saves]
        prefix = None
        if saves:
            prefix = _last(merges).inputs[1] if merges else next(iter(changed)).inputs[0]
        copies = StepCopies(self._graph)
        others = []
        for operation, named in changed.items():
            if saves:
                others += self._save_others(operation, named)
                copies.drop(operation)
            else:
                copies.replace(operation, self._restore_others(operation, named))
        for operation in (*merges, *self.shares):
            copies.drop(operation)
        for operation in [op for op in self._ordered if op.type == _SAVE_DYNAMIC and saves]:
            others.append(self._save_dynamic(operation))
            copies.drop(operation)
        copies.copy_dependents(self._reached)
        return SaverStep(
            saves=saves,
            tables=tuple(self.tables),
            shares=tuple(self.shares.values()) if saves else (),
            prefix=prefix,
            sources=() if saves else tuple(self._sources()),
            others=tuple(others),
            fetches=tuple(copies.tensor(one) for one in fetches),
            targets=tuple(
                one for one in (copies.operation(target) for target in targets) if one is not None
            ),
        )

    def _sources(self) -> Iterator[Source]:
        for operation, named in self._restores.items():
            tables = tuple(one for one in named if one.variable in self._variables)
            if tables:
                yield Source(operation.inputs[0], tables, ())
        for operation, share in self.shares.items():
            yield Source(operation.inputs[0], (), (share,))

    def _check_format(self) -> None:
        for operation in self._ordered:
            if operation.type in _OLD_FORMAT:
                behind = operations_behind([operation]) | self._after(operation)
                for other in sorted(behind, key=lambda one: str(one.name)):
                    if other.name in self._variables:
                        raise tf.errors.UnimplementedError(
                            None,
                            None,
                            "the saver of '{}' writes checkpoints of version 1, which cannot take "
                            "'{}', a table that is sharded across ranks: leave out "
                            "write_version=tf.train.SaverDef.V1".format(operation.name, other.name),
                        )

    def _after(self, operation: Any) -> Set[Any]:
        """Variables that are assigned what an operation reads."""
        return {
            one
            for tensor in operation.outputs
            for assign in self._assigns(tensor)
            for one in operations_behind([assign])
            if one.type in _VARIABLES
        }

    def _saved(self, operation: Any) -> List[SavedVariable]:
        """What each tensor is; those that are no variables have an empty name of one."""
        tensors = list(operation.inputs)[_FIRST_TENSOR:]
        return self._named(operation, [_variable_behind(tensor) for tensor in tensors])

    def _restored(self, operation: Any) -> List[SavedVariable]:
        variables = []
        for tensor in operation.outputs:
            assigned = [_variable_behind(assign.inputs[0]) for assign in self._assigns(tensor)]
            variables.append(assigned[0] if assigned else "")
        return self._named(operation, variables)

    def _named(self, operation: Any, variables: Sequence[str]) -> List[SavedVariable]:
        names, specs = (tf.get_static_value(one) for one in list(operation.inputs)[1:3])
        if names is None or specs is None:  # nobody's saver
            return [SavedVariable("", "", "")] * len(variables)
        texts = [[tf.compat.as_str(one) for one in each] for each in (names, specs)]
        return [SavedVariable(*one) for one in zip(*texts, variables)]

    def _assigns(self, tensor: Any) -> List[Any]:
        """The assignments, among the step's nodes, that write a tensor to a variable."""
        found: List[Any] = []
        waiting = [tensor]
        while waiting:
            for consumer in waiting.pop().consumers():
                if consumer not in self._reached:
                    continue
                if consumer.type in _ASSIGNS:
                    found.append(consumer)
                elif consumer.type in _PASSING_ON or consumer.type == _RESHAPE:
                    waiting.extend(consumer.outputs)
        return found

    def _others(self, named: Sequence[SavedVariable]) -> List[int]:
        names = enumerate(one.variable for one in named)
        return [place for place, name in names if name not in self._variables]

    def _save_others(self, operation: Any, named: Sequence[SavedVariable]) -> List[Tuple[Any, Any]]:
        kept = self._others(named)
        if not kept:
            return []
        with _beside(self._graph, operation):
            prefix = tf.placeholder(tf.string, [])
            save = tf.raw_ops.SaveV2(
                prefix=prefix,
                tensor_names=[named[place].name for place in kept],
                shape_and_slices=[named[place].spec for place in kept],
                tensors=[operation.inputs[_FIRST_TENSOR + place] for place in kept],
            )
        _wait_for_same(self._graph, save, operation)
        return [(save, prefix)]

    def _save_dynamic(self, operation: Any) -> Tuple[Any, Any]:
        with _beside(self._graph, operation):
            prefix = tf.placeholder(tf.string, [])
        node = tf.NodeDef()
        node.CopyFrom(operation.node_def)
        node.name = self._graph.unique_name("{}/{}".format(SCOPE, operation.name), False)
        node.input[0] = input_text(prefix)
        return add_nodes(self._graph, [node])[0], prefix

    def _restore_others(self, operation: Any, named: Sequence[SavedVariable]) -> Dict[int, Any]:
        kept = self._others(named)
        if not kept:
            return {}
        with _beside(self._graph, operation):
            tensors = tf.raw_ops.RestoreV2(
                prefix=operation.inputs[0],
                tensor_names=[named[place].name for place in kept],
                shape_and_slices=[named[place].spec for place in kept],
                dtypes=[operation.outputs[place].dtype for place in kept],
            )
        _wait_for_same(self._graph, tensors[0].op, operation)
        return dict(zip(kept, tensors))


def _last(merges: Sequence[Any]) -> Any:
    """The merge that writes the checkpoint: those before it write parts of it."""
    before = {one for merge in merges for one in operations_behind([merge]) - {merge}}
    return next(merge for merge in merges if merge not in before)


def _variable_behind(tensor: Any) -> str:
    """Name of the variable whose value or handle a tensor is; "" if it is something else."""
    operation = tensor.op
    while operation.type in _PASSING_ON:
        operation = operation.inputs[0].op
    return str(operation.name) if operation.type in _VARIABLES else ""


@contextlib.contextmanager
def _beside(graph: Any, operation: Any) -> Iterator[None]:
    """Nodes made in this block are on the operation's device, and have names of ours."""
    with graph.as_default(), tf.device(None), tf.device(operation.device):
        with tf.control_dependencies(None), tf.name_scope(SCOPE + "/"):
            yield


def _wait_for_same(graph: Any, operation: Any, other: Any) -> None:
    add_control_inputs(graph, operation.name, [one.name for one in other.control_inputs])
