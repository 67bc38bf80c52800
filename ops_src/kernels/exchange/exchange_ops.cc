#include <string>
#include <vector>

#include "kernels/apply/optimizer_attributes.h"
#include "kernels/lookup/group_attributes.h"
#include "kernels/lookup/group_shapes.h"
#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"

// Group lookups whose tables are spread over ranks, each of which looks up its own bags. One
// message with requests goes from each rank to each other one, one with rows comes back, and one
// with the rows' gradients goes out, whatever the number of tables:
//
//   rank    GroupEmbeddingPrepare      ids -> requests
//   rank    ExchangeRequests           requests, once the step's other exchanges have theirs
//   owner   ExchangeGather             requests of all ranks -> rows
//   rank    ExchangeCombine            rows -> pooled rows
//   rank    ExchangeCombineGrad        gradients of pooled rows -> gradients of rows
//   owner   ExchangeGatherGrad         gradients from all ranks -> gradients of its shards
//   owner   ExchangeApply              or: gradients from all ranks -> shards, updated
//
// If rows and pooled rows were made ahead of the step that uses them, another message refreshes
// them there:
//
//   owner   ExchangeChangedRows        requests of all ranks -> rows that have changed since
//   rank    ExchangeRefresh            changed rows -> rows and pooled rows as they are now
//
// A rank that has no batch to look up sends what came in its place instead of requests:
//
//   rank    ExchangeFailure            error -> the message with the requests
//   rank    ExchangeStatus             the messages of all ranks -> the error that all agree on

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

Status ReadTableWidths(InferenceContext* c, std::vector<DimensionHandle>* dims) {
  std::vector<tensorflow::int64> widths;
  TF_RETURN_IF_ERROR(c->GetAttr("table_widths", &widths));
  for (tensorflow::int64 width : widths) {
    if (width < 0) return errors::InvalidArgument("table_widths has ", width);
    dims->push_back(c->MakeDim(width));
  }
  return Status();
}

Status RequireVectors(InferenceContext* c, int first, int count) {
  ShapeHandle vector;
  for (int i = first; i < first + count; ++i) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 1, &vector));
  }
  return Status();
}

Status GatherShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(RequireVectors(c, c->num_inputs() - 2, 2));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(1, c->input(c->num_inputs() - 1));
  return Status();
}

Status GatherGradShape(InferenceContext* c) {
  std::vector<DimensionHandle> dims;
  TF_RETURN_IF_ERROR(RequireVectors(c, 0, 4));
  TF_RETURN_IF_ERROR(ReadTableWidths(c, &dims));
  const int num_shards = c->num_outputs() / 2;
  for (int i = 0; i < num_shards && i < static_cast<int>(dims.size()); ++i) {
    const DimensionHandle rows = c->UnknownDim();
    c->set_output(i, c->Vector(rows));
    c->set_output(num_shards + i, c->Matrix(rows, dims[i]));
  }
  return Status();
}

Status ChangedRowsShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(RequireVectors(c, c->num_inputs() - 3, 3));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(1, c->input(c->num_inputs() - 2));
  return Status();
}

constexpr int kCombineInputs = 4;  // before the ids

// As the pooled rows, which come last.
Status RefreshShape(InferenceContext* c) {
  int num_ranks;
  TF_RETURN_IF_ERROR(c->GetAttr("num_servers", &num_ranks));
  TF_RETURN_IF_ERROR(RequireVectors(c, 0, kCombineInputs + num_ranks + 2));
  const int num_pooled = c->num_outputs() - 2;
  const int first_read = c->num_inputs() - num_pooled;
  for (int i = 0; i < num_pooled; ++i) c->set_output(i, c->input(first_read + i));
  c->set_output(num_pooled, c->input(0));
  c->set_output(num_pooled + 1, c->Vector(2));
  return Status();
}

Status CombineShape(InferenceContext* c) {
  std::vector<DimensionHandle> dims;
  TF_RETURN_IF_ERROR(RequireVectors(c, 0, kCombineInputs));
  TF_RETURN_IF_ERROR(ReadTableWidths(c, &dims));
  return SetPooledShapes(c, kCombineInputs, dims);
}

Status CombineGradShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(RequireVectors(c, 0, 2));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return Status();
}

Status CombineWeightsGradShape(InferenceContext* c) {
  int num_lookups;
  TF_RETURN_IF_ERROR(RequireVectors(c, 0, kCombineInputs));
  TF_RETURN_IF_ERROR(c->GetAttr("num_lookups", &num_lookups));
  const int first_weights = kCombineInputs + 3 * num_lookups;
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(first_weights + i));
  return Status();
}

#define GATHER_ATTRS                          \
  Attr("num_shards: int >= 1")                \
      .Attr("T: {float, half, bfloat16}")     \
      .Attr("table_names: list(string) >= 1") \
      .Attr("table_widths: list(int) >= 1")   \
      .Attr("served: list(int)")              \
      .Attr("by_key: list(bool) = []")

const char kServedDoc[] = R"doc(
requests: From all ranks, rank after rank: what ExchangeRequests or ExchangeFailure gives for this
  rank.
splits: [ranks]. How many numbers each rank has sent.
num_shards: Of this rank.
T: The type of the shards.
table_names: [shards]. For errors.
table_widths: [shards].
served: The numbers of the shards that requests are about, in their order. The others, such as the
  empty ones of tables that are on other ranks, get no gradient.
by_key: Empty, or [shards]: whether it is of a dynamic table, whose rows are asked for by key.)doc";

const char kGatherDoc[] = R"doc(
Reads the rows that all ranks ask for. If a rank has sent an error instead, or the input of all has
ended, it fails with that error, on all ranks.

tables: Shards of this rank, [rows, width].
rows: The rows for each rank, rank after rank, as GroupEmbeddingGather gives them.
row_splits: [ranks]. How many elements each rank gets.
exchange: Name of the exchange, unique in the process. Before it fails because of a rank's error, it
  waits for the other exchanges of the step that graph_opt_expect_exchanges has named.)doc";

REGISTER_OP("ExchangeGather")
    .Input("tables: num_shards * T")
    .Input("requests: int64")
    .Input("splits: int32")
    .Output("rows: T")
    .Output("row_splits: int32")
    .GATHER_ATTRS.Attr("exchange: string = ''")
    .SetShapeFn(GatherShape)
    .Doc(std::string(kGatherDoc) + kServedDoc);

REGISTER_OP("ResourceExchangeGather")
    .Input("tables: num_shards * resource")
    .Input("requests: int64")
    .Input("splits: int32")
    .Output("rows: T")
    .Output("row_splits: int32")
    .GATHER_ATTRS.Attr("exchange: string = ''")
    .SetShapeFn(GatherShape)
    .Doc(std::string(kGatherDoc) + kServedDoc);

const char kChangedRowsDoc[] = R"doc(
Of the rows that ExchangeGather has sent for a batch, gives those that updates have written since more often
than they may miss, and perhaps a few more.

tables: Shards of this rank, [rows, width].
log_position: [shards]. What RowLogPosition returned before ExchangeGather ran.
changed: The new rows for each rank, rank after rank, with what says which they are.
changed_splits: [ranks]. How many numbers each rank gets.
row_logs: For each shard, the container and name of the log of its updates: `container:name`, or the
  name alone; empty: its rows stay as they were sent.
may_miss: Empty, or for each shard how many updates its rows may miss; empty: none.)doc";

REGISTER_OP("ExchangeChangedRows")
    .Input("tables: num_shards * T")
    .Input("requests: int64")
    .Input("splits: int32")
    .Input("log_position: int64")
    .Output("changed: int64")
    .Output("changed_splits: int32")
    .GATHER_ATTRS.Attr("row_logs: list(string) >= 1")
    .Attr("may_miss: list(int) = []")
    .SetIsStateful()
    .SetShapeFn(ChangedRowsShape)
    .Doc(std::string(kChangedRowsDoc) + kServedDoc);

REGISTER_OP("ResourceExchangeChangedRows")
    .Input("tables: num_shards * resource")
    .Input("requests: int64")
    .Input("splits: int32")
    .Input("log_position: int64")
    .Output("changed: int64")
    .Output("changed_splits: int32")
    .GATHER_ATTRS.Attr("row_logs: list(string) >= 1")
    .Attr("may_miss: list(int) = []")
    .SetIsStateful()
    .SetShapeFn(ChangedRowsShape)
    .Doc(std::string(kChangedRowsDoc) + kServedDoc);

REGISTER_OP("ExchangeGatherGrad")
    .Input("requests: int64")
    .Input("splits: int32")
    .Input("gradients: T")
    .Input("table_rows: int64")
    .Output("indices: num_shards * int64")
    .Output("values: num_shards * T")
    .GATHER_ATTRS.SetShapeFn(GatherGradShape)
    .Doc(std::string(R"doc(
Sums the gradients that all ranks send by row. Those of a row are added in the order of the ranks.

gradients: Of the rows that ExchangeGather gave, in their order.
table_rows: [shards]. Rows of each; not read where it goes by key.
indices: Of each shard: the rows with a gradient, ascending; or the keys, as ranks have named them.
values: Their gradients.)doc") +
         kServedDoc);

const char kApplyDoc[] = R"doc(
Updates the rows of which all ranks send gradients: what GroupEmbeddingApply does with what ExchangeGatherGrad
gives, to the bit.

tables: Shards of this rank, [rows, width]; none of them dynamic.
gradients: Of the rows that ExchangeGather gave, in their order.
divisor: One scalar by which the sums of the gradients are divided, or none.)doc";

#define APPLY_ATTRS                           \
  Attr("num_divisors: int >= 0 = 0")          \
      .Attr("num_shards: int >= 1")           \
      .Attr("T: {float} = DT_FLOAT")          \
      .Attr("table_names: list(string) >= 1") \
      .Attr("table_widths: list(int) >= 1")   \
      .Attr("served: list(int)")              \
      .Attr("by_key: list(bool) = []")        \
      .GRAPH_OPT_OPTIMIZER_ATTRS.GRAPH_OPT_ROW_LOG_ATTRS

REGISTER_OP("ExchangeApply")
    .Input("tables: Ref(num_shards * float)")
    .Input("slots: Ref(num_slots * float)")
    .Input("hyperparameters: num_hyperparameters * float")
    .Input("requests: int64")
    .Input("splits: int32")
    .Input("gradients: float")
    .Input("divisor: num_divisors * float")
    .APPLY_ATTRS.SetIsStateful()
    .SetAllowsUninitializedInput()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(OptimizerDoc(RowLogsDoc(std::string(kApplyDoc) + kServedDoc)));

REGISTER_OP("ResourceExchangeApply")
    .Input("tables: num_shards * resource")
    .Input("slots: num_slots * resource")
    .Input("hyperparameters: num_hyperparameters * float")
    .Input("requests: int64")
    .Input("splits: int32")
    .Input("gradients: float")
    .Input("divisor: num_divisors * float")
    .APPLY_ATTRS.SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(OptimizerDoc(RowLogsDoc(std::string(kApplyDoc) + kServedDoc)));

#define PLACEMENT_ATTRS                      \
  Attr("table_widths: list(int) >= 1")       \
      .Attr("shard_servers: list(int) >= 1") \
      .Attr("num_servers: int >= 1")

const char kSentDoc[] = R"doc(
inverse: From GroupEmbeddingPrepare, with the same group inputs.
counts: From there, too.
T: The type of all tables.
table_widths: [T].
shard_servers: [shards]. The rank that each is on.
num_servers: Ranks.)doc";

REGISTER_OP("ExchangeCombine")
    .Input("rows: T")
    .Input("splits: int32")
    .Input("inverse: int32")
    .Input("counts: int64")
    .GRAPH_OPT_GROUP_INPUTS.Output("pooled: pooled_dtypes")
    .Attr("T: {float, half, bfloat16}")
    .Attr("pooled_dtypes: list({float, half, bfloat16}) >= 1")
    .PLACEMENT_ATTRS.GRAPH_OPT_GROUP_ATTRS.SetShapeFn(CombineShape)
    .Doc(GroupDoc(std::string(R"doc(
Pools the rows that all ranks sent: gives what GroupEmbeddingLookup gives.

rows: From ExchangeGather of each rank, rank after rank.
splits: [ranks]. How many elements each rank has sent.
pooled: [B, width] for each lookup, or of all lookups in one, with columns.
pooled_dtypes: [L], or [1] with columns: T.)doc") +
                  kSentDoc));

REGISTER_OP("ExchangeRefresh")
    .Input("rows: T")
    .Input("splits: int32")
    .Input("inverse: int32")
    .Input("counts: int64")
    .Input("requests: num_servers * int64")
    .Input("changed: int64")
    .Input("changed_splits: int32")
    .GRAPH_OPT_GROUP_INPUTS.Input("read: pooled_dtypes")
    .Output("pooled: pooled_dtypes")
    .Output("fresh_rows: T")
    .Output("ids_changed: int64")
    .Attr("T: {float, half, bfloat16}")
    .Attr("pooled_dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("refresh_counts: string = ''")
    .PLACEMENT_ATTRS.GRAPH_OPT_GROUP_ATTRS.SetIsStateful()
    .SetShapeFn(RefreshShape)
    .Doc(GroupDoc(std::string(R"doc(
Refreshes what ExchangeCombine returned ahead of time: pools those bags again that have a row with
a new value. Fails where an owner has pooled, and where a rank is at another batch.

rows: As those of ExchangeCombine.
splits: As there.
requests: From GroupEmbeddingPrepare.
changed: From ExchangeChangedRows of each rank, rank after rank.
changed_splits: [ranks]. How many numbers each rank has sent.
read: What ExchangeCombine returned.
pooled: As read, with the rows as they are now.
fresh_rows: The rows as they are now.
ids_changed: [2]. How many ids there are, and how many of them have a row with a new value.
pooled_dtypes: [L], or [1] with columns: T.
refresh_counts: The name by which GroupEmbeddingRefreshCounts knows what this op counts; empty: it
  counts nothing.)doc") +
                  kSentDoc));

REGISTER_OP("ExchangeCombineGrad")
    .Input("inverse: int32")
    .Input("counts: int64")
    .GRAPH_OPT_GROUP_INPUTS.Input("gradients: num_gradients * T")
    .Output("row_gradients: T")
    .Attr("num_gradients: int >= 1")
    .Attr("has_gradient: list(bool) = []")
    .Attr("T: {float, half, bfloat16}")
    .PLACEMENT_ATTRS.GRAPH_OPT_GROUP_ATTRS.SetShapeFn(CombineGradShape)
    .Doc(GroupDoc(std::string(R"doc(
Sums the gradients of a group lookup by row, as the rows were sent.

gradients: Of the pooled rows.
row_gradients: Of the rows that ExchangeCombine got, in their order. Rows that only lookups
  without a gradient read are marked: ExchangeGatherGrad leaves them out.
has_gradient: [L], whether each lookup has one, else those given are zeros; empty if all have.
num_gradients: L, or 1 with columns.)doc") +
                  kSentDoc));

REGISTER_OP("ExchangeCombineWeightsGrad")
    .Input("rows: T")
    .Input("splits: int32")
    .Input("inverse: int32")
    .Input("counts: int64")
    .GRAPH_OPT_GROUP_INPUTS.Input("gradients: num_gradients * T")
    .Output("weights_gradients: num_weights * float")
    .Attr("num_gradients: int >= 1")
    .Attr("T: {float, half, bfloat16}")
    .PLACEMENT_ATTRS.GRAPH_OPT_GROUP_ATTRS.SetShapeFn(CombineWeightsGradShape)
    .Doc(GroupDoc(std::string(R"doc(
Gradients of the weights of a group lookup. Fails where an owner has pooled weighted bags: then the
rows are not here.

rows: As those of ExchangeCombine.
splits: As there.
gradients: Of the pooled rows.
weights_gradients: One for each weight; 0 for dropped ones.
num_gradients: L, or 1 with columns.)doc") +
                  kSentDoc));

REGISTER_OP("ExchangeStatus")
    .Input("requests: count * int64")
    .Input("splits: count * int32")
    .Output("code: int32")
    .Output("text: string")
    .Attr("count: int >= 1")
    .SetShapeFn([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(RequireVectors(c, 0, c->num_inputs()));
      c->set_output(0, c->Scalar());
      c->set_output(1, c->Scalar());
      return Status();
    })
    .Doc(R"doc(
The error with which ExchangeGather fails on all ranks.

requests: The messages that it got, of one or more exchanges.
splits: [ranks] of each.
code: Of the error; 0 if there is none.
text: Of the error.
count: Number of exchanges.)doc");

}  // namespace
}  // namespace graph_opt
