#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

Status AllToAllShape(InferenceContext* c) {
  ShapeHandle tensor;
  ShapeHandle splits;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), 1, &tensor));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &splits));
  int size;
  TF_RETURN_IF_ERROR(c->GetAttr("size", &size));
  TF_RETURN_IF_ERROR(c->Merge(splits, c->Vector(size), &splits));
  ShapeHandle received = c->UnknownShape();
  if (c->RankKnown(tensor)) {
    TF_RETURN_IF_ERROR(c->ReplaceDim(tensor, 0, c->UnknownDim(), &received));
  }
  c->set_output(0, received);
  c->set_output(1, splits);
  return Status();
}

// Stateful, so that equal calls are not merged, and none runs while a graph is optimized.
REGISTER_OP("InProcessAllToAll")
    .Input("tensor: T")
    .Input("splits: int32")
    .Output("received: T")
    .Output("received_splits: int32")
    .Attr("T: {float, half, bfloat16, double, int32, int64, uint8, bool}")
    .Attr("group: string")
    .Attr("message: string")
    .Attr("rank: int >= 0")
    .Attr("size: int >= 1")
    .Attr("timeout_millis: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(AllToAllShape)
    .Doc(R"doc(
Sends some rows of a tensor to each rank of a group in this process, and gets theirs. Waits for the
call of each other rank with the same message; holds no thread meanwhile. If one of them is
cancelled or waits too long, all calls of the group fail, and all later ones.

tensor: The rows, those for rank 0 first.
splits: [size]. How many rows go to each rank.
received: The rows from all ranks, those of rank 0 first.
received_splits: [size]. How many each has sent.
group: Name of the group.
message: Name of the message; a rank may not send two of the same name at once.
rank: Of the caller, below size.
size: Ranks of the group.
timeout_millis: Longest wait; 0 for no limit.)doc");

}  // namespace
}  // namespace graph_opt
