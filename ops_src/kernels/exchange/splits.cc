#include "kernels/exchange/splits.h"

#include <limits>

#include "kernels/kernel_names.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;

Status ReadSplits(OpKernelContext* ctx, const std::string& op, std::vector<int64_t>* splits) {
  const Tensor* tensor = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("splits", &tensor));
  if (tensor->dims() != 1 || tensor->NumElements() == 0) {
    return errors::InvalidArgument(op, ": splits has shape ", tensor->shape().DebugString(),
                                   "; need one number for each rank");
  }
  const auto numbers = tensor->flat<tensorflow::int32>();
  for (int64_t rank = 0; rank < tensor->NumElements(); ++rank) {
    if (numbers(rank) < 0) {
      return errors::InvalidArgument(op, ": splits[", rank, "] is ", numbers(rank));
    }
    splits->push_back(numbers(rank));
  }
  return Status();
}

Status WriteSplits(OpKernelContext* ctx, const std::string& op, int output,
                   const std::vector<int64_t>& splits, int64_t* sum) {
  Tensor* tensor = nullptr;
  const int64_t ranks = static_cast<int64_t>(splits.size());
  TF_RETURN_IF_ERROR(ctx->allocate_output(output, TensorShape({ranks}), &tensor));
  auto numbers = tensor->flat<tensorflow::int32>();
  *sum = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (splits[rank] > std::numeric_limits<tensorflow::int32>::max()) {
      return errors::InvalidArgument(op, ": rank ", rank, " asks for rows of ", splits[rank],
                                     " elements; a message has at most 2^31 - 1: use smaller "
                                     "batches, or look up fewer tables at once");
    }
    numbers(rank) = static_cast<tensorflow::int32>(splits[rank]);
    *sum += splits[rank];
  }
  return Status();
}

}  // namespace graph_opt
