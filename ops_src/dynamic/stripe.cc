#include "dynamic/stripe.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dynamic/row_holds.h"

namespace graph_opt {

constexpr uint32_t Stripe::kAbsent;
constexpr int64_t RowNumbers::kSlabRows;
constexpr int32_t RowMetadata::kNeverWritten;

namespace {

constexpr int64_t kFewLines = 64;  // so many are made in microseconds

// Of an index with so many lines, whose searches then seldom need a second one.
int64_t MostRows(int64_t lines) { return lines * kKeysPerLine * 4 / 5; }

}  // namespace

Stripe::Stripe(int number, int num_stripes, RowMetadata* metadata, KeyLines* lines)
    : number_(number), numbers_{0, num_stripes}, metadata_(metadata), lines_(lines), index_(1) {
  *lines_ = index_.key_lines();
}

void Stripe::Add(const Probe& probe, uint32_t row, uint32_t ticket) {
  if (!free_.empty() && free_.front().row == row) {
    free_.pop_front();
  } else {
    ++rows_;
  }
  if (index_.size() >= MostRows(index_.lines())) MakeIndex(MoreLines(index_.lines()));
  metadata_[row].Begin(probe.key, ticket);
  index_.Add(probe.key, probe.hash, row);
}

void Stripe::Free(uint32_t row, uint32_t read) {
  const Probe probe = ProbeOf(row);
  index_.Remove(probe.key, probe.hash);
  free_.push_back({row, read});
  metadata_[row].End();
}

void Stripe::LowerTickets() {
  ForEachRow(
      [this](uint32_t row) { metadata_[row].LowerRead(RowHolds::Lowered(metadata_[row].read())); });
  for (FreeRow& row : free_) row.read = RowHolds::Lowered(row.read);
  policies_.cold_rows.Clear();  // which knows tickets
}

void Stripe::Exchange(uint32_t one, uint32_t other) {
  const Probe probe_of_one = ProbeOf(one), probe_of_other = ProbeOf(other);
  index_.Replace(probe_of_one.key, probe_of_one.hash, other);
  index_.Replace(probe_of_other.key, probe_of_other.hash, one);
  RowMetadata kept;
  kept.CopyFrom(metadata_[one]);
  metadata_[one].CopyFrom(metadata_[other]);
  metadata_[other].CopyFrom(kept);
}

void Stripe::Clear() {
  free_.clear();
  rows_ = 0;
  MakeIndex(1);
  policies_.Clear();
}

// By a quarter, since lines that are not full yet are memory for nothing. All stripes have about
// the same number of keys, so each has other numbers of lines. Else all would make their index anew
// in the same lookup, and a training step would wait for it.
int64_t Stripe::MoreLines(int64_t lines) const {
  if (lines < kFewLines / 2) return 2 * lines;
  const double turn = static_cast<double>(number_) / static_cast<double>(numbers_.stripes);
  if (lines < kFewLines) return static_cast<int64_t>(kFewLines * std::pow(1.25, turn));
  return lines + lines / 4;
}

// In the order of rows, so that their metadata is read at the speed of memory.
void Stripe::MakeIndex(int64_t lines) {
  RowIndex made(lines);
  ForEachRow([&](uint32_t row) {
    const Probe probe = ProbeOf(row);
    made.Add(probe.key, probe.hash, row);
  });
  index_.Swap(&made);
  *lines_ = index_.key_lines();
}

void Stripe::Compact(uint32_t oldest_hold, const std::function<void(uint32_t, uint32_t)>& copy) {
  std::vector<FreeRow> free(free_.begin(), free_.end());
  const auto by_row = [](const FreeRow& a, const FreeRow& b) { return a.row < b.row; };
  std::sort(free.begin(), free.end(), by_row);
  std::vector<FreeRow> kept;  // free rows that must not be used yet
  size_t first = 0;
  for (; rows_ > 0; --rows_) {
    const uint32_t last = static_cast<uint32_t>(numbers_.Row(number_, rows_ - 1));
    if (first < free.size() && free.back().row == last) {
      if (free.back().read >= oldest_hold) break;
      free.pop_back();
      continue;
    }
    while (first < free.size() && free[first].read >= oldest_hold) kept.push_back(free[first++]);
    // What is free was kept, or is the end that was just reached; so is `last`, if it has no key.
    if (first == free.size() || metadata_[last].is_free()) break;
    if (metadata_[last].read() >= oldest_hold) break;
    Move(last, free[first++].row, copy);
  }
  free_.assign(kept.begin(), kept.end());
  free_.insert(free_.end(), free.begin() + first, free.end());
  int64_t lines = 1;
  while (MostRows(lines) <= index_.size()) lines = MoreLines(lines);
  if (lines <= index_.lines() / 2) MakeIndex(lines);
  policies_.cold_rows.Clear();  // which knows rows by their numbers
}

void Stripe::Move(uint32_t from, uint32_t to, const std::function<void(uint32_t, uint32_t)>& copy) {
  const Probe probe = ProbeOf(from);
  index_.Replace(probe.key, probe.hash, to);
  metadata_[to].CopyFrom(metadata_[from]);
  copy(from, to);
  metadata_[from].End();
}

int64_t Stripe::index_bytes() const {
  return index_.bytes() + static_cast<int64_t>(free_.size() * sizeof(FreeRow));
}

}  // namespace graph_opt
