"""DeepRec's names of option values, as scripts set them."""

from __future__ import annotations

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.reporting.warnings_given import forget_warnings, warnings_given


def test_names_of_values_are_found_and_say_what_they_do() -> None:
    forget_warnings()
    with graph_opt.install():
        config = tf.ConfigProto(executor_policy=tf.ExecutorPolicy.USE_COST_MODEL_EXECUTOR)
        options = config.graph_options.optimizer_options
        wanted = tf.SmartStageOptions(
            capacity=4, ignored_exception_types=[tf.errors.InvalidArgumentError], name="smart"
        )
        options.smart_stage_options.CopyFrom(wanted)
        options.do_smart_stage = True
        marked = tf.constant(1.0)
        tf.train.mark_target_node([marked, {"a": tf.no_op()}, "a name"])
        assert marked.op.get_attr("_smart_stage_target")
        with tf.Session(config=config) as session:
            assert session.run(tf.constant(3)) == 3
        tf.train.get_or_create_global_step()
        with tf.train.MonitoredTrainingSession(target_nodes_or_tensors=[marked]):
            pass
    copied = graph_opt.ConfigProto.FromString(config.SerializeToString())
    stage = copied.graph_options.optimizer_options.smart_stage_options
    assert (stage.capacity, stage.timeout_millis, stage.name) == (4, 300000, "smart")
    assert list(stage.closed_exceptions) == [tf.errors.OUT_OF_RANGE]
    assert list(stage.ignored_exceptions) == [tf.errors.INVALID_ARGUMENT]
    told = "\n".join(warnings_given())
    for words in (
        "executor_policy 2 has no effect",
        "target_nodes_or_tensors has no effect",
        "mark_target_node takes tensors, operations and variables, not str",
    ):
        assert words in told


@pytest.mark.parametrize("option", ["capacity", "num_threads", "num_clients", "timeout_millis"])
def test_numbers_of_a_stage_are_checked(option: str) -> None:
    with graph_opt.install(), pytest.raises(ValueError, match=option + " is 0; need at least 1"):
        tf.SmartStageOptions(**{option: 0})


def test_threads_and_capacity_of_a_stage_may_be_tuned() -> None:
    with graph_opt.install():
        options = tf.SmartStageOptions(capacity=-1, num_threads=-1)
        with pytest.raises(ValueError, match="-2; need at least 1, or -1 to have it tuned"):
            tf.SmartStageOptions(capacity=-2)
    assert (options.capacity, options.num_threads) == (-1, -1)
    with graph_opt.install(), pytest.raises(ValueError, match="num_clients is -1"):
        tf.SmartStageOptions(num_clients=-1)
