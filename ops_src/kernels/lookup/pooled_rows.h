#ifndef GRAPH_OPT_KERNELS_LOOKUP_POOLED_ROWS_H_
#define GRAPH_OPT_KERNELS_LOOKUP_POOLED_ROWS_H_

#include <vector>

#include "kernels/lookup/group_inputs.h"
#include "lookup/group_lookup.h"
#include "lookup/occurrences.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// Allocates the outputs `pooled`, the first ones of the op: one for each lookup, or columns of one.
// `dims` and `dtypes` are the widths and types of the tables; outputs have these, or are of float.
// The lookups it fills in lack the tables' rows. With `first_read`, the number of an input, the
// outputs begin with the values of as many inputs, in their memory where nothing else needs it.
tensorflow::Status AllocatePooled(tensorflow::OpKernelContext* ctx, const GroupAttrs& attrs,
                                  const GroupInputs& inputs, const std::vector<int64_t>& dims,
                                  const std::vector<tensorflow::DataType>& dtypes,
                                  std::vector<Lookup>* lookups, int first_read = -1);

// The input `gradients`, one for each lookup or columns of one, checked against the lookups'
// shapes. `dims` takes the widths of the tables.
tensorflow::Status ReadGradients(tensorflow::OpKernelContext* ctx, const GroupAttrs& attrs,
                                 const GroupInputs& inputs, std::vector<PooledGradient>* lookups,
                                 std::vector<int64_t>* dims);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_LOOKUP_POOLED_ROWS_H_
