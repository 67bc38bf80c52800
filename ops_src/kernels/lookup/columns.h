#ifndef GRAPH_OPT_KERNELS_LOOKUP_COLUMNS_H_
#define GRAPH_OPT_KERNELS_LOOKUP_COLUMNS_H_

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/status.h"

namespace graph_opt {

// How many columns each lookup has of a tensor of `width`. The columns of the lookups, side by side
// in any order, must be all there are, so `first_columns` tells the rest.
tensorflow::Status WidthsOfColumns(const std::vector<tensorflow::int64>& first_columns,
                                   int64_t width, std::vector<int64_t>* widths);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_LOOKUP_COLUMNS_H_
