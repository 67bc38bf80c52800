#include "dynamic/stripe.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace graph_opt {

constexpr uint32_t Stripe::kAbsent;
constexpr int64_t RowNumbers::kSlabRows;
constexpr int32_t RowMetadata::kNeverWritten;

Stripe::Stripe(int number, int num_stripes, RowMetadata* metadata)
    : number_(number),
      numbers_{0, num_stripes},
      metadata_(metadata),
      index_(0, Hash{metadata}, Equal{metadata}) {}

void Stripe::Add(const Probe& probe, uint32_t row, uint32_t ticket) {
  if (!free_.empty() && free_.front().row == row) {
    free_.pop_front();
  } else {
    ++rows_;
  }
  metadata_[row].Begin(probe.key, ticket);
  GrowInTurn();
  index_.insert(row);
}

void Stripe::Free(uint32_t row) {
  index_.erase(index_.find(Probe(metadata_[row].key())));
  free_.push_back({row, metadata_[row].read()});
  metadata_[row].End();
}

void Stripe::Exchange(uint32_t one, uint32_t other) {
  const auto of_one = index_.find(Probe(metadata_[one].key()));
  const auto of_other = index_.find(Probe(metadata_[other].key()));
  // The keys stay where they are in the index, and so do their hashes.
  const_cast<uint32_t&>(*of_one) = other;
  const_cast<uint32_t&>(*of_other) = one;
  RowMetadata kept;
  kept.CopyFrom(metadata_[one]);
  metadata_[one].CopyFrom(metadata_[other]);
  metadata_[other].CopyFrom(kept);
}

void Stripe::Clear() {
  index_ = absl::flat_hash_set<uint32_t, Hash, Equal>(0, Hash{metadata_}, Equal{metadata_});
  free_.clear();
  rows_ = 0;
  grow_at_ = 0;
  policies_.Clear();
}

// All stripes have about the same number of keys, so each doubles its index at another load. Else
// all would in the same lookup, and a training step would wait for the whole index to be made anew.
void Stripe::GrowInTurn() {
  if (index_.size() < grow_at_) return;
  constexpr size_t kLeastCapacity = 1024;  // below, it takes microseconds
  const double load =
      0.875 * std::exp2(-static_cast<double>(number_) / static_cast<double>(numbers_.stripes));
  const auto most = [&] {
    return static_cast<size_t>(load * static_cast<double>(index_.capacity()));
  };
  if (index_.capacity() >= kLeastCapacity && index_.size() >= most()) {
    index_.rehash(2 * index_.capacity() + 1);
  }
  grow_at_ = std::max(most(), kLeastCapacity / 2);
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
  if (index_.capacity() > 4 * index_.size()) index_.rehash(0);
  policies_.cold_rows.Clear();  // which knows rows by their numbers
}

void Stripe::Move(uint32_t from, uint32_t to, const std::function<void(uint32_t, uint32_t)>& copy) {
  index_.erase(index_.find(Probe(metadata_[from].key())));
  metadata_[to].CopyFrom(metadata_[from]);
  copy(from, to);
  index_.insert(to);
  metadata_[from].End();
}

int64_t Stripe::index_bytes() const {
  const int64_t slot_bytes = sizeof(uint32_t) + 1;
  return static_cast<int64_t>(index_.capacity()) * slot_bytes +
         static_cast<int64_t>(free_.size() * sizeof(FreeRow));
}

}  // namespace graph_opt
