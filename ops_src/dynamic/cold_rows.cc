#include "dynamic/cold_rows.h"

#include <algorithm>
#include <limits>

namespace graph_opt {
namespace {

constexpr size_t kShare = 8;
constexpr size_t kFewRows = 64;
constexpr uint32_t kNoHold = std::numeric_limits<uint32_t>::max();

bool IsWorthMore(const ColdRows::Entry& one, const ColdRows::Entry& other) {
  return one.value == other.value ? other.row < one.row : other.value < one.value;
}

}  // namespace

void ColdRows::Add(uint32_t row, RowValue value, uint32_t read) {
  if (!(value < cutoff_)) return;
  Hold(row, read);
  if (entries_.size() + held_.size() > most_entries_) Clear();
}

bool ColdRows::Coldest(const ValuedRows& rows, uint32_t oldest_hold, Entry* coldest) {
  TakeReleased(rows, oldest_hold);
  if (FindTop(rows, oldest_hold, coldest)) return true;
  if (oldest_hold == all_held_since_) return false;
  Refill(rows, oldest_hold);
  if (FindTop(rows, oldest_hold, coldest)) return true;
  // Rows that come later are held as long as these.
  if (oldest_hold != kNoHold) all_held_since_ = oldest_hold;
  return false;
}

void ColdRows::Clear() {
  std::vector<Entry>().swap(entries_);
  std::vector<Held>().swap(held_);
  cutoff_ = {0, 0};
  all_held_since_ = 0;
}

int64_t ColdRows::bytes() const {
  return static_cast<int64_t>(entries_.capacity() * sizeof(Entry) +
                              held_.capacity() * sizeof(Held));
}

void ColdRows::Refill(const ValuedRows& rows, uint32_t oldest_hold) {
  Clear();
  std::vector<Entry> all;
  size_t num_rows = 0;
  rows.ForEach([&](uint32_t row) {
    ++num_rows;
    const uint32_t read = rows.LastRead(row);
    if (read < oldest_hold) {
      all.push_back({rows.Value(row), row});
    } else {
      Hold(row, read);
    }
  });
  most_entries_ = 2 * num_rows + kFewRows;
  cutoff_ = RowValue::Highest();
  const size_t kept = std::max(kFewRows, all.size() / kShare);
  if (kept < all.size()) {
    const auto less = [](const Entry& one, const Entry& other) { return IsWorthMore(other, one); };
    std::nth_element(all.begin(), all.begin() + kept, all.end(), less);
    cutoff_ = all[kept].value;
    all.resize(kept);
  }
  entries_.assign(all.begin(), all.end());
  std::make_heap(entries_.begin(), entries_.end(), IsWorthMore);
}

void ColdRows::TakeReleased(const ValuedRows& rows, uint32_t oldest_hold) {
  const auto later = [](const Held& one, const Held& other) { return other.read < one.read; };
  while (!held_.empty() && held_.front().read < oldest_hold) {
    const uint32_t row = held_.front().row;
    std::pop_heap(held_.begin(), held_.end(), later);
    held_.pop_back();
    if (!rows.IsUsed(row)) continue;
    const uint32_t read = rows.LastRead(row);
    if (read >= oldest_hold) {
      Hold(row, read);
    } else if (rows.Value(row) < cutoff_) {
      Push(row, rows.Value(row));
    }
  }
}

bool ColdRows::FindTop(const ValuedRows& rows, uint32_t oldest_hold, Entry* coldest) {
  while (!entries_.empty()) {
    const Entry top = entries_.front();
    if (rows.IsUsed(top.row)) {
      const RowValue value = rows.Value(top.row);
      const uint32_t read = rows.LastRead(top.row);
      if (value == top.value && read < oldest_hold) {
        *coldest = top;
        return true;
      }
      if (read >= oldest_hold) {
        Hold(top.row, read);
      } else if (value < cutoff_) {
        Pop();
        Push(top.row, value);
        continue;
      }
    }
    Pop();
  }
  return false;
}

void ColdRows::Push(uint32_t row, RowValue value) {
  entries_.push_back({value, row});
  std::push_heap(entries_.begin(), entries_.end(), IsWorthMore);
}

void ColdRows::Pop() {
  std::pop_heap(entries_.begin(), entries_.end(), IsWorthMore);
  entries_.pop_back();
}

void ColdRows::Hold(uint32_t row, uint32_t read) {
  held_.push_back({read, row});
  std::push_heap(held_.begin(), held_.end(),
                 [](const Held& one, const Held& other) { return other.read < one.read; });
}

}  // namespace graph_opt
