#ifndef GRAPH_OPT_KERNELS_DYNAMIC_HELD_ROWS_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_HELD_ROWS_H_

#include <memory>
#include <vector>

#include "dynamic/row_holds.h"
#include "tensorflow/core/framework/tensor.h"

namespace graph_opt {

typedef std::vector<std::shared_ptr<Hold>> Holds;

// A tensor of the same numbers, in the same memory, that keeps the holds for as long as any tensor
// shares that memory.
tensorflow::Tensor HoldingRows(const tensorflow::Tensor& rows, std::shared_ptr<const Holds> holds);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_HELD_ROWS_H_
