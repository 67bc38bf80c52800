#include "dynamic/row_records.h"

#include <algorithm>
#include <cstring>
#include <limits>

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
  RowRecords wider(dim_, max_rows_, tiers_);
  wider.fixed_rows_ = fixed_rows_;
  wider.slots_ = slots_;
  wider.slots_.push_back({name, initial});
  if (!wider.Reserve(max_rows_)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no addresses for ", max_rows_ * wider.stride(), " bytes, which rows with ",
                     wider.num_slots(), " slots may need"));
  }
  absl::Status status = wider.Commit(0, end);
  for (const Range& range : used) {
    if (status.ok()) status = wider.TakeSpace(range.begin, range.end);
  }
  if (!status.ok()) return status;
  for (const Range& range : used) {
    for (int64_t row = range.begin; row < range.used_end; ++row) {
      std::memcpy(wider.Row(row), Row(row), stride());
      std::fill_n(wider.Slot(row, num_slots()), dim_, initial);
    }
    GiveBack(range.begin, range.end);  // so that the memory of both is never needed at once
  }
  region_.Swap(&wider.region_);
  file_.swap(wider.file_);
  slots_ = wider.slots_;
  return absl::OkStatus();
}

absl::Status RowRecords::Commit(int64_t begin, int64_t end) {
  const int64_t middle = FileBegin(begin, end);
  const absl::Status committed = region_.Commit(begin * stride(), middle * stride());
  if (!committed.ok() || middle == end) return committed;
  if (file_ == nullptr) {
    const absl::Status made = RowFile::Create(tiers_.folder, tiers_.file_bytes, &file_);
    if (!made.ok()) return made;
  }
  return file_->Map(region_.data() + middle * stride(), middle * stride(), end * stride());
}

absl::Status RowRecords::TakeSpace(int64_t begin, int64_t end) {
  const int64_t middle = FileBegin(begin, end);
  if (middle == end) return absl::OkStatus();
  return file_->TakeSpace(middle * stride(), end * stride());
}

void RowRecords::GiveBack(int64_t begin, int64_t end) {
  const int64_t middle = FileBegin(begin, end);
  region_.GiveBack(begin * stride(), middle * stride());
  if (middle < end) file_->GiveBack(middle * stride(), end * stride());
}

int64_t RowRecords::memory_rows() const {
  if (tiers_.memory_bytes == 0) return std::numeric_limits<int64_t>::max();
  const int64_t slabs = tiers_.memory_bytes / (stride() * RowNumbers::kSlabRows);
  return std::max(fixed_rows_, slabs * RowNumbers::kSlabRows);
}

absl::Status RowRecords::SetFixedRows(int64_t fixed_rows) {
  const int64_t before = memory_rows();
  fixed_rows_ = std::max(fixed_rows_, fixed_rows);  // what is in memory stays there
  if (file_ == nullptr || memory_rows() == before) return absl::OkStatus();
  return region_.Renew(before * stride(), memory_rows() * stride());
}

int64_t RowRecords::FileBegin(int64_t begin, int64_t end) const {
  return std::min(end, std::max(begin, memory_rows()));
}

void RowRecords::WriteSlots(int64_t row) {
  for (int slot = 0; slot < num_slots(); ++slot) {
    std::fill_n(Slot(row, slot), dim_, slots_[slot].initial);
  }
}

void RowRecords::CopyRow(int64_t from, int64_t to) { std::memcpy(Row(to), Row(from), stride()); }

void RowRecords::ExchangeRows(int64_t one, int64_t other) {
  std::swap_ranges(Row(one), Row(one) + (1 + num_slots()) * dim_, Row(other));
}

int RowRecords::SlotIndex(const std::string& name) const {
  for (int slot = 0; slot < num_slots(); ++slot) {
    if (slots_[slot].name == name) return slot;
  }
  return -1;
}

}  // namespace graph_opt
