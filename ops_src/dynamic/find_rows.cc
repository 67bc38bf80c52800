// How a dynamic table finds and adds rows.
#include <algorithm>
#include <cstring>
#include <vector>

#include "dynamic/dynamic_table.h"
#include "dynamic/first_error.h"
#include "dynamic/keys_by_stripe.h"
#include "dynamic/recent_rows.h"
#include "keys/key_owners.h"
#include "rows/row_kernels.h"
#include "scratch/scratch_array.h"

namespace graph_opt {

absl::Status DynamicTable::FindRows(const Find& find, Parallel* parallel, int64_t* rows,
                                    std::shared_ptr<Hold>* hold) {
  if (!reserved_.ok()) return reserved_;
  if (must_move()) MoveToLargePages();
  *hold = holds_->Take();
  const uint32_t ticket = (*hold)->ticket();
  if (clock_ != nullptr) clock_->NoteLookup(ticket);
  if (stamps_lookups_) return FindByStripe(find, nullptr, find.num_keys, parallel, ticket, rows);
  ScratchArray<uint32_t> missed(std::max<int64_t>(1, find.num_keys));
  const int64_t num_missed = FindKnown(find, parallel, rows, missed.data());
  if (num_missed == 0) return absl::OkStatus();
  if (find.purpose == Purpose::kRead) {
    for (int64_t i = 0; i < num_missed; ++i) rows[missed[i]] = DefaultRow(find.keys[missed[i]]);
    not_found_ += num_missed;
    return absl::OkStatus();
  }
  return FindByStripe(find, missed.data(), num_missed, parallel, ticket, rows);
}

int64_t DynamicTable::BytesToFind(int64_t num_keys) const {
  constexpr int64_t kLinesOfKey = 512;  // of the index, and of what is known of its row
  constexpr int64_t kReadFromFile = 64 << 10;
  const bool may_be_in_file = options_.policies.tiers.memory_bytes > 0;
  return num_keys * (may_be_in_file ? kReadFromFile : kLinesOfKey);
}

int64_t DynamicTable::FindKnown(const Find& find, Parallel* parallel, int64_t* rows,
                                uint32_t* missed) {
  constexpr int64_t kLeastKeys = 2048;  // for which another thread is worth its start
  constexpr int64_t kBlocksOfThread = 4;
  const int64_t threads = parallel->num_threads();
  const int64_t most = threads == 1 ? 1 : threads * kBlocksOfThread;
  const int64_t num_blocks = std::max<int64_t>(1, std::min(most, find.num_keys / kLeastKeys));
  const auto begin = [&](int64_t block) { return block * find.num_keys / num_blocks; };
  std::vector<int64_t> counts(num_blocks);
  {
    const IndexLock::Guard reads(&index_lock_, IndexLock::kRead);
    parallel->Run(num_blocks, [&](int64_t block) {
      const int64_t first = begin(block);
      KeySearch search;
      search.stripes = lines_.data();
      search.stripe_shift = stripe_shift_;
      search.keys = find.keys;
      search.begin = first;
      search.end = begin(block + 1);
      search.rows = rows;
      search.missed = missed + first;
      counts[block] = BestRowKernels().search_keys(search);
    });
  }
  int64_t count = 0;
  for (int64_t block = 0; block < num_blocks; ++block) {
    std::copy_n(missed + begin(block), counts[block], missed + count);
    count += counts[block];
  }
  found_ += find.num_keys - count;
  return count;
}

absl::Status DynamicTable::FindByStripe(const Find& find, const uint32_t* places, int64_t num_keys,
                                        Parallel* parallel, uint32_t ticket, int64_t* rows) {
  const KeysByStripe keys(find.keys, places, num_keys, options_.stripes, stripe_shift_, parallel);
  std::unique_lock<std::mutex> room;
  if (options_.policies.limit.rows > 0 && find.purpose != Purpose::kRead) {
    room = std::unique_lock<std::mutex>(room_mutex_);
    const absl::Status checked = CheckRoom(keys, num_keys, parallel);
    if (!checked.ok()) return checked;
  }
  FirstError error;
  const std::vector<int> stripes = keys.StripesBySize();
  {
    const IndexLock::Guard changes(&index_lock_, IndexLock::kChange);
    parallel->Run(static_cast<int64_t>(stripes.size()), [&](int64_t i) {
      error.Tell(FindInStripe(find, keys, stripes[i], ticket, rows));
    });
  }
  if (find.purpose != Purpose::kRead) EvictOverflow(find.evicted);
  return error.status();
}

void DynamicTable::Renumber() const {
  // There are many more numbers, so one of the next lookups may do it as well.
  if (!lock_.TryLock()) return;
  const ExclusiveLock lock(this, std::adopt_lock);
  if (clock_ != nullptr && clock_->must_halve_stamps()) {
    clock_->HalveStamps();
    for (const auto& stripe : stripes_) {
      stripe->ForEachRow([this](uint32_t row) { metadata()[row].HalveWritten(); });
    }
  }
  if (!holds_->must_begin_again()) return;
  for (const auto& stripe : stripes_) stripe->LowerTickets();
  values_.LowerBy(RowHolds::kStep);
  if (clock_ != nullptr) clock_->LowerTickets(RowHolds::kStep);
  holds_->BeginAgain();
}

absl::Status DynamicTable::FindInStripe(const Find& find, const KeysByStripe& keys, int number,
                                        uint32_t ticket, int64_t* rows) {
  // So many keys at once that the memory which they need comes while others are looked at, and so
  // few that it is still in the first cache then.
  constexpr int kAtOnce = 32;
  Stripe* const stripe = stripes_[number].get();
  const std::lock_guard<std::mutex> lock(*stripe->mutex());
  Stripe::Probe probes[kAtOnce];
  int64_t waiting[kAtOnce];
  uint32_t of_probes[kAtOnce];
  const int64_t memory_rows = records_.memory_rows();
  const bool counts = find.purpose == Purpose::kInsert && stamps_lookups_;
  // With custom order, the last occurrence of a key is what counts.
  const bool is_custom = options_.policies.eviction.order == EvictionOrder::kCustom;
  const int64_t end = keys.end(number);
  RecentRows recent(is_custom ? 0 : end - keys.begin(number));
  const auto count_again = [&](uint32_t row, int64_t again) {
    if (counts) CountOccurrence(stripe, row, again);
  };
  int64_t found = 0, found_in_file = 0;
  std::vector<int64_t> refused;
  absl::Status status;
  for (int64_t next = keys.begin(number); next < end;) {
    int count = 0;
    for (; next < end && count < kAtOnce; ++next) {
      const int64_t key = keys.key(next);
      RecentRows::Entry* const known = recent.Find(key);
      if (known == nullptr) {
        probes[count] = Stripe::Probe(key);
        __builtin_prefetch(stripe->Home(probes[count]));
        waiting[count++] = next;
        continue;
      }
      const int64_t place = keys.place(next);
      rows[place] = known->row;
      known->again += find.count(place);
      ++found;
      found_in_file += known->row >= memory_rows;
    }
    for (int i = 0; i < count; ++i) {
      of_probes[i] = stripe->Find(probes[i]);
      __builtin_prefetch(&metadata()[of_probes[i]], 1);
    }
    bool has_changed = false;  // whether keys may have other rows than a moment ago
    for (int i = 0; i < count; ++i) {
      const int64_t place = keys.place(waiting[i]);
      uint32_t row = of_probes[i];
      if (has_changed) row = stripe->Find(probes[i]);
      if (row != Stripe::kAbsent) {
        ++found;
        if (row >= memory_rows) {
          ++found_in_file;
          row = Promoted(stripe, row, ticket);
          has_changed = true;
        }
        metadata()[row].set_read(ticket);
        if (counts) CountOccurrence(stripe, row, find.count(place));
        recent.Keep(probes[i].key, row, count_again);
      } else if (find.purpose != Purpose::kRead && status.ok()) {
        status = AddRow(stripe, probes[i], ticket, find, place, &row);
        has_changed = true;
        if (row == Stripe::kAbsent) refused.push_back(waiting[i]);
      }
      rows[place] = row == Stripe::kAbsent ? DefaultRow(probes[i].key) : row;
    }
  }
  recent.TellAll(count_again);
  // A later occurrence in this lookup may have been the one that its key was admitted with.
  for (int64_t i : refused) {
    const uint32_t row = stripe->Find(Stripe::Probe(keys.key(i)));
    if (row != Stripe::kAbsent) rows[keys.place(i)] = row;
  }
  AdmissionFilter* const filter = stripe->policies()->filter.get();
  if (filter != nullptr) filter->EndLookup();
  found_ += found;
  found_in_file_ += found_in_file;
  not_found_ += keys.end(number) - keys.begin(number) - found;
  return status;
}

absl::Status DynamicTable::AddRow(Stripe* stripe, const Stripe::Probe& probe, uint32_t ticket,
                                  const Find& find, int64_t place, uint32_t* row) {
  const int64_t occurrences = stamps_lookups_ ? find.count(place) : 1;
  const int64_t count = find.purpose == Purpose::kInsert ? occurrences : 0;
  int64_t frequency = count;
  AdmissionFilter* const filter = stripe->policies()->filter.get();
  if (filter != nullptr && find.purpose == Purpose::kAdmit) filter->Forget(probe.key);
  if (filter != nullptr && find.purpose == Purpose::kInsert) {
    if (!filter->Admit(probe.key, count, ticket, &frequency)) return absl::OkStatus();
  }
  const uint32_t next = stripe->NextRow(holds_->Oldest());
  const absl::Status brought = BringMemory(*stripe, next);
  if (!brought.ok()) return brought;
  *row = next;
  WriteInitial(probe.key, find.initial == nullptr ? nullptr : find.initial + place * dim(), next);
  stripe->Add(probe, next, ticket);
  if (clock_ != nullptr) metadata()[next].set_written(clock_->Stamp());
  CountOccurrence(stripe, next, frequency);
  TellValue(stripe, next);
  ++size_;
  ++inserted_;
  return absl::OkStatus();
}

absl::Status DynamicTable::BringMemory(const Stripe& stripe, uint32_t row) {
  if (row >= end_) {
    const absl::Status committed = CommitRows(int64_t{row} + 1);
    if (!committed.ok()) return committed;
  }
  if (row < records_.memory_rows() || !stripe.BeginsSlab(row)) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(commit_mutex_);
  return Named(records_.TakeSpace(row, row + RowNumbers::kSlabRows));
}

void DynamicTable::CountOccurrence(Stripe* stripe, uint32_t row, int64_t count) {
  RowMetadata* const data = &metadata()[row];
  if (options_.policies.eviction.order == EvictionOrder::kCustom) {
    data->set_frequency(count);
    TellValue(stripe, row);
  } else {
    data->AddFrequency(count);
  }
}

void DynamicTable::TellValue(Stripe* stripe, uint32_t row) {
  if (options_.policies.eviction.capacity == 0) return;
  const RowMetadata& data = metadata()[row];
  const RowValue value = values_.Of(data.frequency(), data.read());
  stripe->policies()->cold_rows.Add(row, value, data.read());
}

void DynamicTable::FreeRow(Stripe* stripe, uint32_t row) {
  if (num_snapshots_ > 0) {
    const int64_t number = row;
    KeepForSnapshots(&number, 1);
  }
  removed_keys_.Note(metadata()[row].key());
  stripe->Free(row, stamps_lookups_ ? metadata()[row].read() : holds_->Last());
  --size_;
  ++removed_;
}

int64_t DynamicTable::DefaultRow(int64_t key) const {
  const TablePolicies& policies = options_.policies;
  const bool needs_permission = policies.admission.kind != Admission::kAll;
  return needs_permission || policies.limit.rows > 0 ? 0 : BankRow(key);
}

int64_t DynamicTable::BankRow(int64_t key) const {
  if (bank_rows_ == 0) return 0;
  return 1 + KeyRemainder(key, bank_rows_);
}

void DynamicTable::WriteInitial(int64_t key, const float* initial, int64_t row) {
  float* const weights = records_.Row(row);
  if (initial == nullptr && options_.initial == InitialKind::kBank) {
    initial = records_.Row(BankRow(key));
  }
  if (initial != nullptr) {
    std::memcpy(weights, initial, dim() * sizeof(float));
  } else if (options_.initial == InitialKind::kKeyed) {
    WriteInitialRow(options_.initial_values, key, weights);
  } else {
    std::fill_n(weights, dim(), options_.initial_constant);
  }
  records_.WriteSlots(row);
}

}  // namespace graph_opt
