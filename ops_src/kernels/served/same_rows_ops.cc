#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/types.h"

namespace graph_opt {
namespace {

Status FirstShapes(InferenceContext* c) {
  tensorflow::DataTypeVector rows;
  int num_lists;
  TF_RETURN_IF_ERROR(c->GetAttr("row_dtypes", &rows));
  TF_RETURN_IF_ERROR(c->GetAttr("num_lists", &num_lists));
  int output = 0;
  for (; output < static_cast<int>(rows.size()); ++output) {
    ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(output), 1, &shape));
    TF_RETURN_IF_ERROR(c->ReplaceDim(shape, 0, c->UnknownDim(), &shape));
    c->set_output(output, shape);
  }
  for (int i = 0; i < num_lists; ++i) c->set_output(output++, c->Matrix(c->UnknownDim(), 2));
  for (int i = 0; i < num_lists; ++i) c->set_output(output++, c->Vector(c->UnknownDim()));
  for (int i = 0; i < num_lists; ++i) c->set_output(output++, c->Vector(2));
  return Status();
}

REGISTER_OP("FirstOfSameRows")
    .Input("rows: row_dtypes")
    .Input("indices: num_lists * int64")
    .Input("values: list_dtypes")
    .Input("shapes: num_lists * int64")
    .Input("others: other_dtypes")
    .Output("first_rows: row_dtypes")
    .Output("first_indices: num_lists * int64")
    .Output("first_values: list_dtypes")
    .Output("first_shapes: num_lists * int64")
    .Attr("names: list(string) >= 1")
    .Attr("other_names: list(string) >= 0")
    .Attr("row_dtypes: list(type) >= 0")
    .Attr("num_lists: int >= 0")
    .Attr("list_dtypes: list(type) >= 0")
    .Attr("other_dtypes: list(type) >= 0")
    .SetShapeFn(FirstShapes)
    .Doc(R"doc(
The first row of features, if all rows of a request have the same; else an error that names them.

Numbers are compared by their bits: nan is equal to itself, and 0.0 is not -0.0.

rows: Features with a row each for each row of the request.
indices: With values and shapes, features of any number of values in each row, as SparseTensors: the
  row of each value, and its place in it, in order.
others: Tensors that must have as many rows as features.
first_rows: [1, ...] each; [0, ...] of a request without rows. They share the memory of `rows`.
names: Of the features, those of any number of values last.
other_names: Of the others.)doc");

}  // namespace
}  // namespace graph_opt
