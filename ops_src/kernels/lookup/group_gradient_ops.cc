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
  int num_shards;
  int num_lookups;
  TF_RETURN_IF_ERROR(c->GetAttr("num_shards", &num_shards));
  TF_RETURN_IF_ERROR(c->GetAttr("num_lookups", &num_lookups));
  const int first_weights = num_shards + 3 * num_lookups;
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(first_weights + i));
  return Status();
}

const char kWeightsGradDoc[] = R"doc(
Gradients of a group lookup's weights.

tables: The shards of each table.
gradients: Of the pooled rows.
weight_gradients: For each weighted lookup, of the shape of its weights.
pooled_dtypes: [L], or [1] with columns.)doc";

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
