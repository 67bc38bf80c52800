#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

Status IntegerLookupShape(InferenceContext* c) {
  ShapeHandle scalar;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 0, &scalar));
  c->set_output(0, c->input(2));
  return Status();
}

REGISTER_OP("KeyIndexHandleOp")
    .Output("index: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Where ResourceIntegerLookup keeps which key has which number. It is made from the vocabulary whenever
that is assigned, so that it needs neither an initializer nor a checkpoint.)doc");

REGISTER_OP("ResourceIntegerLookup")
    .Input("vocabulary: resource")
    .Input("index: resource")
    .Input("keys: int64")
    .Input("add: bool")
    .Output("ids: int64")
    .SetIsStateful()
    .SetShapeFn(IntegerLookupShape)
    .Doc(R"doc(
Numbers keys from 1 on, in the order in which they come.

vocabulary: Variable of int64, [1 + tokens]: how many keys there are, then each of them.
index: From KeyIndexHandleOp.
keys: Any numbers, any number of times.
add: Whether keys without a number get the next ones, while there are any.
ids: Of the shape of keys. 0 for keys without a number.)doc");

}  // namespace
}  // namespace graph_opt
