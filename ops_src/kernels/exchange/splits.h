#ifndef GRAPH_OPT_KERNELS_EXCHANGE_SPLITS_H_
#define GRAPH_OPT_KERNELS_EXCHANGE_SPLITS_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// The input `splits`: what each rank has sent, or gets. Collectives count in int32.
tensorflow::Status ReadSplits(tensorflow::OpKernelContext* ctx, const std::string& op,
                              std::vector<int64_t>* splits);

// Writes an output of splits, and adds them up.
tensorflow::Status WriteSplits(tensorflow::OpKernelContext* ctx, const std::string& op, int output,
                               const std::vector<int64_t>& splits, int64_t* sum);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_EXCHANGE_SPLITS_H_
