// How the contents of a dynamic table are read and replaced by key.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <vector>

#include "dynamic/dynamic_table.h"
#include "dynamic/keys_by_stripe.h"
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

void DynamicTable::VisitByStripe(
    const int64_t* keys, int64_t num_keys, Parallel* parallel,
    const std::function<void(Stripe*, const Stripe::Probe&, int64_t)>& visit) const {
  const KeysByStripe by_stripe(keys, nullptr, num_keys, options_.stripes, stripe_shift_, parallel);
  const std::vector<int> stripes = by_stripe.StripesBySize();
  parallel->Run(static_cast<int64_t>(stripes.size()), [&](int64_t i) {
    const int number = stripes[i];
    Stripe* const stripe = stripes_[number].get();
    const std::lock_guard<std::mutex> lock(*stripe->mutex());
    for (int64_t k = by_stripe.begin(number); k < by_stripe.end(number); ++k) {
      visit(stripe, Stripe::Probe(by_stripe.key(k)), by_stripe.place(k));
    }
  });
}

absl::Status DynamicTable::Import(const Contents& contents, Parallel* parallel) {
  const int64_t count = contents.num_keys;
  const ReadLock lock(this);
  Find find;
  find.keys = contents.keys;
  find.num_keys = count;
  find.purpose = contents.insert ? Purpose::kAdmit : Purpose::kRead;
  ScratchArray<int64_t> rows(std::max<int64_t>(1, count));
  std::shared_ptr<Hold> hold;
  const absl::Status found = FindRows(find, parallel, rows.data(), &hold);
  if (!found.ok()) return found;
  if (num_snapshots_ > 0) KeepForSnapshots(rows.data(), count);
  VisitByStripe(contents.keys, count, parallel,
                [&](Stripe* stripe, const Stripe::Probe&, int64_t place) {
                  const int64_t row = rows[place];
                  if (row < first_row_) return;
                  WriteContents(contents, place, stripe, static_cast<uint32_t>(row));
                });
  return absl::OkStatus();
}

void DynamicTable::WriteContents(const Contents& contents, int64_t place, Stripe* stripe,
                                 uint32_t row) {
  const int64_t bytes = dim() * static_cast<int64_t>(sizeof(float));
  const int num_slots = std::min(static_cast<int>(contents.slots.size()), records_.num_slots());
  if (contents.weights != nullptr) {
    std::memcpy(records_.Row(row), contents.weights + place * dim(), bytes);
  }
  for (int slot = 0; slot < num_slots; ++slot) {
    if (contents.slots[slot] == nullptr) continue;
    std::memcpy(records_.Slot(row, slot), contents.slots[slot] + place * dim(), bytes);
  }
  RowMetadata* const of_row = &metadata()[row];
  if (contents.keep_versions) {
    of_row->set_written(of_row->written());
  } else {
    of_row->set_written(contents.versions == nullptr ? WrittenNow()
                                                     : WrittenIn(contents.versions[place]));
  }
  if (contents.frequencies == nullptr) return;
  of_row->set_frequency(contents.frequencies[place]);
  TellValue(stripe, row);
}

int64_t DynamicTable::Erase(const int64_t* keys, int64_t num_keys, Parallel* parallel) {
  const ReadLock lock(this);
  const IndexLock::Guard changes(&index_lock_, IndexLock::kChange);
  std::atomic<int64_t> erased{0};
  VisitByStripe(keys, num_keys, parallel, [&](Stripe* stripe, const Stripe::Probe& probe, int64_t) {
    const uint32_t row = stripe->Find(probe);
    if (row == Stripe::kAbsent) return;
    FreeRow(stripe, row);
    ++erased;
  });
  return erased;
}

void DynamicTable::ReadMetadata(const int64_t* keys, int64_t num_keys, Parallel* parallel,
                                int64_t* frequencies, int64_t* versions) const {
  const ReadLock lock(this);
  VisitByStripe(keys, num_keys, parallel,
                [&](Stripe* stripe, const Stripe::Probe& probe, int64_t place) {
                  const uint32_t row = stripe->Find(probe);
                  const bool is_absent = row == Stripe::kAbsent;
                  if (frequencies != nullptr) {
                    const AdmissionFilter* const filter = stripe->policies()->filter.get();
                    const bool may_wait = is_absent && filter != nullptr;
                    const int64_t waiting = may_wait ? filter->Frequency(probe.key) : 0;
                    frequencies[place] = is_absent ? waiting : metadata()[row].frequency();
                  }
                  if (versions != nullptr) {
                    const int32_t written =
                        is_absent ? RowMetadata::kNeverWritten : metadata()[row].written();
                    versions[place] = VersionOf(written, ClockShift());
                  }
                });
}

std::vector<FilteredKey> DynamicTable::FilteredKeys() const {
  std::vector<FilteredKey> keys;
  for (const auto& stripe : stripes_) {
    const AdmissionFilter* const filter = stripe->policies()->filter.get();
    if (filter != nullptr) filter->Export(&keys);
  }
  return keys;
}

void DynamicTable::RestoreFilteredKeys(const FilteredKey* keys, int64_t num_keys) {
  const ReadLock lock(this);
  for (int64_t i = 0; i < num_keys; ++i) {
    const Stripe::Probe probe(keys[i].key);
    Stripe* const stripe = StripeOf(probe);
    const std::lock_guard<std::mutex> stripe_lock(*stripe->mutex());
    AdmissionFilter* const filter = stripe->policies()->filter.get();
    if (filter != nullptr && stripe->Find(probe) == Stripe::kAbsent) filter->Restore(keys[i]);
  }
}

void DynamicTable::FillSlot(int slot, float value) {
  const ExclusiveLock lock(this);
  ForEachKey([&](int64_t, int64_t row, const RowMetadata&) {
    if (num_snapshots_ > 0) KeepForSnapshots(&row, 1);
    RowMetadata* const of_row = &metadata()[row];
    of_row->set_written(of_row->written());
    std::fill_n(records_.Slot(row, slot), dim(), value);
  });
}

int64_t DynamicTable::Compact() {
  const ReadLock lock(this);
  return CompactRows();
}

int64_t DynamicTable::CompactRows() {
  if (num_snapshots_ > 0) return 0;  // they know rows by their numbers
  const IndexLock::Guard changes(&index_lock_, IndexLock::kChange);
  // Lookups that found rows before the index was locked have their holds since then.
  if (!stamps_lookups_ && holds_->Oldest() != RowHolds::kNone) return 0;
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

int32_t DynamicTable::WrittenIn(int64_t version) const {
  return clock_ == nullptr ? AsStep(version) : clock_->StampAt(version);
}

int64_t DynamicTable::VersionOf(int32_t written, int clock_shift) const {
  return clock_ == nullptr ? written : clock_->TimeOf(written, clock_shift);
}

std::shared_ptr<TableSnapshot> DynamicTable::Snapshot() { return Snapshot(SnapshotPart()); }

std::shared_ptr<TableSnapshot> DynamicTable::Snapshot(const SnapshotPart& part) {
  const ExclusiveLock lock(this);
  auto snapshot = std::make_shared<TableSnapshot>(this, part);
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

void DynamicTable::KeepBankForSnapshots() {
  const std::lock_guard<std::mutex> lock(snapshots_mutex_);
  for (TableSnapshot* snapshot : snapshots_) snapshot->KeepBank();
}

}  // namespace graph_opt
