#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

Status RowsShape(InferenceContext* c) {
  ShapeHandle rows;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &rows));
  tensorflow::int64 width;
  TF_RETURN_IF_ERROR(c->GetAttr("width", &width));
  c->set_output(0, c->Matrix(c->Dim(rows, 0), width));
  return Status();
}

// Stateful, so that large tables do not become constants of the graph.
REGISTER_OP("GroupEmbeddingInitialRows")
    .Input("rows: int64")
    .Output("values: float")
    .Attr("distribution: {'uniform', 'normal', 'truncated_normal'}")
    .Attr("first: float")
    .Attr("second: float")
    .Attr("key: int")
    .Attr("column: int >= 0 = 0")
    .Attr("width: int >= 0")
    .SetIsStateful()
    .SetShapeFn(RowsShape)
    .Doc(R"doc(
Initial values of rows of a table. Each value depends on its row, its column, the key and the
distribution alone.

rows: Numbers of the rows, or keys.
values: [rows, width].
first: Lower bound, or mean.
second: Upper bound, or standard deviation.
key: Of the table's random numbers.
column: The column of the table to begin with.)doc");

}  // namespace
}  // namespace graph_opt
