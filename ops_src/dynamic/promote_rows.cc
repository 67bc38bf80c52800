// How rows of a dynamic table move from its file into memory.
#include <algorithm>

#include "dynamic/dynamic_table.h"

namespace graph_opt {

uint32_t DynamicTable::Promoted(Stripe* stripe, uint32_t row, uint32_t ticket) {
  constexpr int kLookedAt = 8;
  const RowMetadata& data = metadata()[row];
  // A snapshot knows rows by their numbers.
  if (data.read() >= holds_->Oldest() || num_snapshots_ > 0) return row;
  const int64_t in_memory = stripe->RowsBelow(records_.memory_rows());
  int64_t* const hand = &stripe->policies()->clock_hand;
  for (int64_t i = 0; i < std::min<int64_t>(kLookedAt, in_memory); ++i) {
    *hand = *hand + 1 < in_memory ? *hand + 1 : 0;
    const uint32_t other = stripe->RowAt(*hand);
    if (!IsColder(metadata()[other], data, ticket)) continue;
    records_.ExchangeRows(row, other);
    stripe->Exchange(row, other);
    TellValue(stripe, row);
    TellValue(stripe, other);
    ++promoted_;
    return other;
  }
  return row;
}

// Rows are compared by the time between their reads rather than by the last read alone, so that a
// scan over many keys that come once moves nothing. A row that was read often and is not any more
// gives its place away after a while.
bool DynamicTable::IsColder(const RowMetadata& one, const RowMetadata& other,
                            uint32_t ticket) const {
  constexpr uint32_t kMoreOften = 2;
  constexpr uint32_t kForgotten = 8;
  if (one.is_free() || one.read() >= other.read()) return false;
  const uint32_t idle = ticket - one.read();
  const uint32_t between = ticket - other.read();
  return idle / kForgotten >= between || other.frequency() / kMoreOften >= one.frequency();
}

}  // namespace graph_opt
