#include <string>
#include <vector>

#include "kernels/lookup/group_attributes.h"
#include "kernels/lookup/group_shapes.h"
#include "kernels/shape_function_names.h"
#include "rows/row_types.h"
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

// The shape of a shard: of the tensor, or of the variable that the handle refers to. `dtype` is
// that of the tensors; it becomes the variable's.
ShapeHandle ShardShape(InferenceContext* c, int input, tensorflow::DataType* dtype) {
  const auto* handle = c->input_handle_shapes_and_types(input);
  if (handle != nullptr && !handle->empty()) {
    *dtype = (*handle)[0].dtype;
    return (*handle)[0].shape;
  }
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
  tensorflow::DataTypeVector dtypes;
  c->GetAttr("table_dtypes", &dtypes).IgnoreError();  // resources have none
  dtypes.resize(num_shards, tensorflow::DT_INVALID);
  std::vector<DimensionHandle> dims;
  int shard = 0;
  for (size_t t = 0; t < table_shards.size(); ++t) {
    DimensionHandle dim = c->UnknownDim();
    for (int i = 0; i < table_shards[t] && shard < num_shards; ++i, ++shard) {
      const ShapeHandle shape = ShardShape(c, shard, &dtypes[shard]);
      if (!c->RankKnown(shape)) continue;
      if (c->Rank(shape) < 1) {
        return errors::InvalidArgument("table '", t < names.size() ? names[t] : "", "' has rank ",
                                       c->Rank(shape), "; need [rows, width]");
      }
      DimensionHandle width = c->MakeDim(1);
      for (int axis = 1; axis < c->Rank(shape); ++axis) {
        TF_RETURN_IF_ERROR(c->Multiply(width, c->Dim(shape, axis), &width));
      }
      if (dtypes[shard] == tensorflow::DT_INT8) {
        TF_RETURN_IF_ERROR(c->Subtract(width, kScaleBytes, &width));
      }
      TF_RETURN_IF_ERROR(c->Merge(dim, width, &dim));
    }
    dims.push_back(dim);
  }
  return SetPooledShapes(c, num_shards, dims);
}

const char kLookupDoc[] = R"doc(
Looks the rows of many tables up and pools them: one embedding_lookup_sparse for each lookup.

tables: The shards of each table, [rows, width]; of int8 [rows, 4 + width]: in each row a float32
  scale by which its bytes are multiplied, in front of them.
pooled: [B, width] for each lookup; for sparse ids, the dense_shape but its last entry, and width.
  Of all lookups in one, with columns.
pooled_dtypes: [L], or [1] with columns. The type of each lookup's table, or on CPUs float; sums are
  kept in float32.
ahead_choice: By what RowLogPosition chose in the same step which tables are looked up: pooled rows of
  the others are undefined. Empty: all are looked up.)doc";

REGISTER_OP("GroupEmbeddingLookup")
    .Input("tables: table_dtypes")
    .GRAPH_OPT_GROUP_INPUTS.Output("pooled: pooled_dtypes")
    .Attr("table_dtypes: list({float, half, bfloat16, int8}) >= 1")
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

}  // namespace
}  // namespace graph_opt
