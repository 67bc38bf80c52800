"""For each refusal code, a small model as users write them whose report contains it.

A function gets one batch (`fused_models.batches`), builds its model in the default graph, and
returns a GraphDef only if it has to change one by hand. Codes of updates are covered by
`refused_updates.py`.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.contrib.lookup import MutableHashTable
from graph_opt.runtime.mark import async_embedding_mark_node
from graph_opt.runtime.staged import staged
from tests.passes import fused_models, models

Inputs = Dict[str, Any]
Build = Callable[[Inputs], Optional[Any]]


class Refused(NamedTuple):
    """A model that a pass leaves partly unchanged, and the config for the rewrite."""

    build: Build
    config: Any


MODELS: Dict[str, Refused] = {}


def left_in_main(code: str, **options: Any) -> Callable[[Build], Build]:
    """Registers a model whose lookup does not run ahead."""
    return registered(code, models.config(**options))


def left_unfused(code: str, **options: Any) -> Callable[[Build], Build]:
    """Registers a model whose lookup, gradient or update is not fused."""
    return registered(code, fused_models.config(**options))


def registered(code: str, config: Any) -> Callable[[Build], Build]:
    """Registers a model that is rewritten with this config."""

    def register(build: Build) -> Build:
        assert code not in MODELS
        MODELS[code] = Refused(build, config)
        return build

    return register


def trained(rows: Any, optimizer: Optional[Any] = None) -> Any:
    """The train op of a loss over rows."""
    loss = tf.reduce_sum(tf.square(tf.cast(rows, tf.float32)), name="loss")
    return (optimizer or tf.train.AdagradOptimizer(0.1)).minimize(loss)


def looked_up(ids: Any) -> Any:
    """Rows of a table, trained."""
    rows = tf.nn.embedding_lookup(models.table(), ids)
    trained(rows)
    return rows


def changed(change: Callable[[Any], None], **attributes: Any) -> Any:
    """The default graph as a GraphDef, after `change` was called with each of its nodes."""
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    for node in graph_def.node:
        change(node)
    return graph_def


class ControlFlowV1:
    """Builds control flow with Switch, Merge and Enter in place of functions."""

    def __enter__(self) -> None:
        self._was_enabled = tf.control_flow_v2_enabled()
        tf.disable_control_flow_v2()

    def __exit__(self, *error: Any) -> None:
        if self._was_enabled:
            tf.enable_control_flow_v2()


# Lookups that do not run ahead.


@left_in_main("placeholder_upstream")
def shifted_by_a_fed_offset(inputs: Inputs) -> None:
    looked_up(inputs["one"] + tf.placeholder(tf.int64, []))


@left_in_main("no_io_dependence")
def of_constants(inputs: Inputs) -> None:
    looked_up(tf.constant([1, 2]))


@left_in_main("no_io_stage", infer_io_stage=False)
def one_of_two_inputs_is_staged(inputs: Inputs) -> None:
    looked_up(staged(inputs)["one"])
    with tf.variable_scope("other"):
        looked_up(fused_models.batches(seed=1)["one"])


@left_in_main("stateful_upstream")
def counting_ids(inputs: Inputs) -> None:
    seen = tf.get_variable("seen", [], tf.int64, tf.zeros_initializer(), use_resource=False)
    with tf.control_dependencies([tf.assign_add(seen, tf.reduce_sum(inputs["one"]))]):
        looked_up(tf.identity(inputs["one"]))


def fed_batch(handle: Any, shape: Any) -> Any:
    """Ids from the iterator with this handle."""
    iterator = tf.data.Iterator.from_string_handle(handle, tf.int64, shape)
    return iterator.get_next()


@left_in_main("choice_not_fed")
def of_the_iterator_that_a_variable_names(inputs: Inputs) -> None:
    iterator = tf.data.make_one_shot_iterator(tf.data.Dataset.range(9).batch(3))
    handle = tf.get_variable("handle", [], tf.string, tf.zeros_initializer(), use_resource=False)
    tf.assign(handle, iterator.string_handle())
    looked_up(fed_batch(handle, [None]))


@left_in_main("fed_iterator_unknown")
def of_an_iterator_of_another_process(inputs: Inputs) -> None:
    looked_up(fed_batch(tf.placeholder(tf.string, []), [7, 2]))


@left_in_main("control_edge_from_main")
def after_counting_steps(inputs: Inputs) -> None:
    steps = tf.get_variable("steps", [], tf.int64, tf.zeros_initializer(), use_resource=False)
    with tf.control_dependencies([tf.assign_add(steps, 1)]):
        looked_up(tf.identity(inputs["one"]))


@left_in_main("dense_variable_upstream")
def ids_from_a_variable(inputs: Inputs) -> None:
    shift = tf.get_variable("shift", [], tf.int64, tf.zeros_initializer(), use_resource=False)
    looked_up(inputs["one"] + shift)


@left_in_main("hash_table_written")
def ids_numbered_as_they_come(inputs: Inputs) -> None:
    numbers = MutableHashTable(tf.int64, tf.int64, 0)
    looked_up(numbers.lookup(inputs["one"]))
    numbers.insert(inputs["one"], inputs["one"])


@left_in_main("seeded_random_with_threads", threads_num=2)
def dropping_ids(inputs: Inputs) -> None:
    kept = tf.random_uniform(tf.shape(inputs["one"]), seed=3) < 0.5
    looked_up(tf.where(kept, inputs["one"], tf.zeros_like(inputs["one"])))


@left_in_main("loop_upstream")
def behind_a_loop(inputs: Inputs) -> None:
    with ControlFlowV1():
        ids = tf.while_loop(
            lambda ids: tf.reduce_sum(ids) < 0, lambda ids: [ids + 1], [inputs["one"]]
        )
    looked_up(ids)


@left_in_main("boundary_in_control_flow")
def a_branch_that_main_reads(inputs: Inputs) -> None:
    branches = []

    def branch() -> Any:
        branches.append(inputs["one"] + 0)
        return branches[0]

    with ControlFlowV1():
        ids = tf.cond(tf.reduce_sum(inputs["one"]) > 0, branch, lambda: inputs["one"] * 0)
    looked_up(ids)
    tf.identity(branches[0])


@left_in_main("several_io_stages")
def ids_of_two_inputs(inputs: Inputs) -> None:
    looked_up(inputs["one"] + 0 * fused_models.batches(seed=1)["one"])


@left_in_main("batch_source_in_main")
def a_queue_that_waits_for_a_batch(inputs: Inputs) -> None:
    queue = tf.FIFOQueue(8, [tf.int64], [[]])
    looked_up(queue.dequeue_many(tf.size(inputs["one"])))


@left_in_main("batch_source_shared")
def two_reads_of_an_iterator(inputs: Inputs) -> None:
    iterator = tf.data.make_one_shot_iterator(tf.data.Dataset.range(9).repeat())
    looked_up(iterator.get_next())
    iterator.get_next()


@left_in_main("collective_upstream")
def ids_of_all_ranks(inputs: Inputs) -> None:
    looked_up(
        tf.raw_ops.CollectiveReduce(
            input=inputs["one"],
            group_size=1,
            group_key=1,
            instance_key=1,
            merge_op="Add",
            final_op="Id",
            subdiv_offsets=[0],
        )
    )


@left_in_main("state_in_boundary")
def a_handle_beside_the_ids(inputs: Inputs) -> None:
    table = models.table(resource=True)
    ids, handle = tf.identity_n([inputs["one"], table.handle])
    async_embedding_mark_node(handle)
    tf.raw_ops.ResourceGather(resource=handle, indices=ids, dtype=tf.float32)


@left_in_main("unknown_op")
def ids_hashed_by_another_library(inputs: Inputs) -> Any:
    looked_up(tf.identity(inputs["one"], name="hash"))
    tf.identity(tf.get_default_graph().get_tensor_by_name("hash:0"), name="reader")

    def change(node: Any) -> None:
        if node.name == "hash":
            node.op = "HashOfAnotherLibrary"
            node.attr.clear()

    return changed(change)


@left_in_main("marked_output_missing")
def a_mark_on_what_is_not_there(inputs: Inputs) -> Any:
    looked_up(inputs["one"])
    async_embedding_mark_node(tf.identity(inputs["dense"], name="marked"))

    def change(node: Any) -> None:
        if node.name == "marked":
            node.attr["_async_embedding_marked_outputs"].list.i[:] = [3]

    return changed(change)


@left_in_main("marked_variable")
def a_mark_on_a_whole_table(inputs: Inputs) -> None:
    async_embedding_mark_node(tf.identity(models.table("marked")))
    looked_up(inputs["one"])


@left_in_main("gather_not_by_row")
def columns_of_a_table(inputs: Inputs) -> None:
    trained(tf.gather(tf.identity(models.table()), inputs["one"] % models.WIDTH, axis=1))


@left_in_main("lookup_in_function")
def in_a_function(inputs: Inputs) -> None:
    table = models.table(resource=True)
    trained(tf.function(lambda ids: tf.nn.embedding_lookup(table, ids))(inputs["one"]))


@left_in_main("partitions_concatenated")
def of_a_partitioned_table_taken_whole(inputs: Inputs) -> None:
    trained(tf.gather(models.table(partitions=2), inputs["one"]))


@left_in_main("table_computed")
def of_a_table_with_a_row_for_padding(inputs: Inputs) -> None:
    padded = tf.concat([tf.zeros([1, models.WIDTH]), models.table()[1:]], 0)
    trained(tf.nn.embedding_lookup(padded, inputs["one"]))


@left_in_main("table_attributes_missing")
def of_a_variable_without_shape(inputs: Inputs) -> Any:
    looked_up(inputs["one"])

    def change(node: Any) -> None:
        if node.op == "VariableV2" and node.name == "table":
            del node.attr["shape"]

    return changed(change)


# Lookups that are not fused.


@left_unfused("lookup_in_control_flow")
def in_a_branch(inputs: Inputs) -> None:
    table = models.table()
    with ControlFlowV1():
        rows = tf.cond(
            tf.reduce_sum(inputs["one"]) > 0,
            lambda: tf.nn.embedding_lookup(table, tf.identity(inputs["one"])),
            lambda: tf.zeros([fused_models.BATCH, models.WIDTH]),
        )
    trained(rows)


@left_unfused("lookup_not_chosen", lookups=["^user"])
def of_another_name(inputs: Inputs) -> None:
    looked_up(inputs["one"])


@left_unfused("not_used_in_training")
def fetched_alone(inputs: Inputs) -> None:
    looked_up(inputs["one"])
    tf.nn.embedding_lookup(models.table("other"), inputs["one"])


@left_unfused("group_too_small", minimum_lookups=2)
def alone(inputs: Inputs) -> None:
    looked_up(inputs["one"])


@left_unfused("rows_clipped")
def clipped_rows(inputs: Inputs) -> None:
    trained(tf.nn.embedding_lookup(models.table(), inputs["one"], max_norm=1.0))


@left_unfused("rows_not_by_ids")
def by_coordinates(inputs: Inputs) -> None:
    trained(tf.gather_nd(models.table(), inputs["one"][:, tf.newaxis]))


@left_unfused("ids_not_supported")
def of_ids_without_a_rank(inputs: Inputs) -> None:
    trained(tf.nn.embedding_lookup(models.table(), tf.placeholder(tf.int64, None)))


@left_unfused("lookup_differs")
def of_a_counted_number_of_bags(inputs: Inputs) -> None:
    ids = tf.sparse.from_dense(inputs["more"])
    bags = tf.cast(ids.indices[:, 0], tf.int32)
    trained(tf.sparse_segment_mean(models.table(), ids.values, bags, num_segments=9))


@left_unfused("lookup_waits")
def built_under_a_control_dependency(inputs: Inputs) -> None:
    table, ids = models.table(), tf.sparse.from_dense(inputs["more"])
    with tf.control_dependencies([tf.assign_add(tf.get_variable("count", []), 1.0)]):
        rows = tf.nn.safe_embedding_lookup_sparse(table, ids)
    trained(rows)


@left_unfused("pooled_dtype_differs")
def half_as_tensorflow_1_combines_it(inputs: Inputs) -> None:
    ids = tf.sparse.from_dense(inputs["more"])
    unique, places = tf.unique(ids.values)
    table = tf.get_variable("table", [models.VOCABULARY, 4], tf.float16)
    rows = tf.cast(tf.nn.embedding_lookup(table, unique), tf.float32)
    trained(tf.sparse_segment_mean(rows, places, tf.cast(ids.indices[:, 0], tf.int32)))


@left_unfused("table_not_supported")
def of_doubles(inputs: Inputs) -> None:
    table = tf.get_variable("table", [models.VOCABULARY, 4], tf.float64)
    trained(tf.nn.embedding_lookup(table, inputs["one"]))


@left_unfused("shards_uneven")
def of_shards_by_hand(inputs: Inputs) -> None:
    shards = [tf.get_variable("shard_{}".format(rows), [rows, 4]) for rows in (9, 14)]
    trained(tf.nn.embedding_lookup(shards, inputs["one"]))


@left_unfused("tables_on_several_devices")
def of_shards_on_two_devices(inputs: Inputs) -> None:
    shards = []
    for number in range(2):
        with tf.device("/device:CPU:{}".format(number)):
            shards.append(tf.get_variable("shard_{}".format(number), [12, 4]))
    trained(tf.nn.embedding_lookup(shards, inputs["one"]))


@left_unfused("server_without_ops")
def of_a_server_that_nobody_asked(inputs: Inputs) -> None:
    with tf.device(tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")):
        looked_up(fused_models.batches(seed=1)["one"])
