#include "dynamic/row_records.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace graph_opt {

bool RowRecords::Reserve(int64_t max_rows) {
  AddressRegion region;
  if (!region.Reserve(max_rows * stride())) return false;
  region_.Swap(&region);
  max_rows_ = max_rows;
  return true;
}

absl::Status RowRecords::AddSlot(const std::string& name, float initial, int64_t end,
                                 const std::vector<Range>& used) {
  RowRecords wider(dim_, max_rows_);
  wider.slots_ = slots_;
  wider.slots_.push_back({name, initial});
  if (!wider.Reserve(max_rows_)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no addresses for ", max_rows_ * wider.stride(), " bytes, which rows with ",
                     wider.num_slots(), " slots may need"));
  }
  const absl::Status committed = wider.Commit(0, end);
  if (!committed.ok()) return committed;
  for (const Range& range : used) {
    for (int64_t row = range.begin; row < range.end; ++row) {
      std::memcpy(wider.Row(row), Row(row), stride());
      std::fill_n(wider.Slot(row, num_slots()), dim_, initial);
    }
    GiveBack(range.begin, range.end);  // so that the memory of both is never needed at once
  }
  region_.Swap(&wider.region_);
  slots_ = wider.slots_;
  return absl::OkStatus();
}

absl::Status RowRecords::Commit(int64_t begin, int64_t end) {
  return region_.Commit(begin * stride(), end * stride());
}

void RowRecords::GiveBack(int64_t begin, int64_t end) {
  region_.GiveBack(begin * stride(), end * stride());
}

void RowRecords::WriteSlots(int64_t row) {
  for (int slot = 0; slot < num_slots(); ++slot) {
    std::fill_n(Slot(row, slot), dim_, slots_[slot].initial);
  }
}

void RowRecords::CopyRow(int64_t from, int64_t to) { std::memcpy(Row(to), Row(from), stride()); }

int RowRecords::SlotIndex(const std::string& name) const {
  for (int slot = 0; slot < num_slots(); ++slot) {
    if (slots_[slot].name == name) return slot;
  }
  return -1;
}

}  // namespace graph_opt
