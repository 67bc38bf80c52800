#include "kernels/lookup/columns.h"

#include <algorithm>
#include <numeric>

#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

tensorflow::Status WidthsOfColumns(const std::vector<tensorflow::int64>& first_columns,
                                   int64_t width, std::vector<int64_t>* widths) {
  std::vector<size_t> order(first_columns.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return first_columns[a] < first_columns[b]; });
  widths->resize(first_columns.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t begin = first_columns[order[i]];
    const int64_t end = i + 1 < order.size() ? first_columns[order[i + 1]] : width;
    if (begin >= end || begin < 0 || (i == 0 && begin > 0)) {
      return tensorflow::errors::InvalidArgument(
          "the columns of lookup ", order[i], " begin at ", begin, " and the next ones at ", end,
          "; need the first ones at 0, at least one for each lookup, all below columns_width ",
          width);
    }
    (*widths)[order[i]] = end - begin;
  }
  return tensorflow::Status();
}

}  // namespace graph_opt
