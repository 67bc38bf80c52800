#include "dynamic/table_snapshot.h"

#include <algorithm>
#include <cstring>

#include "dynamic/dynamic_table.h"
#include "keys/key_owners.h"

namespace graph_opt {

TableSnapshot::TableSnapshot(DynamicTable* table, const SnapshotPart& part)
    : table_(table),
      num_slots_(table->records_.num_slots()),
      clock_shift_(table->ClockShift()),
      bank_rows_(table->bank_rows_),
      removed_keys_(table->removed_keys_.keys()) {
  if (part.keys == SnapshotPart::kAll) entries_.reserve(std::min(table->size(), part.count));
  is_kept_.assign(table->end_, true);
  AddEntries(part);
}

void TableSnapshot::AddEntries(const SnapshotPart& part) {
  const auto chosen = Chosen(part);
  int64_t number = 0;  // of the next key
  const auto is_after = [&part](int64_t key) { return key - part.first >= part.count; };
  for (const auto& stripe : table_->stripes_) {
    if (is_after(number)) return;
    if (chosen == nullptr && number + stripe->size() <= part.first) {
      number += stripe->size();
      continue;
    }
    stripe->ForEachRow([&](uint32_t row) {
      const RowMetadata& metadata = table_->metadata()[row];
      if (chosen != nullptr && !chosen(metadata)) return;
      const int64_t key = number++;
      if (key < part.first || is_after(key)) return;
      entries_.push_back({row, metadata.frequency(), metadata.written()});
      is_kept_[row] = false;
    });
  }
}

std::function<bool(const RowMetadata&)> TableSnapshot::Chosen(const SnapshotPart& part) const {
  if (part.keys == SnapshotPart::kAll) return nullptr;
  if (part.keys == SnapshotPart::kChanged) {
    return [](const RowMetadata& row) { return row.is_changed(); };
  }
  const RowClock::Since since = table_->clock_->After(part.time);
  const bool only_written = part.keys == SnapshotPart::kWritten;
  return [since, only_written](const RowMetadata& row) {
    return row.written() >= since.written || (!only_written && row.read() >= since.read);
  };
}

TableSnapshot::~TableSnapshot() { table_->EndSnapshot(this); }

void TableSnapshot::Keep(const int64_t* rows, int64_t num_rows) {
  const int64_t size = (1 + num_slots_) * table_->dim();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (int64_t i = 0; i < num_rows; ++i) {
    const int64_t row = rows[i];
    if (row >= static_cast<int64_t>(is_kept_.size()) || is_kept_[row]) continue;
    is_kept_[row] = true;
    const float* const record = table_->records_.Row(row);
    kept_[static_cast<uint32_t>(row)] =
        Kept{table_->metadata()[row].key(), std::vector<float>(record, record + size)};
  }
}

void TableSnapshot::KeepBank() {
  if (bank_is_kept_) return;
  bank_ = BankOfTable();
  bank_is_kept_ = true;
}

std::vector<float> TableSnapshot::ReadBank() const {
  const DynamicTable::ReadLock table_lock(table_);
  return bank_is_kept_ ? bank_ : BankOfTable();
}

std::vector<float> TableSnapshot::BankOfTable() const {
  const int64_t dim = table_->dim();
  std::vector<float> bank(bank_rows_ * dim);
  for (int64_t row = 0; row < bank_rows_; ++row) {
    std::copy_n(table_->records_.Row(1 + row), dim, bank.begin() + row * dim);
  }
  return bank;
}

void TableSnapshot::Read(int64_t first, int64_t count, const Block& block) {
  const DynamicTable::ReadLock table_lock(table_);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (int64_t i = 0; i < count; ++i) {
    const Entry& entry = entries_[first + i];
    if (block.keys != nullptr) block.keys[i] = KeyOf(entry.row);
    if (block.frequencies != nullptr) block.frequencies[i] = entry.frequency;
    if (block.versions != nullptr) {
      block.versions[i] = table_->VersionOf(entry.written, clock_shift_);
    }
    ReadRow(entry.row, i, block);
  }
}

void TableSnapshot::ReadRow(uint32_t row, int64_t i, const Block& block) const {
  const auto kept = kept_.find(row);
  const int64_t dim = table_->dim();
  const float* const record =
      kept == kept_.end() ? table_->records_.Row(row) : kept->second.record.data();
  const auto copy = [&](int64_t part, float* to) {
    if (to != nullptr) std::memcpy(to + i * dim, record + part * dim, dim * sizeof(float));
  };
  copy(0, block.weights);
  for (size_t slot = 0; slot < block.slots.size(); ++slot) copy(1 + slot, block.slots[slot]);
}

int64_t TableSnapshot::KeyOf(uint32_t row) const {
  const auto kept = kept_.find(row);
  return kept == kept_.end() ? table_->metadata()[row].key() : kept->second.key;
}

std::vector<int64_t> TableSnapshot::SortByBucket(int64_t buckets) {
  const DynamicTable::ReadLock table_lock(table_);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto bucket_of = [&](const Entry& entry) {
    return KeyRemainder(KeyOf(entry.row), buckets);
  };
  std::vector<int64_t> begins(buckets + 1, 0);
  for (const Entry& entry : entries_) ++begins[bucket_of(entry) + 1];
  for (int64_t bucket = 0; bucket < buckets; ++bucket) begins[bucket + 1] += begins[bucket];
  std::vector<int64_t> next(begins.begin(), begins.end() - 1);
  std::vector<Entry> sorted(entries_.size());
  for (const Entry& entry : entries_) sorted[next[bucket_of(entry)]++] = entry;
  entries_.swap(sorted);
  return begins;
}

}  // namespace graph_opt
