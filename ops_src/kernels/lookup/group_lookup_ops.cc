#include <string>
#include <vector>

#include "kernels/lookup/group_attributes.h"
#include "kernels/lookup/group_shapes.h"
#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// Index of the first flat input after the tables.
int FirstIds(InferenceContext* c) {
  int num_shards = 0;
  return c->GetAttr("num_shards", &num_shards).ok() ? num_shards : 0;
}

// The shape of a shard: of the tensor, or of the variable that the handle refers to.
ShapeHandle ShardShape(InferenceContext* c, int input) {
  const auto* handle = c->input_handle_shapes_and_types(input);
  if (handle != nullptr && !handle->empty()) return (*handle)[0].shape;
  const ShapeHandle shape = c->input(input);
  // A handle about which nothing is known is a scalar.
  return c->RankKnown(shape) && c->Rank(shape) == 0 ? c->UnknownShape() : shape;
}

Status LookupShape(InferenceContext* c) {
  std::vector<int> table_shards;
  std::vector<std::string> names;
  TF_RETURN_IF_ERROR(c->GetAttr("table_shards", &table_shards));
  TF_RETURN_IF_ERROR(c->GetAttr("table_names", &names));
  const int num_shards = FirstIds(c);
  std::vector<DimensionHandle> dims;
  int shard = 0;
  for (size_t t = 0; t < table_shards.size(); ++t) {
    DimensionHandle dim = c->UnknownDim();
    for (int i = 0; i < table_shards[t] && shard < num_shards; ++i, ++shard) {
      const ShapeHandle shape = ShardShape(c, shard);
      if (!c->RankKnown(shape)) continue;
      if (c->Rank(shape) < 1) {
        return errors::InvalidArgument("table '", t < names.size() ? names[t] : "", "' has rank ",
                                       c->Rank(shape), "; need [rows, width]");
      }
      DimensionHandle width = c->MakeDim(1);
      for (int axis = 1; axis < c->Rank(shape); ++axis) {
        TF_RETURN_IF_ERROR(c->Multiply(width, c->Dim(shape, axis), &width));
      }
      TF_RETURN_IF_ERROR(c->Merge(dim, width, &dim));
    }
    dims.push_back(dim);
  }
  return SetPooledShapes(c, num_shards, dims);
}

Status GradShape(InferenceContext* c) {
  std::vector<int> lookup_tables;
  std::vector<int> table_shards;
  int num_lookups;
  TF_RETURN_IF_ERROR(c->GetAttr("lookup_tables", &lookup_tables));
  TF_RETURN_IF_ERROR(c->GetAttr("table_shards", &table_shards));
  TF_RETURN_IF_ERROR(c->GetAttr("num_lookups", &num_lookups));
  std::vector<int64_t> widths;
  tensorflow::int64 columns_width;
  TF_RETURN_IF_ERROR(ReadColumns(c, &widths, &columns_width));
  const bool joined = !widths.empty();
  const int first_gradient = c->num_inputs() - (joined ? 1 : num_lookups);
  const int num_shards = c->num_outputs() / 2;
  std::vector<DimensionHandle> dims;
  for (size_t t = 0; t < table_shards.size(); ++t) dims.push_back(c->UnknownDim());
  for (int i = 0; i < num_lookups && i < static_cast<int>(lookup_tables.size()); ++i) {
    const int table = lookup_tables[i];
    if (table < 0 || table >= static_cast<int>(dims.size())) {
      return errors::InvalidArgument("lookup_tables names table ", table, " of ", dims.size());
    }
    DimensionHandle& dim = dims[table];
    if (joined) {
      TF_RETURN_IF_ERROR(c->WithValue(dim, widths[i], &dim));
      continue;
    }
    ShapeHandle gradient;
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(first_gradient + i), 1, &gradient));
    if (c->RankKnown(gradient)) TF_RETURN_IF_ERROR(c->Merge(dim, c->Dim(gradient, -1), &dim));
  }
  int shard = 0;
  for (size_t t = 0; t < table_shards.size(); ++t) {
    for (int i = 0; i < table_shards[t] && shard < num_shards; ++i, ++shard) {
      const DimensionHandle rows = c->UnknownDim();
      c->set_output(shard, c->Vector(rows));
      c->set_output(num_shards + shard, c->Matrix(rows, dims[t]));
    }
  }
  return Status();
}

Status WeightsGradShape(InferenceContext* c) {
  int num_lookups;
  TF_RETURN_IF_ERROR(c->GetAttr("num_lookups", &num_lookups));
  const int first_weights = FirstIds(c) + 3 * num_lookups;
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(first_weights + i));
  return Status();
}

const char kLookupDoc[] = R"doc(
Looks the rows of many tables up and pools them: one embedding_lookup_sparse for each lookup.

tables: The shards of each table, [rows, width].
pooled: [B, width] for each lookup; for sparse ids, the dense_shape but its last entry, and width.
  Of all lookups in one, with columns.
pooled_dtypes: [L], or [1] with columns. The type of each lookup's table; sums are kept in
  float32.
ahead_choice: By what RowLogPosition chose in the same step which tables are looked up: pooled rows of
  the others are undefined. Empty: all are looked up.)doc";

const char kWeightsGradDoc[] = R"doc(
Gradients of a group lookup's weights.

tables: The shards of each table.
gradients: Of the pooled rows.
weight_gradients: For each weighted lookup, of the shape of its weights.
pooled_dtypes: [L], or [1] with columns.)doc";

REGISTER_OP("GroupEmbeddingLookup")
    .Input("tables: table_dtypes")
    .GRAPH_OPT_GROUP_INPUTS.Output("pooled: pooled_dtypes")
    .Attr("table_dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("pooled_dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("ahead_choice: string = ''")
    .GRAPH_OPT_GROUP_ATTRS.SetShapeFn(LookupShape)
    .Doc(GroupDoc(std::string(kLookupDoc) + R"doc(
table_dtypes: One for each shard.)doc"));

REGISTER_OP("ResourceGroupEmbeddingLookup")
    .Input("tables: num_shards * resource")
    .GRAPH_OPT_GROUP_INPUTS.Output("pooled: pooled_dtypes")
    .Attr("pooled_dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("ahead_choice: string = ''")
    .GRAPH_OPT_GROUP_ATTRS.SetShapeFn(LookupShape)
    .Doc(GroupDoc(kLookupDoc));

REGISTER_OP("GroupEmbeddingGrad")
    .GRAPH_OPT_GROUP_INPUTS.Input("table_rows: int64")
    .Input("gradients: pooled_dtypes")
    .Output("indices: num_shards * int64")
    .Output("values: table_dtypes")
    .Attr("table_dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("pooled_dtypes: list({float, half, bfloat16}) >= 1")
    .GRAPH_OPT_GROUP_ATTRS.SetShapeFn(GradShape)
    .Doc(GroupDoc(R"doc(
Gradients of a group lookup's tables, each row once: what IndexedSlices are made of.

table_rows: [shards]. Rows of each shard.
gradients: Of the pooled rows.
indices: Rows of the shard that were looked up, ascending.
values: The sum of the row's gradients, in the order of lookups and ids.
table_dtypes: One for each shard.
pooled_dtypes: [L], or [1] with columns.)doc"));

REGISTER_OP("GroupEmbeddingWeightsGrad")
    .Input("tables: table_dtypes")
    .GRAPH_OPT_GROUP_INPUTS.Input("gradients: pooled_dtypes")
    .Output("weight_gradients: num_weights * float")
    .Attr("table_dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("pooled_dtypes: list({float, half, bfloat16}) >= 1")
    .GRAPH_OPT_GROUP_ATTRS.SetShapeFn(WeightsGradShape)
    .Doc(GroupDoc(std::string(kWeightsGradDoc) + R"doc(
table_dtypes: One for each shard.)doc"));

REGISTER_OP("ResourceGroupEmbeddingWeightsGrad")
    .Input("tables: num_shards * resource")
    .GRAPH_OPT_GROUP_INPUTS.Input("gradients: pooled_dtypes")
    .Output("weight_gradients: num_weights * float")
    .Attr("pooled_dtypes: list({float, half, bfloat16}) >= 1")
    .GRAPH_OPT_GROUP_ATTRS.SetShapeFn(WeightsGradShape)
    .Doc(GroupDoc(kWeightsGradDoc));

}  // namespace
}  // namespace graph_opt
