#include "rows/row_kernels.h"

// Read by graph_opt/ops/instruction_set.py: the name of what computes rows of this width, whose
// elements have so many bytes.
extern "C" __attribute__((visibility("default"))) const char* graph_opt_instruction_set(
    int64_t width, int32_t element_bytes) {
  using graph_opt::RowType;
  const RowType type = element_bytes == 4 ? RowType::kFloat : RowType::kHalf;
  return graph_opt::RowKernelsFor(width, type).name;
}
