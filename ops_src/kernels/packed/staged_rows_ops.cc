#include "kernels/lookup/group_attributes.h"
#include "kernels/lookup/group_shapes.h"
#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

// Lookups of tables on servers that run ahead, with the rows of the step that uses them.
//
//   stage    Prepare ─> StageServedRows ══> Gather ══> Combine ─> rows, pooled rows
//   main     TakeServedRows ─> as they are, or ══> Gather ══> rows
//            rows, pooled rows ─> RefreshPacked ─> layers ─> PackGradients ══> ApplyPacked
//            KeepServedRows <══════════════════════════════════════ answers ════════╝
//            NextServedBatch ══> behind ApplyPacked: Gather ══> KeepServedBatch
//   between  FindLostRows ══> Gather ══> ReplaceLostRows, once the worker cannot know rows

namespace graph_opt {
namespace {

Status FindLostShape(InferenceContext* c) {
  for (int i = 0; i + 2 < c->num_outputs(); ++i) {
    c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
  }
  c->set_output(c->num_outputs() - 2, c->Scalar());
  c->set_output(c->num_outputs() - 1, c->Scalar());
  return Status();
}

Status StageShape(InferenceContext* c) {
  const int num_servers = c->num_inputs() - 1;
  for (int i = 0; i < num_servers; ++i) c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(num_servers, c->input(num_servers));
  c->set_output(num_servers + 1, c->Scalar());
  return Status();
}

Status NextShape(InferenceContext* c) {
  const int num_servers = c->num_outputs() - 1;
  for (int i = 0; i < num_servers; ++i) c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(num_servers, c->Scalar());
  return Status();
}

Status TakeShape(InferenceContext* c) {
  const int num_servers = c->num_outputs() - 2;
  for (int i = 0; i < num_servers; ++i) c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(num_servers, c->Scalar());
  c->set_output(num_servers + 1, c->Scalar());
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
    .Input("counts: int64")
    .Output("noted: num_servers * int64")
    .Output("noted_counts: int64")
    .Output("staged: variant")
    .Attr("num_servers: int >= 1")
    .Attr("shard_servers: list(int) >= 1")
    .Attr("shards: list(string) >= 1")
    .Attr("lookup: string")
    .SetIsStateful()
    .SetShapeFn(StageShape)
    .Doc(R"doc(
Notes which rows a batch is about to be sent, so that later updates of them ask for the new values.
Waits while an update of some of them is under way. Where bags are asked for, or updates of the shards
go by bags, nobody knows which rows they write: then nothing is asked for ahead.

requests: From GroupEmbeddingPrepare.
counts: From there, too.
noted: The requests, or such that ask for nothing.
noted_counts: The counts, or -2 for each shard, with which GroupEmbeddingCombine pools nothing.
staged: What updates make of the rows; once nothing holds it any more, they do not ask.
shard_servers: [shards]. The number of the server that each is on.
shards: [shards]. The name of each, or "": its rows are not kept up to date.
lookup: What the rows are for, by which FindLostRows knows them.)doc");

REGISTER_OP("TakeServedRows")
    .Input("staged: variant")
    .Output("requests: num_servers * int64")
    .Output("asks: bool")
    .Output("taken: variant")
    .Attr("num_servers: int >= 1")
    .SetIsStateful()
    .SetShapeFn(TakeShape)
    .Doc(R"doc(
Tells the step that uses a batch whether the rows that came with it are current, once what updates have
made of them since is written over them. Fails if nobody has known that the batch was lost.

staged: From StageServedRows.
requests: Those of the batch.
asks: Whether the step must ask servers for them: they were asked for neither ahead nor behind the
  update before, or another update may have written some of these rows since.
taken: For GroupEmbeddingRefreshPacked.)doc");

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
batches with such rows are lost.

answers: From GroupEmbeddingApplyPacked.
under_way: From GroupEmbeddingPackGradients.
shard_servers: [shards].
shard_widths: [shards].)doc");

REGISTER_OP("NextServedBatch")
    .Output("requests: num_servers * int64")
    .Output("next: variant")
    .Attr("num_servers: int >= 1")
    .Attr("shard_servers: list(int) >= 1")
    .Attr("shards: list(string) >= 1")
    .Attr("lookup: string")
    .Attr("num_updates: int >= 1")
    .SetIsStateful()
    .SetShapeFn(NextShape)
    .Doc(R"doc(
Asks for what the next step needs, of a lookup that is not asked for ahead. Runs once the updates of
this step have begun. What is asked for is read behind these.

requests: Those of the batch that has waited longest, or such that ask for nothing.
next: For KeepServedBatch.
shard_servers: [shards]. The number of the server that each is on.
shards: As for StageServedRows.
lookup: As there.
num_updates: How many updates of its tables a step has. While there are others, nothing is asked for.)doc");

REGISTER_OP("KeepServedBatch")
    .Input("rows: num_servers * T")
    .Input("next: variant")
    .Attr("T: {float, half, bfloat16}")
    .Attr("num_servers: int >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Keeps rows, or bags, for the step that takes their batch. It uses them unless another update has begun
by then.

rows: From GroupEmbeddingGather.
next: From NextServedBatch.
T: The type of all tables.)doc");

REGISTER_OP("LoseServedRows")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Tells that something else has written tables: batches that were staged before are lost.)doc");

REGISTER_OP("FindLostRows")
    .Output("requests: num_servers * int64")
    .Output("lost: variant")
    .Output("loss: int32")
    .Attr("num_servers: int >= 1")
    .Attr("shard_servers: list(int) >= 1")
    .Attr("shards: list(string) >= 1")
    .Attr("lookup: string")
    .SetIsStateful()
    .SetShapeFn(FindLostShape)
    .Doc(R"doc(
Finds a batch that is lost: the worker cannot know what has become of rows that it was sent. Runs
between steps. Waits while an update of some of the rows is under way.

requests: For GroupEmbeddingGather: the rows of the batch, or none.
lost: For ReplaceLostRows.
loss: Why: 1, a step failed behind its update; 2, something else wrote tables; 3, a step updated rows
  and did not run KeepServedRows; 0: no batch is lost.
shard_servers: [shards]. The number of the server that each is on.
shards: [shards]. As for StageServedRows.
lookup: As there.)doc");

REGISTER_OP("ReplaceLostRows")
    .Input("rows: num_servers * T")
    .Input("lost: variant")
    .Attr("T: {float, half, bfloat16}")
    .Attr("num_servers: int >= 1")
    .Attr("shard_servers: list(int) >= 1")
    .Attr("shard_widths: list(int) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Gives a lost batch its rows as they are now.

rows: From GroupEmbeddingGather.
lost: From FindLostRows.
T: The type of all tables.
shard_servers: [shards].
shard_widths: [shards].)doc");

REGISTER_OP("GroupEmbeddingRefreshPacked")
    .Input("rows: num_servers * T")
    .Input("inverse: int32")
    .Input("counts: int64")
    .GRAPH_OPT_GROUP_INPUTS.Input("read: pooled_dtypes")
    .Input("taken: variant")
    .Output("pooled: pooled_dtypes")
    .Output("ids_changed: int64")
    .Attr("T: {float, half, bfloat16}")
    .Attr("pooled_dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("table_widths: list(int) >= 1")
    .Attr("shard_servers: list(int) >= 1")
    .Attr("num_servers: int >= 1")
    .Attr("refresh_counts: string = ''")
    .GRAPH_OPT_GROUP_ATTRS.SetIsStateful()
    .SetShapeFn(RefreshPackedShape)
    .Doc(GroupDoc(R"doc(
Refreshes the result of GroupEmbeddingCombine that ran ahead: pools those bags again that have a
row with a new value. If the step has asked for the rows itself, pools all.

rows: Of each server, from GroupEmbeddingGather, ahead or in this step.
inverse: From GroupEmbeddingPrepare.
counts: From there, too.
read: What GroupEmbeddingCombine returned.
taken: From TakeServedRows.
pooled: As read, with the rows as they are now.
ids_changed: [2]. How many ids were looked up ahead, and how many of them have a row with a new value;
  none, if the step has asked for rows.
T: The type of all tables.
pooled_dtypes: [L], or [1] with columns: T.
table_widths: [T].
shard_servers: [shards]. The number of the server that each is on.
num_servers: Servers.
refresh_counts: The name by which GroupEmbeddingRefreshCounts knows what this op counts; empty: it
  counts nothing.)doc"));

}  // namespace
}  // namespace graph_opt
