#include "kernels/lookup/group_shapes.h"

#include <algorithm>
#include <string>

#include "kernels/lookup/columns.h"
#include "kernels/shape_function_names.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// Shape of a lookup's result without its last dimension.
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

}  // namespace

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

Status SetPooledShapes(InferenceContext* c, int first_ids,
                       const std::vector<DimensionHandle>& dims) {
  std::vector<int> lookup_tables;
  std::vector<std::string> layouts;
  std::vector<std::string> names;
  int num_lookups;
  std::vector<int64_t> widths;
  tensorflow::int64 columns_width;
  TF_RETURN_IF_ERROR(c->GetAttr("lookup_tables", &lookup_tables));
  TF_RETURN_IF_ERROR(c->GetAttr("layouts", &layouts));
  TF_RETURN_IF_ERROR(c->GetAttr("table_names", &names));
  TF_RETURN_IF_ERROR(c->GetAttr("num_lookups", &num_lookups));
  TF_RETURN_IF_ERROR(ReadColumns(c, &widths, &columns_width));
  const bool joined = !widths.empty();
  if (c->num_outputs() != (joined ? 1 : num_lookups)) {
    return errors::InvalidArgument("pooled_dtypes has ", c->num_outputs(), " entries, need ",
                                   joined ? 1 : num_lookups);
  }
  if (static_cast<int>(lookup_tables.size()) != num_lookups ||
      static_cast<int>(layouts.size()) != num_lookups) {
    return errors::InvalidArgument("need lookup_tables and layouts for ", num_lookups, " lookups");
  }
  ShapeHandle joined_rows = c->UnknownShape();
  for (int i = 0; i < num_lookups; ++i) {
    ShapeHandle outer;
    TF_RETURN_IF_ERROR(OuterShape(c, layouts[i], i, num_lookups, first_ids, &outer));
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

}  // namespace graph_opt
