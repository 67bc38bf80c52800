#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

// The messages with which a rank begins an exchange (exchange_ops.cc).

namespace graph_opt {
namespace {

// Stateful, so that equal requests of two exchanges are not merged: each waits for the others.
REGISTER_OP("ExchangeRequests")
    .Input("requests: num_ranks * int64")
    .Input("input_ended: num_flags * bool")
    .Output("message: int64")
    .Output("splits: int32")
    .Attr("num_ranks: int >= 1")
    .Attr("num_flags: int >= 0 = 0")
    .Attr("exchange: string = ''")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      int ranks;
      TF_RETURN_IF_ERROR(c->GetAttr("num_ranks", &ranks));
      ShapeHandle vector;
      for (int rank = 0; rank < ranks; ++rank) {
        TF_RETURN_IF_ERROR(c->WithRank(c->input(rank), 1, &vector));
      }
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(1, c->Vector(ranks));
      return Status();
    })
    .Doc(R"doc(
The message with the requests of a rank. To a rank whose numbers all fit, they travel in 4 bytes
each. Waits until the other exchanges of the step that graph_opt_expect_exchanges has named are ready
to send theirs: a rank sends those of all, or, if the step fails before, those of none.

requests: From GroupEmbeddingPrepare.
input_ended: One at most: whether the rank's input has ended, and the requests are empty.
message: For each rank, one after another, a header and its request.
splits: [num_ranks]. How many numbers go to each.
exchange: Name of the exchange, unique in the process.)doc");

REGISTER_OP("ExchangeFailure")
    .Input("code: int32")
    .Input("text: string")
    .Output("requests: int64")
    .Output("splits: int32")
    .Attr("num_ranks: int >= 1")
    .SetShapeFn([](InferenceContext* c) {
      int ranks;
      ShapeHandle scalar;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &scalar));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &scalar));
      TF_RETURN_IF_ERROR(c->GetAttr("num_ranks", &ranks));
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(1, c->Vector(ranks));
      return Status();
    })
    .Doc(R"doc(
What a rank sends to all ranks if it has no batch to look up. ExchangeGather then fails on all of
them, with "rank R: " before the text.

code: Of the error, not 0.
text: Of the error; what is longer than 8 KiB is cut off.
requests: For each rank.
splits: [num_ranks]. How many numbers go to each.
num_ranks: All of them.)doc");

}  // namespace
}  // namespace graph_opt
