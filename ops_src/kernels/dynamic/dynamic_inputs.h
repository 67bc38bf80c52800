#ifndef GRAPH_OPT_KERNELS_DYNAMIC_DYNAMIC_INPUTS_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_DYNAMIC_INPUTS_H_

#include <cstdint>

#include "dynamic/dynamic_table.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// Inputs of ops on dynamic tables. If they have another shape, the error names the op and `what`,
// with its verb: "values have".

// A scalar.
tensorflow::Status ReadNumber(tensorflow::OpKernelContext* ctx, int input, const char* what,
                              int64_t* number);

// Whether keys without a row get one, a scalar.
tensorflow::Status ReadInsert(tensorflow::OpKernelContext* ctx, int input,
                              DynamicTable::Purpose* purpose);

// A vector.
tensorflow::Status ReadKeys(tensorflow::OpKernelContext* ctx, int input, const int64_t** keys,
                            int64_t* count);

// [count].
tensorflow::Status ReadNumbers(tensorflow::OpKernelContext* ctx, int input, const char* what,
                               int64_t count, const int64_t** numbers);

// [count], or empty, which gives null.
tensorflow::Status ReadNumbersIfAny(tensorflow::OpKernelContext* ctx, int input, const char* what,
                                    int64_t count, const int64_t** numbers);

// [count, dim].
tensorflow::Status ReadRows(tensorflow::OpKernelContext* ctx, int input, const char* what,
                            int64_t count, int64_t dim, const float** rows);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_DYNAMIC_INPUTS_H_
