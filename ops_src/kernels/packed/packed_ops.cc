#include <string>
#include <vector>

#include "kernels/apply/optimizer_attributes.h"
#include "kernels/lookup/group_attributes.h"
#include "kernels/lookup/group_shapes.h"
#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"

// Group lookups whose tables are on parameter servers. One tensor goes to each server and one comes
// back, for any number of tables.
//
//   worker   Prepare        ids -> one request for each server
//   server   Gather         request -> rows
//   worker   Combine        rows -> pooled rows
//   worker   PackGradients  gradients of pooled rows -> one update for each server
//   server   ApplyPacked    update -> its tables

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

Status PrepareShape(InferenceContext* c) {
  int num_servers;
  int num_shards;
  TF_RETURN_IF_ERROR(c->GetAttr("num_servers", &num_servers));
  TF_RETURN_IF_ERROR(c->GetAttr("num_shards", &num_shards));
  for (int i = 0; i <= num_servers; ++i) {  // the requests, and the inverse
    c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
  }
  c->set_output(num_servers + 1, c->Vector(num_shards));
  return Status();
}

Status CombineShape(InferenceContext* c) {
  std::vector<tensorflow::int64> widths;
  int num_servers;
  ShapeHandle vector;
  TF_RETURN_IF_ERROR(c->GetAttr("table_widths", &widths));
  TF_RETURN_IF_ERROR(c->GetAttr("num_servers", &num_servers));
  for (int i = 0; i < num_servers + 2; ++i) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 1, &vector));
  }
  std::vector<DimensionHandle> dims;
  for (tensorflow::int64 width : widths) {
    if (width < 0) return errors::InvalidArgument("table_widths has ", width);
    dims.push_back(c->MakeDim(width));
  }
  return SetPooledShapes(c, num_servers + 2, dims);
}

Status VectorsShape(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) {
    c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
  }
  return Status();
}

Status PackShape(InferenceContext* c) {
  int num_under_way;
  TF_RETURN_IF_ERROR(c->GetAttr("num_under_way", &num_under_way));
  for (int i = 0; i < c->num_outputs(); ++i) {
    const bool is_update = i < c->num_outputs() - num_under_way;
    c->set_output(i, is_update ? c->Vector(InferenceContext::kUnknownDim) : c->Scalar());
  }
  return Status();
}

// The last input is a vector.
Status LastIsVector(InferenceContext* c) {
  ShapeHandle vector;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(c->num_inputs() - 1), 1, &vector));
  return VectorsShape(c);
}

#define PLACEMENT_ATTRS Attr("shard_servers: list(int) >= 1").Attr("num_servers: int >= 1")

const char kPlacementDoc[] = R"doc(
shard_servers: [shards]. The number of the server that each is on.
num_servers: Servers.)doc";

#define POOL_ON_SERVER "pool_on_server: {'auto', 'never', 'always', 'together'} = 'auto'"

const char kPoolOnServerDoc[] = R"doc(
pool_on_server: Whether servers pool bags and sum their gradients, for tables in one shard; auto does
  what makes for fewer bytes, by a count of rows now and then; together does so only if it is clearly
  fewer for all tables, and else none pools. Results are the same to the bit.)doc";

const char kShardRowsDoc[] = R"doc(
shard_rows: [shards]. Rows of each shard; not read where a table goes by key.)doc";

REGISTER_OP("GroupEmbeddingPrepare")
    .GRAPH_OPT_GROUP_INPUTS.Input("insert: num_inserts * bool")
    .Output("requests: num_servers * int64")
    .Output("inverse: int32")
    .Output("counts: int64")
    .Attr("table_widths: list(int) >= 1")
    .Attr("shard_rows: list(int) >= 1")
    .Attr("num_inserts: int >= 0 = 0")
    .Attr("filtered: bool = true")
    .Attr(POOL_ON_SERVER)
    .PLACEMENT_ATTRS.GRAPH_OPT_GROUP_ATTRS.SetShapeFn(PrepareShape)
    .Doc(GroupDoc(std::string(R"doc(
Finds the rows that a group lookup needs, each once, and what to ask of each server. Where it is less
to send, the server is asked to pool bags.

insert: Of each table that goes by key, whether keys without a row get one; none: all do.
filtered: Whether a table's filter chooses them; else all get one, and nothing is counted.
requests: For each of the server's shards, in order: 0, the number of rows, and the rows, ascending;
  or the number of lookups, that of words, and the bags of the lookups, for the server to pool; or,
  of tables that go by key, -1, the number of words, and the keys, each once, with their counts.
inverse: For each id of each lookup the number of its row among the rows of its table, shard after
  shard, or -1 when the id is dropped; then for each lookup that of its default row, or -1. Without
  the lookups that servers pool.
counts: [shards]. Rows asked for, or -1 where the server pools.
table_widths: [T].)doc") +
                  kShardRowsDoc + kPoolOnServerDoc + kPlacementDoc));

REGISTER_OP("GroupEmbeddingCombine")
    .Input("rows: num_servers * T")
    .Input("inverse: int32")
    .Input("counts: int64")
    .GRAPH_OPT_GROUP_INPUTS.Output("pooled: pooled_dtypes")
    .Attr("T: {float, half, bfloat16}")
    .Attr("pooled_dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("table_widths: list(int) >= 1")
    .PLACEMENT_ATTRS.GRAPH_OPT_GROUP_ATTRS.SetShapeFn(CombineShape)
    .Doc(GroupDoc(std::string(R"doc(
Pools the rows that the servers sent: gives what GroupEmbeddingLookup gives.

rows: Of each server, from GroupEmbeddingGather.
inverse: From GroupEmbeddingPrepare, with the same group inputs.
counts: From there, too. -2: rows are not asked for yet, and the result is undefined.
pooled: [B, width] for each lookup, or of all lookups in one, with columns.
T: The type of all tables.
pooled_dtypes: [L], or [1] with columns: T.
table_widths: [T].)doc") +
                  kPlacementDoc));

REGISTER_OP("GroupEmbeddingPackGradients")
    .GRAPH_OPT_GROUP_INPUTS.Input("gradients: num_gradients * float")
    .Input("requests: num_requests * int64")
    .Output("updates: num_servers * uint8")
    .Output("under_way: num_under_way * variant")
    .Attr("num_gradients: int >= 1")
    .Attr("num_requests: int >= 0 = 0")
    .Attr("shard_rows: list(int) >= 1")
    .Attr("num_under_way: int >= 0 = 0")
    .Attr("served_shards: list(string) = []")
    .Attr(POOL_ON_SERVER)
    .PLACEMENT_ATTRS.GRAPH_OPT_GROUP_ATTRS.SetShapeFn(PackShape)
    .Doc(GroupDoc(std::string(R"doc(
Sums the gradients of a group lookup by row, and packs them for each server, or packs those of bags
where that is less to send, for the server to sum.

gradients: Of the pooled rows.
requests: From GroupEmbeddingPrepare, with the same group inputs: servers that pooled sum gradients,
  and the bags that they got are sent again, without being read again. Or none.
updates: For each of the server's shards, in order, int64 count, width, number of lookups and of
  words; then for each the int64 rows, ascending, or keys, or the bags of the lookups; then the float
  gradients of the rows, or of the bags.
under_way: One at most, for KeepServedRows.
num_gradients: L, or 1 with columns.
served_shards: [shards], or none. Names of shards, of which updates then ask for the new values of
  rows that staged batches have, or "".)doc") +
                  kShardRowsDoc + kPoolOnServerDoc + kPlacementDoc));

const char kGatherDoc[] = R"doc(
Reads the rows that a worker asks for.

tables: Shards of this server, [rows, width].
request: From GroupEmbeddingPrepare.
rows: The rows asked for, one after another, shard by shard.
num_shards: Of this server.
T: The type of the shards.
table_names: [shards]. For errors.)doc";

REGISTER_OP("GroupEmbeddingGather")
    .Input("tables: num_shards * T")
    .Input("request: int64")
    .Output("rows: T")
    .Attr("num_shards: int >= 1")
    .Attr("T: {float, half, bfloat16}")
    .Attr("table_names: list(string) >= 1")
    .SetShapeFn(LastIsVector)
    .Doc(kGatherDoc);

REGISTER_OP("ResourceGroupEmbeddingGather")
    .Input("tables: num_shards * resource")
    .Input("request: int64")
    .Output("rows: T")
    .Attr("num_shards: int >= 1")
    .Attr("T: {float, half, bfloat16}")
    .Attr("table_names: list(string) >= 1")
    .SetShapeFn(LastIsVector)
    .Doc(kGatherDoc);

const char kApplyDoc[] = R"doc(
Updates the rows of a server's shards that a worker sent gradients of, as GroupEmbeddingApply does.

tables: Shards of this server, [rows, width] of float32.
update: From GroupEmbeddingPackGradients. When it is malformed nothing is updated.
answers: One at most: the rows that the update asks for as they are then, for KeepServedRows.
num_shards: Of this server.
table_names: [shards]. For errors.)doc";

REGISTER_OP("GroupEmbeddingApplyPacked")
    .Input("tables: Ref(num_shards * float)")
    .Input("slots: Ref(num_slots * float)")
    .Input("hyperparameters: num_hyperparameters * float")
    .Input("update: uint8")
    .Output("answers: num_answers * uint8")
    .Attr("num_answers: int >= 0 = 0")
    .Attr("num_shards: int >= 1")
    .Attr("table_names: list(string) >= 1")
    .GRAPH_OPT_OPTIMIZER_ATTRS.SetIsStateful()
    .SetAllowsUninitializedInput()
    .SetShapeFn(LastIsVector)
    .Doc(OptimizerDoc(kApplyDoc));

REGISTER_OP("ResourceGroupEmbeddingApplyPacked")
    .Input("tables: num_shards * resource")
    .Input("slots: num_slots * resource")
    .Input("hyperparameters: num_hyperparameters * float")
    .Input("update: uint8")
    .Output("answers: num_answers * uint8")
    .Attr("num_answers: int >= 0 = 0")
    .Attr("num_shards: int >= 1")
    .Attr("table_names: list(string) >= 1")
    .GRAPH_OPT_OPTIMIZER_ATTRS.SetIsStateful()
    .SetShapeFn(LastIsVector)
    .Doc(OptimizerDoc(kApplyDoc));

}  // namespace
}  // namespace graph_opt
