"""What a user can do about each refusal: the last column of docs/refusals.md, in plain text."""

from __future__ import annotations

from typing import Dict

REMEDIES: Dict[str, str] = {
    "adam_updates_whole_table": "Set group_embedding_options.lazy_adam if that rule will do",
    "batch_source_in_main": "Feed the pipeline from outside the step",
    "boundary_in_control_flow": (
        "Take the lookup out of the tf.cond, or put all that uses it inside"
    ),
    "collective_upstream": "Look up local ids, or leave it in main",
    "control_edge_from_main": "Remove the tf.control_dependencies around the lookup",
    "dense_variable_upstream": (
        "Compute them from the input alone, or mark the lookup with async_embedding_mark_node"
    ),
    "division_by_zero": (
        "Build the graph with TensorFlow 2, or look up with safe_embedding_lookup_sparse"
    ),
    "fusion_makes_a_circle": "Nothing, or choose lookups with group_embedding_options.lookups",
    "gather_not_by_row": "Look rows up along axis 0",
    "gradient_changed_before_update": "Nothing, unless the change can be done to the loss",
    "gradient_not_recognised": "Nothing, or take the gradient of the lookup's result",
    "group_too_small": "Lower the option",
    "ids_not_supported": "Give ids a static shape; cast ids and weights",
    "lookup_differs": (
        "Call tf.nn.safe_embedding_lookup_sparse or its relatives, and leave what they make as it "
        "is"
    ),
    "lookup_in_control_flow": "Look up outside of it",
    "lookup_in_function": "Look up outside of it, and hand the rows in",
    "lookup_not_chosen": "Add a pattern",
    "lookup_waits": "Take the lookup out of tf.control_dependencies",
    "loop_upstream": "Move the lookup before the loop",
    "marked_output_missing": "Mark the tensor, not another op",
    "marked_variable": "Mark the rows that were looked up",
    "no_io_dependence": "Nothing: there is nothing to run ahead",
    "no_io_stage": "Wrap the features in graph_opt.staged(...), or set infer_io_stage",
    "not_used_in_training": (
        "Nothing, or mark the result with async_embedding_mark_node to have it in each batch"
    ),
    "optimizer_unknown": "Use one of these, or expect the optimizer's own update",
    "partitions_concatenated": "Give the partitioned variable itself to tf.nn.embedding_lookup",
    "placeholder_upstream": (
        "Feed it through staged(..., feed_dict=...), or read the ids from a dataset"
    ),
    "pooled_dtype_differs": "Nothing: this lookup stays as it is",
    "rows_clipped": "Nothing: this lookup stays as it is",
    "rows_not_by_ids": "Use tf.nn.embedding_lookup and its relatives",
    "seeded_random_with_threads": "threads_num: 1, or no seed",
    "server_without_ops": (
        "Call graph_opt.load_op_library() in the server's process before it starts"
    ),
    "several_io_stages": "Zip the datasets into one",
    "shards_uneven": "Let a partitioner of TensorFlow split the table",
    "slots_differ": "Let the optimizer create its slots",
    "state_in_boundary": "Read the value before the lookup",
    "stateful_upstream": "Move it behind the lookup, or out of the step",
    "table_assigned": "Nothing, or keep such averages in variables of their own",
    "table_facts_missing": "Dump the graph again; it is not as TensorFlow wrote it",
    "table_not_supported": "Give the variable a static shape and one of these types",
    "table_updated_twice": "Train it with one optimizer",
    "table_updated_unevenly": "Train all of them with one optimizer and one train op",
    "tables_on_several_devices": "Place them together, or on parameter servers",
    "unknown_op": "Load the library that defines the op (tf.load_op_library)",
    "update_dtype": "Train in float32",
    "update_in_control_flow": "Update it in each step",
    "update_is_dense": "Take the penalty of the rows looked up",
    "update_not_recognised": "Use an optimizer of tf.train, or expect its own update",
    "update_output_read": "Read the variable itself, behind a control dependency",
}
