#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

using tensorflow::shape_inference::NoOutputs;

REGISTER_OP("DynamicTableSave")
    .Input("prefix: string")
    .Input("table: resource")
    .Input("slots: num_slots * resource")
    .Attr("num_slots: int >= 0")
    .Attr("tensor_name: string")
    .Attr("slot_names: list(string) >= 0")
    .Attr("key_dtype: {int32, int64} = DT_INT64")
    .Attr("slot_dtypes: list({float, int32, int64}) = []")
    .Attr("slot_widths: list(int) = []")
    .Attr("evict: bool = false")
    .Attr("changes: bool = false")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Writes a dynamic table as it is at one moment, while training goes on, in DeepRec's tensors.

prefix: Of the checkpoint, which has nothing else.
slots: Handles of the slots that are written.
tensor_name: Name of the table in the checkpoint; empty: only its slots are written.
slot_names: Names of the slots there.
key_dtype: Of keys there.
slot_dtypes: Of slots there; empty if all are float. One of integers is a number for each row, which
  the table has in all columns.
slot_widths: How many columns slots have there, as slot_dtypes. All but the first are 0 in one of
  integers.
evict: Whether the table's eviction policy removes rows first.
changes: Only rows that have changed since DynamicTableTrackChanges was last committed, and the keys
  that lost theirs.)doc");

REGISTER_OP("DynamicTableRestore")
    .Input("prefix: string")
    .Input("table: resource")
    .Input("slots: num_slots * resource")
    .Attr("num_slots: int >= 0")
    .Attr("tensor_name: string")
    .Attr("slot_names: list(string) >= 0")
    .Attr("key_dtype: {int32, int64} = DT_INT64")
    .Attr("part: int >= 0 = 0")
    .Attr("num_parts: int >= 1 = 1")
    .Attr("owner_rule: {'key1000', 'key'} = 'key1000'")
    .Attr("slot_dtypes: list({float, int32, int64}) = []")
    .Attr("rows: bool = true")
    .Attr("changes: bool = false")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Reads a dynamic table, or the keys of one of its parts, from a checkpoint with any number of parts.

prefix: What tf.train.Saver.save has returned.
tensor_name: Name of the table in the checkpoint, without /part_N.
slot_names: Names of the slots there, with {} for the name of the table or its part.
key_dtype: Of the table's keys; either is read.
slot_dtypes: Of slots, as in DynamicTableSave. One of integers is read from numbers of any type and
  width.
owner_rule: Which part has a key: non-negative key mod 1000 mod parts, or key mod parts.
rows: Whether the table itself is read, or its slots only, for keys that it has.
changes: Whether the checkpoint has changes to be added to what the table has, instead of all of
  it.)doc");

REGISTER_OP("DynamicTableTrackChanges")
    .Input("table: resource")
    .Attr("action: {'begin', 'commit'}")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Tells a dynamic table that a full checkpoint is about to be written, or has been: changes are those
since the last one that has been.)doc");

}  // namespace
}  // namespace graph_opt
