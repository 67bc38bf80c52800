#include "kernels/lookup/group_attributes.h"
#include "kernels/lookup/group_shapes.h"
#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

// Lookups of tables on servers that run ahead, with the rows of the step that uses them.
//
//   stage    Prepare ─> StageServedRows ══> Gather ══> Combine ─> rows, pooled rows
//   main     rows, pooled rows ─> RefreshPacked ─> layers ─> PackGradients ══> ApplyPacked
//            KeepServedRows <══════════════════════════════════════ answers ════════╝

namespace graph_opt {
namespace {

Status StageShape(InferenceContext* c) {
  for (int i = 0; i < c->num_inputs(); ++i) c->set_output(i, c->input(i));
  c->set_output(c->num_inputs(), c->Scalar());
  return Status();
}

// As the pooled rows, which come before the last input.
Status RefreshPackedShape(InferenceContext* c) {
  const int num_pooled = c->num_outputs() - 1;
  const int first_read = c->num_inputs() - 1 - num_pooled;
  for (int i = 0; i < num_pooled; ++i) c->set_output(i, c->input(first_read + i));
  c->set_output(num_pooled, c->Vector(2));
  return Status();
}

REGISTER_OP("StageServedRows")
    .Input("requests: num_servers * int64")
    .Output("noted: num_servers * int64")
    .Output("staged: variant")
    .Attr("num_servers: int >= 1")
    .Attr("shard_servers: list(int) >= 1")
    .Attr("shards: list(string) >= 1")
    .SetIsStateful()
    .SetShapeFn(StageShape)
    .Doc(R"doc(
Notes which rows a batch is about to be sent, so that later updates of them ask for the new values.
Waits while an update of some of them is under way.

requests: From GroupEmbeddingPrepare, which must not ask servers to pool.
noted: The requests.
staged: What updates make of the rows; once nothing holds it any more, they do not ask.
shard_servers: [shards]. The number of the server that each is on.
shards: [shards]. The name of each, or "": its rows are not kept up to date.)doc");

REGISTER_OP("KeepServedRows")
    .Input("answers: num_servers * uint8")
    .Input("under_way: variant")
    .Attr("num_servers: int >= 1")
    .Attr("shard_servers: list(int) >= 1")
    .Attr("shard_widths: list(int) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Gives staged batches the rows that an update has changed. A step that updates must run it: otherwise
batches with such rows fail.

answers: From GroupEmbeddingApplyPacked.
under_way: From GroupEmbeddingPackGradients.
shard_servers: [shards].
shard_widths: [shards].)doc");

REGISTER_OP("LoseServedRows")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Tells that something else has written tables: batches that were staged before cannot be brought to
date.)doc");

REGISTER_OP("GroupEmbeddingRefreshPacked")
    .Input("rows: num_servers * T")
    .Input("inverse: int32")
    .Input("counts: int64")
    .GRAPH_OPT_GROUP_INPUTS.Input("read: pooled_dtypes")
    .Input("staged: variant")
    .Output("pooled: pooled_dtypes")
    .Output("ids_changed: int64")
    .Attr("T: {float, half, bfloat16}")
    .Attr("pooled_dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("table_widths: list(int) >= 1")
    .Attr("shard_servers: list(int) >= 1")
    .Attr("num_servers: int >= 1")
    .GRAPH_OPT_GROUP_ATTRS.SetIsStateful()
    .SetShapeFn(RefreshPackedShape)
    .Doc(GroupDoc(R"doc(
Brings the result of GroupEmbeddingCombine that ran ahead to date: pools those bags again that have a
row with a new value. Fails if a row has changed and its value did not come.

rows: Of each server, from GroupEmbeddingGather.
inverse: From GroupEmbeddingPrepare.
counts: From there, too.
read: What GroupEmbeddingCombine returned.
staged: From StageServedRows.
pooled: As read, with the rows as they are now.
ids_changed: [2]. How many ids there are, and how many of them have a row with a new value.
T: The type of all tables.
pooled_dtypes: [L], or [1] with columns: T.
table_widths: [T].
shard_servers: [shards]. The number of the server that each is on.
num_servers: Servers.)doc"));

}  // namespace
}  // namespace graph_opt
