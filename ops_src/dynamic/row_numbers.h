#ifndef GRAPH_OPT_DYNAMIC_ROW_NUMBERS_H_
#define GRAPH_OPT_DYNAMIC_ROW_NUMBERS_H_

#include <cstdint>

namespace graph_opt {

// How the rows of a table are numbered. Each stripe has slabs of kSlabRows rows, in turn with the
// other stripes: slab 0 of stripe 0, slab 0 of stripe 1, ..., slab 1 of stripe 0, ... So rows are
// given without asking other stripes, and a slab of values or metadata is whole pages.
struct RowNumbers {
  static constexpr int64_t kSlabRows = 1024;

  int64_t first_row;  // a multiple of kSlabRows
  int64_t stripes;

  // The number of the row that is the stripe's `local`th.
  int64_t Row(int64_t stripe, int64_t local) const {
    return first_row + (local / kSlabRows * stripes + stripe) * kSlabRows + local % kSlabRows;
  }
  // The number of the stripe's rows below the first row of a slab.
  int64_t RowsBelow(int64_t stripe, int64_t row) const {
    const int64_t slabs = (row - first_row) / kSlabRows;
    return slabs <= stripe ? 0 : ((slabs - stripe - 1) / stripes + 1) * kSlabRows;
  }
  int64_t Stripe(int64_t row) const { return (row - first_row) / kSlabRows % stripes; }
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ROW_NUMBERS_H_
