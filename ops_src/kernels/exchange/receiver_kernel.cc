#include "kernels/exchange/receiver_kernel.h"

#include "kernels/exchange/splits.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/pooled_rows.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;

Status ReceiverKernel::ReadSent(OpKernelContext* ctx, const Tensor& rows,
                                std::vector<SentRows>* sent) const {
  std::vector<int64_t> splits;
  TF_RETURN_IF_ERROR(ReadSplits(ctx, name(), &splits));
  const char* const data = rows.tensor_data().data();
  int64_t begin = 0;
  for (int64_t size : splits) {
    sent->push_back(SentRows{data + begin * ByteSize(type()), size});
    begin += size;
  }
  if (begin == rows.NumElements() && splits.size() == static_cast<size_t>(num_servers())) {
    return Status();
  }
  return errors::InvalidArgument(name(), ": rows has ", rows.NumElements(),
                                 " elements, and splits says that ", splits.size(),
                                 " ranks have sent ", begin, "; need ", num_servers(), " ranks");
}

Status ReceiverKernel::ReadNumbered(OpKernelContext* ctx, const GroupInputs& inputs,
                                    const PackedShards& shards,
                                    std::vector<PooledGradient>* lookups) const {
  std::vector<int64_t> dims;
  std::vector<Bags> bags;
  TF_RETURN_IF_ERROR(ReadGradients(ctx, attrs_, inputs, lookups, &dims));
  for (int t = 0; t < attrs_.num_tables(); ++t) {
    if (dims[t] == shards.widths[t]) continue;
    return errors::InvalidArgument(name(), ": gradients of table '", attrs_.table_names[t],
                                   "' are ", dims[t], " wide, the table is ", shards.widths[t]);
  }
  TF_RETURN_IF_ERROR(NumberRows(ctx, inputs, shards, &bags));
  for (size_t i = 0; i < lookups->size(); ++i) (*lookups)[i].bags = bags[i];
  return Status();
}

}  // namespace graph_opt
