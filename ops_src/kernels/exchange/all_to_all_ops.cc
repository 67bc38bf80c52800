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

// Stateful, so that equal calls are not merged, none is left out that only control edges need, and
// none runs while a graph is optimized.
REGISTER_OP("ExchangeAllToAll")
    .Input("tensor: T")
    .Input("splits: int32")
    .Output("received: T")
    .Output("received_splits: int32")
    .Attr(
        "T: {float, half, bfloat16, double, int8, int16, int32, int64, uint8, uint16, uint32, "
        "uint64, bool, complex64, complex128}")
    .Attr("message: string")
    .Attr("rank: int >= 0")
    .Attr("size: int >= 1")
    .Attr("group: string = ''")
    .Attr("timeout_millis: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(AllToAllShape)
    .Doc(R"doc(
Sends some rows of a tensor to each rank, and gets theirs. Waits for the call of each other rank
with the same message; holds no thread meanwhile.

tensor: The rows, those for rank 0 first.
splits: [size]. How many rows go to each rank.
received: The rows from all ranks, those of rank 0 first.
received_splits: [size]. How many each has sent.
message: Name of the message; a rank may not send two of the same name at once.
rank: Of the caller, below size.
size: Number of ranks.
group: Empty: the ranks are those of Horovod. Else the name of a group of ranks in this process: if
  one of them is cancelled or waits too long, all calls of the group fail, and all later ones.
timeout_millis: Longest wait in such a group; 0 for no limit.)doc");

}  // namespace
}  // namespace graph_opt
