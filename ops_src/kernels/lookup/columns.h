#ifndef GRAPH_OPT_KERNELS_LOOKUP_COLUMNS_H_
#define GRAPH_OPT_KERNELS_LOOKUP_COLUMNS_H_

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/status.h"

namespace graph_opt {

// How many columns of a tensor of `width` each lookup has. The columns of the lookups are side by
// side, in any order, and fill the tensor, so `first_columns` determines the rest.
tensorflow::Status WidthsOfColumns(const std::vector<tensorflow::int64>& first_columns,
                                   int64_t width, std::vector<int64_t>* widths);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_LOOKUP_COLUMNS_H_
