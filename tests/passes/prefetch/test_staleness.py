"""What notes updates and positions in each step, and what sampled steps look up again."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import pytest

from graph_opt.compat import tf
from graph_opt.passes.prefetch.measured_lookups import Sampling
from tests.control_flow import control_flow_v2
from tests.passes.drawings import lines
from tests.passes.one_pass import Passed, ran_pass
from tests.passes.pass_models import SERVERS, on_servers, sampling, trained
from tests.session.test_exact_rows import batches, sparse, table

SHORT = {
    "staleness/0/": "S/",
    "group_embedding/": "",
    "gradients/": "g/",
    "embedding_lookup": "emb",
    "/job:ps/task:": "ps",
    "/job:worker/task:": "worker",
    "/device:CPU:0": "",
}
SAMPLED: Dict[str, Any] = {"async_embedding": {"is_sampled": True}, "servers_with_ops": SERVERS}
Build = Callable[[Dict[str, Any]], List[Any]]


def unfused() -> Any:
    """A config whose lookups stay TensorFlow's."""
    made = sampling()
    made.graph_options.optimizer_options.do_group_embedding = False
    return made


def single(name: str = "t", **options: Any) -> Build:
    return lambda inputs: [tf.nn.embedding_lookup(table(name, 4, **options), inputs["one"])]


def noted(*lookups: Build, made: Any = None, servers: int = 0, name: str = "note_updates",
          train: Callable[[Any], Any] = trained, **known: Any) -> Passed:  # fmt: skip
    """Runs a pass on a model of these lookups."""
    with tf.device(on_servers(servers) if servers else None):
        inputs = batches(2)
        train([rows for make in lookups for rows in make(inputs)])
    return ran_pass(name, made or sampling(), None, **{**SAMPLED, **known})


def told(passed: Passed) -> Sampling:
    """What can be told, and how."""
    part = passed.name_map.part(Sampling)
    assert part is not None
    return part


def test_a_fused_update_is_noted_once_it_has_written() -> None:
    assert noted(single()).drawn(SHORT, "tables", "shards", "kept") == lines("""
        - Adagrad = NoOp(^update_0/apply)
        + Adagrad = NoOp(^update_0/apply, ^S/updates_0)
        - lookup_0/pooled = GroupEmbeddingLookup(t, IteratorGetNext:2, nothing_0/empty, \
          nothing_0/empty)
        + lookup_0/pooled = GroupEmbeddingLookup(t, IteratorGetNext:2, nothing_0/empty, \
          nothing_0/empty, ^S/position)
        + S/updates_0 = LogUpdatedRows(IteratorGetNext:2, ^update_0/apply) \
          tables=['t'] shards=[-1] kept=5
        + S/position = UpdatedRowsPosition(IteratorGetNext:2) tables=['t']
    """)


def test_an_update_of_tensorflow_is_noted_by_its_slices() -> None:
    assert noted(single(resource=True), made=unfused()).drawn(SHORT, "shards") == lines("""
        - emb = ResourceGather(t, IteratorGetNext:2)
        + emb = ResourceGather(t, IteratorGetNext:2, ^S/position)
        - Adagrad = NoOp(^Adagrad/update_t/ResourceSparseApplyAdagrad)
        + Adagrad = NoOp(^Adagrad/update_t/ResourceSparseApplyAdagrad, ^S/updates_0)
        + S/updates_0 = LogUpdatedRows(g/emb_grad/Reshape_1, \
          ^Adagrad/update_t/ResourceSparseApplyAdagrad) shards=[0]
        + S/position = UpdatedRowsPosition(IteratorGetNext:2)
    """)


def test_what_is_packed_for_a_server_is_noted_before_it_is_sent() -> None:
    drawn = noted(single(), servers=1).drawn(SHORT)
    assert [line for line in drawn if "update_0" in line] == lines("""
        - update_0/pack = GroupEmbeddingPackGradients(IteratorGetNext:2, nothing_0/empty, \
          nothing_0/empty, g/Square_grad/Mul_1, lookup_0/prepare) on worker0
        + update_0/pack = GroupEmbeddingPackGradients(IteratorGetNext:2, nothing_0/empty, \
          nothing_0/empty, g/Square_grad/Mul_1, lookup_0/prepare, ^S/sent/update_0/pack) on worker0
        + S/sent/update_0/pack = LogUpdatedRows(IteratorGetNext:2, ^nothing_0/empty, \
          ^g/Square_grad/Mul_1, ^lookup_0/prepare) on worker0
    """)


def test_slices_that_a_server_applies_go_by_way_of_the_note() -> None:
    assert noted(single(), made=unfused(), servers=1).drawn(SHORT) == lines("""
        - emb = GatherV2(t/read, IteratorGetNext:2, emb/axis) on ps0
        + emb = GatherV2(t/read, S/later/IteratorGetNext_2, emb/axis) on ps0
        - Adagrad/update_t/Unique = Unique(g/emb_grad/Reshape_1) on ps0
        + Adagrad/update_t/Unique = Unique(S/sent/t) on ps0
        + S/sent/t = LogUpdatedRows(g/emb_grad/Reshape_1, ^g/emb_grad/Reshape) on worker0
        + S/position = UpdatedRowsPosition(IteratorGetNext:2) on worker0
        + S/later/IteratorGetNext_2 = Identity(IteratorGetNext:2, ^S/position) on worker0
    """)


def test_parts_of_a_table_have_one_position_and_the_sizes_by_which_ids_are_spread() -> None:
    passed = noted(single(shards=3))
    (region,) = told(passed).regions
    (found,) = region.tables
    assert found.shards == tuple("t/part_{}".format(number) for number in range(3))
    assert (found.rows, found.strategy, found.name) == ((14, 13, 13), "mod", "t")


def test_an_update_in_a_branch_cannot_be_counted() -> None:
    def in_a_branch(rows: Any) -> None:
        optimizer = tf.train.AdagradOptimizer(0.1)
        pairs = optimizer.compute_gradients(tf.add_n([tf.reduce_sum(one) for one in rows]))
        with control_flow_v2(False):
            tf.cond(tf.timestamp() > 0, lambda: optimizer.apply_gradients(pairs), tf.no_op)

    passed = noted(single(), made=unfused(), train=in_a_branch)
    (region,) = told(passed).regions
    assert region.tables[0].uncounted.endswith(": an update in a tf.cond")
    assert passed.view.of_op("LogUpdatedRows") == []
    assert passed.view.of_op("UpdatedRowsPosition") == ["staleness/0/position"]


def test_rows_that_nothing_updates_are_never_old() -> None:
    def frozen(inputs: Dict[str, Any]) -> List[Any]:
        rows = tf.get_variable("frozen", [40, 4], trainable=False)
        weights = tf.get_variable("w", [4])
        return [tf.nn.embedding_lookup(rows, inputs["one"]) * weights]

    passed = noted(frozen)
    assert passed.drawn() == [] and passed.name_map.part(Sampling) is None


def test_tables_that_are_refreshed_are_not_measured() -> None:
    made = sampling()
    limit = made.graph_options.optimizer_options.async_embedding_options.staleness_limit.add()
    limit.table, limit.updates = "near", 1
    passed = noted(single("near"), single("far"), made=made)
    (region,) = told(passed).regions
    assert [each.name for each in region.tables] == ["far"]


@pytest.mark.parametrize(
    "change",
    [
        lambda options: setattr(options.async_embedding_options, "staleness_sample_steps", 0),
        lambda options: setattr(options.async_embedding_options, "exact", True),
        lambda options: setattr(options, "micro_batch_num", 2),
        lambda options: setattr(options, "do_async_embedding", False),
    ],
)
def test_nothing_is_noted_where_nothing_is_sampled(change: Callable[[Any], None]) -> None:
    made = sampling()
    change(made.graph_options.optimizer_options)
    assert noted(single(), made=made).is_idle


def test_nothing_is_noted_without_a_session() -> None:
    assert noted(single(), async_embedding={}).is_idle


def test_a_sample_looks_the_next_batch_up_without_taking_it() -> None:
    passed = noted(single(), name="sample_lookups")
    assert passed.drawn({**SHORT, "sample/": "s/"}, "tables", "part_columns") == lines("""
        + S/s/peek = TensorBufferPeek()
        + S/s/first = Placeholder()
        + S/s/lookup_0/pooled = GroupEmbeddingLookup(t, S/s/peek:2, nothing_0/empty, \
          nothing_0/empty)
        + S/s/measure = MeasureStaleness(S/s/peek:2, S/s/peek:5, S/s/lookup_0/pooled, S/s/peek:4, \
          S/s/first) tables=['t'] part_columns=[0]
    """)
    (stage,) = told(passed).stages
    assert (stage.stage, stage.tables, stage.uncounted) == ("async_embedding", ("t",), ("",))


def test_a_sample_of_pooled_bags_reads_them_from_the_batch_too() -> None:
    def bags(inputs: Dict[str, Any]) -> List[Any]:
        return [tf.nn.safe_embedding_lookup_sparse(table("t", 4), sparse(inputs))]

    passed = noted(bags, name="sample_lookups")
    (again,) = (name for name in passed.view.of_op("GroupEmbeddingLookup") if "/sample/" in name)
    read = passed.view.inputs(again)[1:]
    assert [passed.view.op(tensor.node) for tensor in read] == ["TensorBufferPeek"] * 3


def test_copies_of_lookups_stay_where_their_tables_are() -> None:
    passed = noted(single(), name="sample_lookups", servers=1, made=unfused())
    copies = [name for name in passed.view.nodes if "/sample/embedding_lookup" in name]
    gather = next(name for name in copies if passed.view.op(name) == "GatherV2")
    assert passed.view.device(gather) == "/job:ps/task:0"
    assert list(passed.view.nodes[gather].attr["_class"].list.s) == [b"loc:@t"]


def test_nothing_is_sampled_that_did_not_move() -> None:
    def behind_a_placeholder(inputs: Dict[str, Any]) -> List[Any]:
        return [tf.nn.embedding_lookup(table("t", 4), inputs["one"] + tf.placeholder(tf.int32))]

    assert noted(behind_a_placeholder, name="sample_lookups").is_idle
