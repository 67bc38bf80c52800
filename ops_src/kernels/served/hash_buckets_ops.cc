#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

Status BucketShapes(InferenceContext* c) {
  for (int i = 0; i < c->num_inputs(); ++i) {
    ShapeHandle shape = c->input(i);
    if (c->RankKnown(shape) && c->Rank(shape) == 1) {
      TF_RETURN_IF_ERROR(c->Concatenate(shape, c->Vector(1), &shape));
    }
    c->set_output(i, c->RankKnown(shape) ? shape : c->UnknownShape());
  }
  return Status();
}

REGISTER_OP("GroupHashBuckets")
    .Input("values: N * string")
    .Output("buckets: N * int64")
    .Attr("N: int >= 1")
    .Attr("num_buckets: list(int) >= 1")
    .SetShapeFn(BucketShapes)
    .Doc(R"doc(
The bucket of each string, as StringToHashBucketFast has it; -1 for an empty one.

values: Of any shapes.
buckets: Of the same shapes; [B, 1] for values [B].
num_buckets: For each tensor.)doc");

}  // namespace
}  // namespace graph_opt
