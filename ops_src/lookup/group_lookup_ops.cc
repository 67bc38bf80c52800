#include <algorithm>
#include <string>
#include <vector>

#include "lookup/columns.h"
#include "lookup/group_attributes.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

using tensorflow::Status;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;
namespace errors = tensorflow::errors;

// Index of the first flat input after the tables.
int FirstIds(InferenceContext* c) {
  int num_shards = 0;
  return c->GetAttr("num_shards", &num_shards).ok() ? num_shards : 0;
}

// The shape of a shard: of the tensor, or of what the handle stands for.
ShapeHandle ShardShape(InferenceContext* c, int input) {
  const auto* handle = c->input_handle_shapes_and_types(input);
  if (handle != nullptr && !handle->empty()) return (*handle)[0].shape;
  const ShapeHandle shape = c->input(input);
  // A handle of which nothing is known is a scalar.
  return c->RankKnown(shape) && c->Rank(shape) == 0 ? c->UnknownShape() : shape;
}

// Shape of a lookup's result but for its last dimension.
Status OuterShape(InferenceContext* c, const std::string& layout, int lookup, int num_lookups,
                  int first_ids, ShapeHandle* outer) {
  const ShapeHandle ids = c->input(first_ids + lookup);
  const ShapeHandle positions = c->input(first_ids + num_lookups + lookup);
  *outer = c->Vector(InferenceContext::kUnknownDim);
  if (layout == "dense") {
    ShapeHandle checked;
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(ids, 1, &checked));
    TF_RETURN_IF_ERROR(c->WithRankAtMost(checked, 2, &checked));
    if (c->RankKnown(checked)) *outer = c->Vector(c->Dim(checked, 0));
    return Status();
  }
  ShapeHandle checked;
  TF_RETURN_IF_ERROR(c->WithRank(ids, 1, &checked));
  if (layout == "ragged") {
    TF_RETURN_IF_ERROR(c->WithRank(positions, 1, &checked));
    DimensionHandle rows;
    TF_RETURN_IF_ERROR(c->Subtract(c->Dim(checked, 0), 1, &rows));
    *outer = c->Vector(rows);
    return Status();
  }
  const int shape_input = first_ids + 2 * num_lookups + lookup;
  if (c->RankKnown(positions) && c->Rank(positions) == 1) return Status();
  ShapeHandle dense_shape;
  TF_RETURN_IF_ERROR(c->MakeShapeFromShapeTensor(shape_input, &dense_shape));
  if (!c->RankKnown(dense_shape)) {
    *outer = c->UnknownShape();
    return Status();
  }
  if (c->Rank(dense_shape) < 2) {
    return errors::InvalidArgument("sparse ids of lookup ", lookup, " have rank ",
                                   c->Rank(dense_shape), "; need at least 2");
  }
  return c->Subshape(dense_shape, 0, -1, outer);
}

// The columns of the lookups; empty where each lookup has its own tensor.
Status ReadColumns(InferenceContext* c, std::vector<int64_t>* widths,
                   tensorflow::int64* columns_width) {
  std::vector<tensorflow::int64> columns;
  TF_RETURN_IF_ERROR(c->GetAttr("columns", &columns));
  TF_RETURN_IF_ERROR(c->GetAttr("columns_width", columns_width));
  if (columns.empty()) return Status();
  int num_lookups;
  TF_RETURN_IF_ERROR(c->GetAttr("num_lookups", &num_lookups));
  if (static_cast<int>(columns.size()) != num_lookups) {
    return errors::InvalidArgument("columns has ", columns.size(),
                                   " entries, need one for each of the ", num_lookups, " lookups");
  }
  return WidthsOfColumns(columns, *columns_width, widths);
}

Status LookupShape(InferenceContext* c) {
  std::vector<int> lookup_tables;
  std::vector<int> table_shards;
  std::vector<std::string> layouts;
  std::vector<std::string> names;
  TF_RETURN_IF_ERROR(c->GetAttr("lookup_tables", &lookup_tables));
  TF_RETURN_IF_ERROR(c->GetAttr("table_shards", &table_shards));
  TF_RETURN_IF_ERROR(c->GetAttr("layouts", &layouts));
  TF_RETURN_IF_ERROR(c->GetAttr("table_names", &names));
  std::vector<int64_t> widths;
  tensorflow::int64 columns_width;
  TF_RETURN_IF_ERROR(ReadColumns(c, &widths, &columns_width));
  const bool joined = !widths.empty();
  int num_lookups;
  TF_RETURN_IF_ERROR(c->GetAttr("num_lookups", &num_lookups));
  if (c->num_outputs() != (joined ? 1 : num_lookups)) {
    return errors::InvalidArgument("pooled_dtypes has ", c->num_outputs(), " entries, need ",
                                   joined ? 1 : num_lookups);
  }
  const int num_shards = FirstIds(c);
  std::vector<DimensionHandle> dims;
  int shard = 0;
  for (size_t t = 0; t < table_shards.size(); ++t) {
    DimensionHandle dim = c->UnknownDim();
    for (int i = 0; i < table_shards[t] && shard < num_shards; ++i, ++shard) {
      const ShapeHandle shape = ShardShape(c, shard);
      if (!c->RankKnown(shape)) continue;
      if (c->Rank(shape) != 2) {
        return errors::InvalidArgument("table '", t < names.size() ? names[t] : "", "' has rank ",
                                       c->Rank(shape), "; need [rows, width]");
      }
      TF_RETURN_IF_ERROR(c->Merge(dim, c->Dim(shape, 1), &dim));
    }
    dims.push_back(dim);
  }
  if (static_cast<int>(lookup_tables.size()) != num_lookups ||
      static_cast<int>(layouts.size()) != num_lookups) {
    return errors::InvalidArgument("need lookup_tables and layouts for ", num_lookups, " lookups");
  }
  ShapeHandle joined_rows = c->UnknownShape();
  for (int i = 0; i < num_lookups; ++i) {
    ShapeHandle outer;
    TF_RETURN_IF_ERROR(OuterShape(c, layouts[i], i, num_lookups, num_shards, &outer));
    const int table = lookup_tables[i];
    if (table < 0 || table >= static_cast<int>(std::min(dims.size(), names.size()))) {
      return errors::InvalidArgument("lookup_tables names table ", table, " of ", dims.size());
    }
    const DimensionHandle dim = dims[table];
    if (joined) {
      if (c->ValueKnown(dim) && c->Value(dim) != widths[i]) {
        return errors::InvalidArgument("lookup ", i, " has ", widths[i], " columns, and table '",
                                       names[table], "' is ", c->Value(dim), " wide");
      }
      TF_RETURN_IF_ERROR(c->Merge(joined_rows, outer, &joined_rows));
      continue;
    }
    ShapeHandle pooled = c->UnknownShape();
    if (c->RankKnown(outer)) TF_RETURN_IF_ERROR(c->Concatenate(outer, c->Vector(dim), &pooled));
    c->set_output(i, pooled);
  }
  if (!joined) return Status();
  ShapeHandle pooled = c->UnknownShape();
  if (c->RankKnown(joined_rows)) {
    TF_RETURN_IF_ERROR(c->Concatenate(joined_rows, c->Vector(columns_width), &pooled));
  }
  c->set_output(0, pooled);
  return Status();
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
  std::vector<DimensionHandle> dims(table_shards.size(), c->UnknownDim());
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
  float32.)doc";

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
    .GRAPH_OPT_GROUP_ATTRS.SetShapeFn(LookupShape)
    .Doc(GroupDoc(std::string(kLookupDoc) + R"doc(
table_dtypes: One for each shard.)doc"));

REGISTER_OP("ResourceGroupEmbeddingLookup")
    .Input("tables: num_shards * resource")
    .GRAPH_OPT_GROUP_INPUTS.Output("pooled: pooled_dtypes")
    .Attr("pooled_dtypes: list({float, half, bfloat16}) >= 1")
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
