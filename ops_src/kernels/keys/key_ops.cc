#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

Status KeysByOwnerShape(InferenceContext* c) {
  ShapeHandle keys;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &keys));
  tensorflow::int64 num_ranks;
  TF_RETURN_IF_ERROR(c->GetAttr("num_ranks", &num_ranks));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(1, c->Vector(num_ranks));
  c->set_output(2, keys);
  return Status();
}

Status KeyRowsShape(InferenceContext* c) {
  ShapeHandle keys;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 1, &keys));
  ShapeHandle scalar;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(4), 0, &scalar));
  c->set_output(0, keys);
  return Status();
}

REGISTER_OP("ExchangeKeysByOwner")
    .Input("occurrences: int64")
    .Output("keys: int64")
    .Output("splits: int32")
    .Output("places: int64")
    .Attr("num_ranks: int >= 1")
    .SetShapeFn(KeysByOwnerShape)
    .Doc(R"doc(
Keys, each once, by the ranks that own them: those whose non-negative remainder by the number of
ranks is the rank's number.

occurrences: [K].
keys: Those of rank 0, 1, ..., each rank's in the order of their occurrences.
splits: [num_ranks]. How many keys each rank has.
places: [K]. The place among `keys` of each occurrence.)doc");

REGISTER_OP("KeyIndexHandleOp")
    .Output("index: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Where ResourceKeyRows keeps which key has which row of a table. It is made from the table's keys
whenever they are assigned, so that it needs neither an initializer nor a checkpoint.)doc");

REGISTER_OP("ResourceKeyRows")
    .Input("row_keys: resource")
    .Input("table: resource")
    .Input("index: resource")
    .Input("keys: int64")
    .Input("add: bool")
    .Output("rows: int64")
    .Attr("initial: {'none', 'constant', 'uniform', 'normal', 'truncated_normal'} = 'none'")
    .Attr("first: float = 0")
    .Attr("second: float = 0")
    .Attr("stream: int = 0")
    .SetIsStateful()
    .SetShapeFn(KeyRowsShape)
    .Doc(R"doc(
The rows of keys in a table whose rows are given out in the order in which keys come.

row_keys: Variable of int64, [1 + rows]: how many keys there are, then the key of each row.
table: Variable of float, [rows, width].
index: From KeyIndexHandleOp.
keys: [n]. Any numbers, any number of times.
add: Whether keys without a row get the next ones.
rows: [n]. -1 for keys without a row.
initial: How a row that is given out starts: its values depend on its key, its columns and these
  attributes alone. With 'none' it stays as it is.
first: The constant, lower bound or mean.
second: Upper bound or standard deviation.
stream: Of the table's random numbers.)doc");

}  // namespace
}  // namespace graph_opt
