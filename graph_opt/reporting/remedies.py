"""What a user can do about each refusal: the last column of docs/refusals.md as plain text."""

from __future__ import annotations

from typing import Dict

REMEDIES: Dict[str, str] = {
    "adam_updates_whole_table": (
        "Set group_embedding_options.adam to 'deferred', or to 'lazy' if moving only those rows is "
        "good enough"
    ),
    "average_not_deferrable": (
        "Make one average of each table with ema.apply, outside of tf.cond, of resource variables "
        "if tables are on servers"
    ),
    "batch_source_in_main": "Feed the pipeline from outside the step",
    "boundary_in_control_flow": (
        "Move the lookup out of the tf.cond, or move everything that uses it inside"
    ),
    "choice_not_fed": "Choose the input with a placeholder",
    "collective_upstream": "Look up local ids, or leave the lookup in main",
    "control_edge_from_main": "Remove the tf.control_dependencies around the lookup",
    "dense_variable_upstream": (
        "Compute the ids and weights from the input alone, or mark the lookup with "
        "async_embedding_mark_node"
    ),
    "division_by_zero": "Build the graph with TensorFlow 2, or use safe_embedding_lookup_sparse",
    "exact_elsewhere": (
        "Nothing, or let these lookups run ahead with rows that miss some updates: leave exact out"
    ),
    "exact_not_fused": (
        "See why the lookup is not fused; fuse_inference also fuses those of graphs that train "
        "nothing"
    ),
    "exact_several_inputs": "Put all that a step reads into one dataset",
    "exact_table_written": (
        "Let only the optimizer write the table, with an update that can be fused; for Adam, set "
        "group_embedding_options.adam to 'lazy' if that is good enough"
    ),
    "fed_iterator_unknown": "Make all iterators before the session's first run",
    "fusion_makes_a_cycle": "Nothing, or choose lookups with group_embedding_options.lookups",
    "gather_not_by_row": "Look up rows along axis 0",
    "gradient_accumulated": "Nothing: the update takes what the accumulator returns",
    "gradient_changed_before_update": "Nothing: TensorFlow's gradient only gives rows a shape",
    "gradient_not_gathered": (
        "Reduce the gradients of the table with hvd.allreduce or hvd.DistributedOptimizer, without "
        "sparse_as_dense, and clip them before"
    ),
    "gradient_not_recognised": "Nothing, or take the gradient of the lookup's result",
    "group_too_small": "Lower group_embedding_options.minimum_lookups",
    "ids_not_supported": "Give the ids a static shape; cast ids and weights",
    "keys_counted_twice": "Nothing: this lookup is left unchanged",
    "lookup_by_key_differs": (
        "Let the table count keys, and give new rows and bags without ids what its options say"
    ),
    "lookup_differs": (
        "Call tf.nn.safe_embedding_lookup_sparse or a similar function, and do not modify the "
        "nodes it makes"
    ),
    "lookup_in_control_flow": "Do the lookup outside of the control flow",
    "lookup_in_function": "Do the lookup outside of the function, and pass the rows in",
    "lookup_not_chosen": "Add a pattern to group_embedding_options.lookups",
    "lookup_waits": "Move the lookup out of tf.control_dependencies",
    "loop_upstream": "Move the lookup before the loop",
    "marked_output_missing": "Mark the tensor, not another op",
    "marked_variable": "Mark the rows that were looked up",
    "no_io_dependence": "Nothing: there is nothing to run ahead",
    "no_io_stage": "Wrap the features in graph_opt.staged(...), or set infer_io_stage",
    "no_source_to_pull": (
        "Read batches from one dataset or queue, or set micro_batch_rule to parts, which divides "
        "the batch that is there"
    ),
    "not_used_in_training": (
        "Nothing, or mark the result with async_embedding_mark_node to have it in each batch"
    ),
    "optimizer_unknown": "Use an optimizer that can be fused, or expect this update to stay",
    "partitions_concatenated": "Pass the partitioned variable itself to tf.nn.embedding_lookup",
    "penalty_on_whole_table": (
        "Put the penalty on the looked-up rows, or use AdamW, whose weight decay stands beside the "
        "gradient"
    ),
    "pipeline_in_control_flow": "Update in each step, by a gradient of zero if need be",
    "pipeline_read_in_main": (
        "Let lookups run ahead (do_async_embedding), and read updated values in a step of their own"
    ),
    "pipeline_several_steps": "Train in one step, or leave pipeline_dense off",
    "pipeline_several_workers": "Replicate between graphs, with tf.train.replica_device_setter",
    "pipeline_synchronous": "Train asynchronously, or leave pipeline_dense off",
    "pipeline_waited_for": (
        "Let only the train op wait for updates (minimize, apply_gradients, tf.group)"
    ),
    "placeholder_upstream": (
        "Feed the placeholder through staged(..., feed_dict=...), or read the ids from a dataset"
    ),
    "pooled_dtype_differs": "Nothing: this lookup is left unchanged",
    "rows_clipped": "Nothing: this lookup is left unchanged",
    "rows_mixed": "Compute each row from its own row until the loss, or set micro_batch_num to 0",
    "rows_not_by_ids": "Use tf.nn.embedding_lookup or a similar function",
    "seeded_random_with_threads": "Set threads_num to 1, or use no seed",
    "server_without_ops": (
        "Call graph_opt.load_op_library() in the server's process before it starts"
    ),
    "several_io_stages": "Zip the datasets into one",
    "shards_uneven": "Let one of TensorFlow's partitioners split the table",
    "slots_differ": "Let the optimizer create its own slots",
    "state_in_boundary": "Read the value before the lookup",
    "stateful_upstream": "Move the operation behind the lookup, or out of the step",
    "step_not_repeatable": ("Move the operation out of the step, or set micro_batch_rule to parts"),
    "table_assigned": "Nothing, or keep such averages in variables of their own",
    "table_attributes_missing": "Dump the graph again; it is not as TensorFlow wrote it",
    "table_computed": (
        "Look rows up in the variable itself, and change the rows: multiply those of padding by 0"
    ),
    "table_not_supported": (
        "Give the variable a static shape and one of the dtypes float32, float16 and bfloat16"
    ),
    "table_not_trained": "Nothing, or divide it with sok.Variable",
    "table_read_whole": "Compute such values from the looked-up rows, or leave the table whole",
    "table_updated_twice": "Train the table with one optimizer",
    "tables_on_several_devices": "Place the shards together, or on parameter servers",
    "transfer_device_unknown": (
        "Place what reads the variable on a CPU with job and task, as "
        "tf.train.replica_device_setter(worker_device='/job:worker/task:0') does"
    ),
    "transfer_for_initializer": (
        "Compute initial values from constants, or from initialized_value() of the other variable"
    ),
    "transfer_in_control_flow": "Read the variable before the tf.cond or tf.while_loop",
    "transfer_size_unknown": (
        "Give the variable a static shape and a numeric dtype, and let assignments validate shapes"
    ),
    "transfer_too_large": (
        "Nothing: copying it would take longer than a call. Raise pack_dense_max_bytes if calls "
        "are slower than usual"
    ),
    "transfer_waits": "Nothing, or read such variables after the same control dependencies",
    "unknown_op": "Load the library that defines the op (tf.load_op_library)",
    "update_dtype": "Train in float32",
    "update_in_control_flow": "Update the table outside of the loop",
    "update_is_dense": (
        "Compute the loss from looked-up rows, and change gradients only by what leaves rows of "
        "zeros at zero, or change the values of IndexedSlices"
    ),
    "update_not_deferrable": (
        "Place table and slots on a CPU, and give Adam an epsilon greater than 0; or set "
        "group_embedding_options.adam to 'lazy'"
    ),
    "update_not_recognised": "Use an optimizer of tf.train, or expect this update to stay",
    "update_not_summed": "Use an optimizer of tf.train or of graph_opt",
    "update_output_read": "Read the variable itself, behind a control dependency",
}
