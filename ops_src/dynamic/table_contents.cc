// How the contents of a dynamic table are read and replaced by key.
#include <algorithm>
#include <cstring>
#include <limits>

#include "dynamic/dynamic_table.h"
#include "dynamic/table_snapshot.h"
#include "scratch/scratch_array.h"

namespace graph_opt {
namespace {

int32_t AsStep(int64_t version) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  const int64_t least = RowMetadata::kNeverWritten;
  return static_cast<int32_t>(std::max(least, std::min(most, version)));
}

}  // namespace

absl::Status DynamicTable::Import(const Contents& contents, Parallel* parallel) {
  Find find;
  find.keys = contents.keys;
  find.num_keys = contents.num_keys;
  find.purpose = Purpose::kAdmit;
  ScratchArray<int64_t> rows(std::max<int64_t>(1, contents.num_keys));
  std::shared_ptr<Hold> hold;
  const absl::Status found = FindRows(find, parallel, rows.data(), &hold);
  if (!found.ok()) return found;
  const ReadLock lock(this);
  WillWrite(rows.data(), contents.num_keys);
  const int64_t bytes = dim() * static_cast<int64_t>(sizeof(float));
  const int num_slots = std::min(static_cast<int>(contents.slots.size()), records_.num_slots());
  for (int64_t i = 0; i < contents.num_keys; ++i) {
    if (contents.weights != nullptr) {
      std::memcpy(records_.Row(rows[i]), contents.weights + i * dim(), bytes);
    }
    for (int slot = 0; slot < num_slots; ++slot) {
      if (contents.slots[slot] == nullptr) continue;
      std::memcpy(records_.Slot(rows[i], slot), contents.slots[slot] + i * dim(), bytes);
    }
    RowMetadata* const of_row = &metadata()[rows[i]];
    if (contents.frequencies != nullptr) of_row->set_frequency(contents.frequencies[i]);
    if (contents.versions != nullptr) of_row->set_written(AsStep(contents.versions[i]));
  }
  return absl::OkStatus();
}

int64_t DynamicTable::Erase(const int64_t* keys, int64_t num_keys) {
  const ReadLock lock(this);
  int64_t erased = 0;
  for (int64_t i = 0; i < num_keys; ++i) {
    const Stripe::Probe probe(keys[i]);
    Stripe* const stripe = StripeOf(probe);
    const std::lock_guard<std::mutex> stripe_lock(*stripe->mutex());
    const uint32_t row = stripe->Find(probe);
    if (row == Stripe::kAbsent) continue;
    FreeRow(stripe, row);
    ++erased;
  }
  return erased;
}

void DynamicTable::ReadMetadata(const int64_t* keys, int64_t num_keys, int64_t* frequencies,
                                int64_t* versions) const {
  const ReadLock lock(this);
  for (int64_t i = 0; i < num_keys; ++i) {
    const Stripe::Probe probe(keys[i]);
    Stripe* const stripe = StripeOf(probe);
    const std::lock_guard<std::mutex> stripe_lock(*stripe->mutex());
    const uint32_t row = stripe->Find(probe);
    const bool is_absent = row == Stripe::kAbsent;
    if (frequencies != nullptr) {
      const AdmissionFilter* const filter = stripe->policies()->filter.get();
      const int64_t waiting = is_absent && filter != nullptr ? filter->Frequency(keys[i]) : 0;
      frequencies[i] = is_absent ? waiting : metadata()[row].frequency();
    }
    if (versions != nullptr) {
      versions[i] = is_absent ? RowMetadata::kNeverWritten : metadata()[row].written();
    }
  }
}

int64_t DynamicTable::Compact() {
  const ReadLock lock(this);
  if (num_snapshots_ > 0) return 0;  // they know rows by their numbers
  int64_t bytes = 0;
  for (const auto& stripe : stripes_) {
    const std::lock_guard<std::mutex> stripe_lock(*stripe->mutex());
    const int64_t slabs = stripe->num_slabs();
    stripe->Compact(holds_->Oldest(),
                    [this](uint32_t from, uint32_t to) { records_.CopyRow(from, to); });
    const std::lock_guard<std::mutex> commit_lock(commit_mutex_);
    for (int64_t slab = stripe->num_slabs(); slab < slabs; ++slab) {
      const int64_t begin = stripe->SlabBegin(slab);
      const int64_t end = begin + RowNumbers::kSlabRows;
      records_.GiveBack(begin, end);
      metadata_.GiveBack(MetadataBytes(begin), MetadataBytes(end));
      bytes += RowNumbers::kSlabRows * records_.stride() + MetadataBytes(RowNumbers::kSlabRows);
    }
  }
  given_back_bytes_ += bytes;
  return bytes;
}

std::shared_ptr<TableSnapshot> DynamicTable::Snapshot(bool changes) {
  const ExclusiveLock lock(this);
  auto snapshot = std::make_shared<TableSnapshot>(this, changes);
  const std::lock_guard<std::mutex> snapshots_lock(snapshots_mutex_);
  snapshots_.push_back(snapshot.get());
  ++num_snapshots_;
  return snapshot;
}

void DynamicTable::BeginCheckpoint() {
  const ExclusiveLock lock(this);
  removed_keys_.Begin();
  for (const auto& stripe : stripes_) {
    stripe->ForEachRow([this](uint32_t row) { metadata()[row].BeginSaving(); });
  }
}

void DynamicTable::EndCheckpoint() {
  const ExclusiveLock lock(this);
  removed_keys_.Commit();
  for (const auto& stripe : stripes_) {
    stripe->ForEachRow([this](uint32_t row) { metadata()[row].EndSaving(); });
  }
}

void DynamicTable::EndSnapshot(TableSnapshot* snapshot) {
  const std::lock_guard<std::mutex> lock(snapshots_mutex_);
  snapshots_.erase(std::find(snapshots_.begin(), snapshots_.end(), snapshot));
  --num_snapshots_;
}

void DynamicTable::KeepForSnapshots(const int64_t* rows, int64_t num_rows) {
  const std::lock_guard<std::mutex> lock(snapshots_mutex_);
  for (TableSnapshot* snapshot : snapshots_) snapshot->Keep(rows, num_rows);
}

}  // namespace graph_opt
