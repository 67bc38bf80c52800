"""The passes as a whole: pure, deterministic, one plan for files and for live graphs."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Tuple

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.config import ConfigProto
from graph_opt.config.options import session_options
from graph_opt.graph.rewrite import apply_to_graph_def
from graph_opt.passes.optimize import PASSES, optimize_graph_def
from graph_opt.passes.pass_state import PassState
from graph_opt.reporting.report import Report
from graph_opt.session.live import optimize_graph
from tests.passes import models


def _described(graph_def: Any) -> Dict[str, Tuple[str, str, List[str], List[str]]]:
    """Op, device, data inputs and sorted control inputs of each node."""
    return {
        node.name: (
            node.op,
            node.device,
            [text for text in node.input if not text.startswith("^")],
            sorted(text for text in node.input if text.startswith("^")),
        )
        for node in graph_def.node
    }


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("partitions", [1, 2])
def test_the_live_graph_becomes_what_the_graph_def_becomes(resource: bool, partitions: int) -> None:
    models.safe_model(resource=resource, partitions=partitions)
    unsampled = {"staleness_sample_steps": 0}  # Only sessions take samples.
    offline = models.optimized(**unsampled)
    report = optimize_graph(tf.get_default_graph(), models.config(**unsampled))
    live = graph_opt.running_graph_def()
    assert _described(live) == _described(offline.graph_def)
    assert report.stages == offline.stages


def test_same_graph_and_options_give_the_same_bytes() -> None:
    models.safe_model(resource=True, partitions=2)
    first, second = models.optimized(), models.optimized()
    assert first.graph_def.SerializeToString(deterministic=True) == (
        second.graph_def.SerializeToString(deterministic=True)
    )


def test_every_original_node_keeps_its_name_and_type() -> None:
    models.safe_model()
    before = {node.name: node.op for node in tf.get_default_graph().as_graph_def().node}
    after = {node.name: node.op for node in models.optimized().graph_def.node}
    assert {name: after.get(name) for name in before} == before


def test_the_argument_is_not_changed() -> None:
    models.safe_model()
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    before = graph_def.SerializeToString(deterministic=True)
    optimize_graph_def(graph_def, models.config())
    assert graph_def.SerializeToString(deterministic=True) == before


def test_a_graph_is_rewritten_once() -> None:
    models.safe_model()
    once = models.optimized()
    with pytest.raises(tf.errors.FailedPreconditionError, match="rewritten before"):
        optimize_graph_def(once.graph_def, models.config())


def test_a_live_graph_is_rewritten_once() -> None:
    models.safe_model()
    optimize_graph(tf.get_default_graph(), models.config())
    with pytest.raises(tf.errors.FailedPreconditionError, match="rewritten before"):
        optimize_graph(tf.get_default_graph(), models.config())


def test_a_finalized_graph_is_rewritten_and_stays_finalized() -> None:
    models.safe_model()
    tf.get_default_graph().finalize()
    assert optimize_graph(tf.get_default_graph(), models.config()).stages
    assert tf.get_default_graph().finalized


def test_a_graph_without_lookups_is_unchanged_with_a_warning() -> None:
    inputs = models.features()
    models.train([inputs["dense"]], inputs)
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    result = optimize_graph_def(graph_def, models.config())
    assert result.graph_def == graph_def
    assert any("no embedding lookup" in warning for warning in result.report.warnings)


def test_nothing_happens_while_the_option_is_off() -> None:
    models.safe_model()
    graph_def = tf.get_default_graph().as_graph_def()
    result = optimize_graph_def(graph_def, ConfigProto())
    assert result.graph_def == graph_def and result.stages == ()


def test_a_lookup_left_in_main_still_gets_its_ids_with_the_batch() -> None:
    inputs = models.features()
    shift = tf.get_variable("shift", [], initializer=tf.zeros_initializer(), use_resource=False)
    moved = tf.nn.embedding_lookup(models.table("moved"), inputs["other"])
    kept_ids = inputs["other"] + tf.cast(shift, tf.int64)
    kept = tf.nn.embedding_lookup(models.table("kept"), kept_ids)
    models.train([moved, kept], inputs)
    result = models.optimized()
    assert models.codes(result) == [None, "dense_variable_upstream"]
    assert inputs["other"].name in models.boundary_names(result)


def test_names_of_the_stage_avoid_those_of_the_user() -> None:
    models.safe_model()
    tf.no_op(name="async_embedding")
    assert [stage.name for stage in models.optimized().stages] == ["async_embedding_1"]


def test_regions_count_every_node_once() -> None:
    models.safe_model()
    size = len(tf.get_default_graph().as_graph_def().node)
    assert sum(models.optimized().report.regions.values()) == size


def test_no_pass_acts_on_the_report() -> None:
    inputs = models.features()
    wide = tf.nn.embedding_lookup(models.table("wide"), inputs["other"])
    deep = tf.nn.safe_embedding_lookup_sparse(
        models.table("deep", resource=True), tf.sparse.from_dense(inputs["ids"])
    )
    models.train([wide, deep], inputs)
    config = models.config()
    config.graph_options.optimizer_options.do_group_embedding = True
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    result = optimize_graph_def(graph_def, config)
    state = PassState.of(graph_def)
    for one in PASSES:
        state = one.run(dataclasses.replace(state, report=Report()), session_options(config))
    assert result.report.fused and result.report.moved
    assert apply_to_graph_def(graph_def, *state.rewrites) == result.graph_def
    assert state.name_map.taken == result.report.fetches
    assert set(result.report.replaced) == {wide.name, deep.name}
