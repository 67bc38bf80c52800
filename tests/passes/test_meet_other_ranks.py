"""Messages of a script: they have one name in all steps, and are sent after lookups."""

from __future__ import annotations

from typing import Any, List, Optional

import pytest
import tensorflow

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.config.options import Ranks
from graph_opt.sharding.in_process import InProcessGroup, InProcessTransport
from graph_opt.sok.communication import communicating_through
from tests.control_flow import control_flow_v2
from tests.passes import fused_models
from tests.passes.one_pass import Passed, ran_pass
from tests.session.test_exact_rows import batches, sparse
from tests.sharding import exact_ranks

MESSAGE = "ExchangeAllToAll"
RANKS = Ranks(0, 2, "group")


def ran(ranks: Optional[Ranks] = RANKS, prefetch: bool = False) -> Passed:
    return ran_pass("meet_other_ranks", fused_models.config(prefetch=prefetch), ranks=ranks)


def conditionally(condition: Any) -> None:
    """Sends something in a branch that is a function."""
    transport = InProcessGroup(2).transport(0)
    given = tf.placeholder(tf.float32, [], name="given")
    with control_flow_v2(True):
        sent = tf.cond(condition, lambda: transport.all_reduce(given, "sum", "n"), lambda: given)
    tf.identity(sent, name="read")


def test_a_message_is_taken_out_of_a_function_that_is_always_called() -> None:
    conditionally(tf.constant(True))
    passed = ran()
    reached = passed.view.ancestors(["read"])
    assert [name for name in reached if passed.view.op(name) == MESSAGE]
    assert not [name for name in reached if passed.view.op(name) in ("If", "StatelessIf")]
    assert "1 conditional around messages" in passed.report.changes[-1]


@pytest.mark.parametrize(
    "ranks", [None, Ranks(0, 1), Ranks(0, 2, elastic=True)], ids=["none", "one", "elastic"]
)
def test_nothing_is_taken_out_without_several_ranks_that_stay(ranks: Optional[Ranks]) -> None:
    conditionally(tf.constant(True))
    assert ran(ranks).is_idle


def test_a_function_that_may_not_be_called_stays() -> None:
    conditionally(tf.placeholder(tf.bool, []))
    assert ran().is_idle


def with_messages(*called: str) -> Any:
    """The default graph, with messages of Horovod for nodes of functions whose names begin so."""
    graph_def = running_graph_def()
    for function in graph_def.library.function:
        for node in function.node_def:
            if node.name.startswith(called):
                node.op = "HorovodAllreduce"
                node.attr["ignore_name_scope"].b = False
    return graph_def


def loop(given: Any, sent: str, name: str) -> Any:
    """Sends something in a function of its own in each iteration."""
    return tf.while_loop(
        lambda x: x < 9.0, lambda x: tf.identity(x + 1.0, sent), [given], name=name
    )


def loop_and_branch(loop_sends: str = "in_loop", branch_sends: str = "in_branch") -> Any:
    """Both send something, in functions."""
    given = tf.placeholder(tf.float32, [], name="given")
    with control_flow_v2(True):
        looped = loop(given, loop_sends, "loop")
        tf.cond(given > 0.0, lambda: tf.identity(looped, branch_sends), lambda: looped, name="if")
    return with_messages("in_loop", "in_branch")


def inlined(passed: Passed) -> List[str]:
    """The calls of functions whose nodes TensorFlow names anew for each set of fetches."""
    view = passed.view
    found = {name: view.attribute(name, "_lower_using_switch_merge") for name in view.nodes}
    return [name for name, value in found.items() if value is not None and value.b]


@pytest.mark.parametrize("ranks", [RANKS, Ranks(0, 1, elastic=True)], ids=["fixed", "elastic"])
def test_functions_with_messages_are_called(ranks: Ranks) -> None:
    graph_def = loop_and_branch()
    passed = ran_pass("meet_other_ranks", fused_models.config(), graph_def, ranks=ranks)
    assert inlined(passed) == [] and passed.report.left_alone == ()
    assert "2 function calls with messages to other ranks called" in passed.report.changes[-1]


def test_functions_without_messages_stay_inlined() -> None:
    graph_def = loop_and_branch("x", "y")
    passed = ran_pass("meet_other_ranks", fused_models.config(), graph_def, ranks=RANKS)
    assert passed.is_idle and inlined(passed) == ["loop", "if"]


def test_messages_of_one_name_are_left_where_they_are() -> None:
    graph_def = loop_and_branch(branch_sends="in_loop")
    passed = ran_pass("meet_other_ranks", fused_models.config(), graph_def, ranks=RANKS)
    assert inlined(passed) == ["loop", "if"]
    assert "at messages in if and 1 more: give them a name" in passed.report.left_alone[-1]


def test_messages_in_loops_of_functions_and_on_gpus_are_left_where_they_are() -> None:
    given = tf.placeholder(tf.float32, [], name="given")
    with control_flow_v2(True):
        tensorflow.function(lambda x: loop(x, "inner", "in_function"))(given)
        with tf.device("/device:GPU:0"):
            loop(given, "on_gpu", "loop")
    passed = ran_pass(
        "meet_other_ranks", fused_models.config(), with_messages("inner", "on_gpu"), ranks=RANKS
    )
    assert inlined(passed) == ["loop"]
    assert "PartitionedCall and 1 more" in passed.report.left_alone[-1]


def looked_up(transport: InProcessTransport, inputs: Any) -> tf.Tensor:
    """Rows of a sharded table."""
    with communicating_through(transport):
        table = exact_ranks.table("t", 4)
        return sok.lookup_sparse([table], [sparse(inputs)], [None], combiners=["mean"])[0]


def waits_of(passed: Passed, message: str) -> List[str]:
    """The ops of what a message waits for."""
    view = passed.view
    found = [
        name
        for name in view.of_op(MESSAGE)
        if tf.compat.as_str(view.nodes[name].attr["message"].s) == message
    ]
    assert len(found) == 1
    return [view.op(name) for name in view.controls(found[0])]


def test_a_message_about_the_batch_is_sent_after_its_lookups() -> None:
    transport = InProcessGroup(2).transport(0)
    inputs = batches(2)
    transport.all_reduce(tf.size(inputs["bags"]), "sum", "examples")
    transport.all_reduce(tf.constant(1.0), "sum", "of_no_batch")
    pooled = looked_up(transport, inputs)
    transport.all_reduce(tf.reduce_sum(pooled), "sum", "rows")
    passed = ran()
    assert waits_of(passed, "examples") == ["ResourceExchangeGather"]
    assert not waits_of(passed, "of_no_batch") and not waits_of(passed, "rows")
    assert "1 message to other ranks sent after lookups" in passed.report.changes[-1]


def test_what_lookups_depend_on_is_not_sent_after_them() -> None:
    transport = InProcessGroup(2).transport(0)
    inputs = batches(2)
    most = transport.all_reduce(tf.reduce_max(inputs["bags"]), "max", "most")
    looked_up(transport, {**inputs, "bags": tf.minimum(inputs["bags"], most)})
    assert ran().is_idle


def test_main_waits_for_no_lookup_that_runs_ahead() -> None:
    transport = InProcessGroup(2).transport(0)
    inputs = batches(2)
    transport.all_reduce(tf.size(inputs["bags"]), "sum", "examples")
    looked_up(transport, inputs)
    assert ran(prefetch=True).is_idle
