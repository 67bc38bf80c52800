#ifndef GRAPH_OPT_KERNELS_EXCHANGE_FAILING_TOGETHER_H_
#define GRAPH_OPT_KERNELS_EXCHANGE_FAILING_TOGETHER_H_

#include <string>

#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// Ends an op that has received the ids of all ranks with the error that ranks agree on, once the
// other exchanges of the step have received theirs (exchange/joined_exchanges.h), or the step is
// cancelled.
void FailTogether(tensorflow::OpKernelContext* ctx, const std::string& exchange,
                  const tensorflow::Status& error, tensorflow::AsyncOpKernel::DoneCallback done);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_EXCHANGE_FAILING_TOGETHER_H_
