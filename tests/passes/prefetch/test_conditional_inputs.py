"""`tf.cond` between inputs, by functions or by Switch and Merge: a stage for each branch."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Sequence

import pytest

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.graph.view import GraphView
from graph_opt.passes.prefetch.conditional_inputs import (
    JoinedInputs,
    functional_conditionals,
    join_conditional_inputs,
)
from tests.control_flow import control_flow_v2
from tests.passes import models
from tests.passes.drawings import Change, lines, view_of
from tests.passes.one_pass import Passed, ran_pass
from tests.passes.prefetch.stage_drawings import stage_drawn

BOTH_FORMS = pytest.mark.parametrize("functions", [False, True], ids=["merged", "functions"])
INPUTS = """
    training = Placeholder() dtype=bool
    train = IteratorV2()
    test = IteratorV2()
"""
BRANCHES = """
    cond/of_test = Switch(test, training)
    cond/test = IteratorGetNext(cond/of_test) output_types=[int64] output_shapes=[(None,)]
    cond/of_train = Switch(train, training)
    cond/train = IteratorGetNext(cond/of_train:1) output_types=[int64] output_shapes=[(None,)]
    cond/more = Neg(cond/train) T=int64
    cond/Merge = Merge(cond/test, cond/train) T=int64 N=2
    cond/Merge_1 = Merge(cond/test, cond/more) T=int64 N=2
    one = Neg(cond/Merge) T=int64
    two = Neg(cond/Merge_1) T=int64
"""
CONDITIONAL = INPUTS + BRANCHES


class Iterators(NamedTuple):
    """Two inputs, and what says which one a step reads."""

    train: Any
    test: Any
    training: Any


def inputs(training: Any = None) -> Iterators:
    dataset = tf.data.Dataset.range(9).batch(3)
    train, test = (tf.data.make_initializable_iterator(dataset) for _ in range(2))
    fed = tf.placeholder(tf.bool, [], "training") if training is None else training
    return Iterators(train, test, fed)


def shifted() -> Any:
    """A batch of which one branch changes the ids."""
    given = inputs()
    return tf.cond(given.training, given.train.get_next, lambda: given.test.get_next() + 1)


def ahead(batch: Callable[[], Any], functions: bool) -> Passed:
    """The pass on a lookup of the ids that `batch` makes."""
    with control_flow_v2(functions):
        ids = batch()
    rows = tf.nn.embedding_lookup(models.table(), ids, name="rows")
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(rows))
    return ran_pass("async_embedding", models.config())


def added(passed: Passed, *starts: str) -> List[str]:
    """The new nodes whose names start with one of these."""
    return [line[2:] for line in stage_drawn(passed) if line[2:].startswith(starts)]


def refusal(passed: Passed) -> Any:
    """Why the only lookup stays in main."""
    (lookup,) = passed.report.lookups
    assert lookup.refusal is not None and passed.report.stages == ()
    return lookup.refusal


def joined(text: str) -> JoinedInputs:
    return join_conditional_inputs(view_of(text))


def edited(text: str, *changes: Sequence[str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def test_an_identity_stands_for_the_choice_behind_all_merges_of_a_conditional() -> None:
    view = view_of(CONDITIONAL)
    found = join_conditional_inputs(view)
    assert Change.by(view, found.rewrite).drawn({}) == lines("""
        - one = Neg(cond/Merge)
        + one = Neg(chosen_input/IdentityN)
        - two = Neg(cond/Merge_1)
        + two = Neg(chosen_input/IdentityN:1)
        + chosen_input/IdentityN = IdentityN(cond/Merge, cond/Merge_1)
    """)
    assert found.absorbed == {"cond/train", "cond/test"}
    assert found.aliases == {
        "cond/Merge:0": "chosen_input/IdentityN:0",
        "cond/Merge_1:0": "chosen_input/IdentityN:1",
    }


def test_each_conditional_has_an_identity_of_its_own() -> None:
    other = edited(BRANCHES, ("cond/", "other/"), ("one =", "three ="), ("two =", "four ="))
    found = joined(CONDITIONAL + other)
    assert {name: group.merges for name, group in found.groups.items()} == {
        "chosen_input/IdentityN": ("cond/Merge", "cond/Merge_1"),
        "chosen_input_1/IdentityN": ("other/Merge", "other/Merge_1"),
    }


def test_what_only_tells_that_a_branch_runs_is_not_copied() -> None:
    pivot = """
        cond/Switch = Switch(training, training)
        cond/switch_f = Identity(cond/Switch)
        cond/y = Const(^cond/switch_f)
        cond/sum = AddV2(cond/test, cond/y)
    """
    merge = ("cond/Merge = Merge(cond/test,", "cond/Merge = Merge(cond/sum,")
    (group,) = joined(edited(CONDITIONAL, merge) + pivot).groups.values()
    assert group.nodes[0] == {"cond/test", "cond/y", "cond/sum"}


def test_a_condition_may_be_passed_on() -> None:
    passed_on = "pred_id = Identity(training)"
    (group,) = joined(
        edited(CONDITIONAL, ("Switch(train, training)", "Switch(train, pred_id)")) + passed_on
    ).groups.values()
    assert group.condition.node == "training"


@pytest.mark.parametrize(
    "old, new",
    [
        pytest.param(
            "cond/of_test = Switch(test, training)",
            "other = Placeholder()\ncond/of_test = Switch(test, other)",
            id="branches of different conditions",
        ),
        pytest.param(
            "Neg(cond/train)",
            "AddV2(cond/train, inner)\ninner = Switch(test, other)\nother = Placeholder()",
            id="two conditions in a branch",
        ),
        pytest.param("(cond/of_train:1)", "(cond/of_train)", id="the same branch twice"),
        pytest.param("two = Neg(cond/Merge_1)", "two = Neg(cond/more)", id="an inner reader"),
        pytest.param("two = Neg(cond/Merge_1)", "two = Neg(cond/Merge:1)", id="a read index"),
        pytest.param("Neg(cond/train)", "Exit(cond/train)", id="a loop in a branch"),
        pytest.param("Neg(cond/train)", "Merge(cond/train)", id="a conditional in a branch"),
        pytest.param(
            "Neg(cond/train)", "AddV2(cond/train, outside)\noutside = Const()", id="no Switch"
        ),
        pytest.param(
            "IteratorGetNext(cond/of_test)", "Identity(cond/of_test)", id="a branch reads nothing"
        ),
        pytest.param("two =", "chosen_input/IdentityN =", id="joined before"),
    ],
)
def test_anything_else_behind_branches_is_no_choice(old: str, new: str) -> None:
    assert joined(edited(CONDITIONAL, (old, new))).groups == {}


@pytest.mark.parametrize("number", [0, 1])
def test_each_stage_has_the_nodes_of_its_branch(number: int) -> None:
    passed = ahead(shifted, functions=False)
    wanted = (
        """
        A/cond/IteratorGetNext_1 = IteratorGetNext(IteratorV2_1)
        A/cond/add = AddV2(A/cond/IteratorGetNext_1, A/cond/add/y)
        io/Put = Put(A/cond/add)
        """,
        """
        B/cond/IteratorGetNext = IteratorGetNext(IteratorV2)
        io1/Put = Put(B/cond/IteratorGetNext)
        """,
    )
    starts = (("A/cond", "io/Put"), ("B/cond", "io1/Put"))
    assert added(passed, *starts[number]) == lines(wanted[number])


@pytest.mark.parametrize("number", [0, 1])
def test_each_stage_has_the_nodes_of_its_function(number: int) -> None:
    passed = ahead(shifted, functions=True)
    wanted = (
        """
        A/cond/IteratorGetNext = IteratorGetNext(IteratorV2_1)
        A/cond/add_0 = AddV2(A/cond/IteratorGetNext:0, A/cond/add/y:0)
        A/cond/result_0 = Identity(A/cond/add_0:0)
        io/Put = Put(A/cond/result_0)
        """,
        """
        B/cond/IteratorGetNext = IteratorGetNext(IteratorV2)
        B/cond/result_0 = Identity(B/cond/IteratorGetNext:0)
        io1/Put = Put(B/cond/result_0)
        """,
    )
    starts = (
        ("A/cond/It", "A/cond/add", "A/cond/res", "io/Put"),
        ("B/cond/It", "B/cond/res", "io1/Put"),
    )
    assert added(passed, *starts[number]) == lines(wanted[number])


@BOTH_FORMS
def test_main_takes_from_the_stage_of_the_condition(functions: bool) -> None:
    passed = ahead(shifted, functions)
    assert added(passed, "A/Take", "B/Take", "A/choice/is", "A/choice/S", "A/choice/I") == lines("""
        A/Take = Take(^A/choice/Identity_0)
        A/choice/is_0 = LogicalNot(training)
        A/choice/Switch_0 = Switch(A/choice/is_0, A/choice/is_0)
        A/choice/Identity_0 = Identity(A/choice/Switch_0:1)
        A/choice/Switch_1 = Switch(training, training)
        A/choice/Identity_1 = Identity(A/choice/Switch_1:1)
        B/Take = Take(^A/choice/Identity_1)
    """)
    assert added(passed, "A/choice/Merge_0") == ["A/choice/Merge_0 = Merge(A/Take, B/Take)"]


@BOTH_FORMS
def test_stages_are_called_by_the_value_of_the_condition(functions: bool) -> None:
    sources = [stage.io_source for stage in ahead(shifted, functions).report.stages]
    assert sources == ["training == False", "training == True"]


def test_a_fetched_batch_is_the_one_that_main_took() -> None:
    taken = ahead(shifted, functions=False).name_map.taken
    assert taken["cond/Merge:0"] == "async_embedding/choice/Merge_0:0"


@BOTH_FORMS
def test_what_branches_read_from_outside_is_read_by_the_stage(functions: bool) -> None:
    def offset() -> Any:
        given, step = inputs(), tf.constant(3, tf.int64, name="offset")
        return tf.cond(given.training, given.train.get_next, lambda: given.test.get_next() + step)

    (line,) = added(ahead(offset, functions), "A/cond/add")
    assert line.endswith(", offset)")


def fed_ids() -> Any:
    given, step = inputs(), tf.placeholder(tf.int64, [], "step")
    return tf.cond(given.training, given.train.get_next, lambda: given.test.get_next() + step)


def trained_ids() -> Any:
    given = inputs()
    step = tf.get_variable("step", initializer=tf.constant(0, tf.int64), use_resource=True)
    return tf.cond(given.training, given.train.get_next, lambda: given.test.get_next() + step)


def counted_ids() -> Any:
    given = inputs()
    queue = tf.FIFOQueue(9, [tf.int64], [[]])
    return tf.cond(
        given.training,
        given.train.get_next,
        lambda: given.test.get_next() + tf.cast(queue.size(), tf.int64),
    )


def chosen_by_a_variable() -> Any:
    given = inputs(tf.get_variable("switch", initializer=True, use_resource=True))
    return tf.cond(given.training, given.train.get_next, given.test.get_next)


def chosen_by_chance() -> Any:
    given = inputs(tf.random_uniform([]) > 0.5)
    return tf.cond(given.training, given.train.get_next, given.test.get_next)


@BOTH_FORMS
@pytest.mark.parametrize(
    "batch, code",
    [
        (fed_ids, "placeholder_upstream"),
        (trained_ids, "dense_variable_upstream"),
        (counted_ids, "stateful_upstream"),
        (chosen_by_a_variable, "choice_not_fed"),
        (chosen_by_chance, "choice_not_fed"),
    ],
)
def test_what_must_not_run_ahead_is_refused(
    batch: Callable[[], Any], code: str, functions: bool
) -> None:
    assert refusal(ahead(batch, functions))["code"] == code


@pytest.mark.parametrize("functions, node", [(False, "cond/Merge"), (True, "cond")])
def test_refusals_name_a_node_of_the_model(functions: bool, node: str) -> None:
    assert refusal(ahead(chosen_by_chance, functions))["node"] == node


@pytest.mark.parametrize(
    "functions, code", [(False, "several_io_stages"), (True, "control_edge_from_main")]
)
def test_branches_that_wait_for_main_are_refused(functions: bool, code: str) -> None:
    def waiting() -> Any:
        given = inputs()
        count = tf.get_variable("count", initializer=0, use_resource=False)
        with tf.control_dependencies([tf.assign_add(count, 1)]):
            return tf.cond(given.training, given.train.get_next, given.test.get_next)

    assert refusal(ahead(waiting, functions))["code"] == code


def test_a_function_with_an_op_that_is_not_known_here_is_refused() -> None:
    with control_flow_v2(True):
        rows = tf.nn.embedding_lookup(models.table(), shifted())
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(rows))
    graph_def = running_graph_def(add_shapes=True)
    for function in graph_def.library.function:
        for node in function.node_def:
            node.op = "OpOfElsewhere" if node.op == "AddV2" else node.op
    found = refusal(ran_pass("async_embedding", models.config(), graph_def))
    assert (found["code"], found["node"]) == ("unknown_op", "cond")


def conditionals(build: Callable[[Iterators], Any]) -> List[str]:
    """The If nodes that choose an input."""
    with control_flow_v2(True):
        build(inputs())
    return list(functional_conditionals(GraphView(running_graph_def())))


@pytest.mark.parametrize("functions_within", [False, True])
def test_functions_may_read_a_batch_by_other_functions(functions_within: bool) -> None:
    def read(iterator: Any) -> Any:
        called = tf.function(iterator.get_next) if functions_within else iterator.get_next
        return called()

    def build(given: Iterators) -> None:
        tf.cond(given.training, lambda: read(given.train), lambda: read(given.test))

    assert conditionals(build) == ["cond"]


def test_a_function_that_reads_no_batch_is_no_input() -> None:
    def build(given: Iterators) -> None:
        tf.cond(given.training, given.train.get_next, lambda: tf.constant([1], tf.int64))

    assert conditionals(build) == []


def test_only_a_boolean_chooses_a_function() -> None:
    def build(given: Iterators) -> None:
        tf.cond(given.training, given.train.get_next, given.test.get_next)

    assert conditionals(build) == ["cond"]
    graph_def = running_graph_def()
    (node,) = [node for node in graph_def.node if node.op == "If"]
    node.attr["Tcond"].type = tf.int32.as_datatype_enum
    assert functional_conditionals(GraphView(graph_def)) == {}
