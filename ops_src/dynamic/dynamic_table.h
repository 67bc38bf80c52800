#ifndef GRAPH_OPT_DYNAMIC_DYNAMIC_TABLE_H_
#define GRAPH_OPT_DYNAMIC_DYNAMIC_TABLE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "dynamic/address_region.h"
#include "dynamic/dynamic_table_options.h"
#include "dynamic/evicted_rows.h"
#include "dynamic/index_lock.h"
#include "dynamic/removed_keys.h"
#include "dynamic/row_clock.h"
#include "dynamic/row_holds.h"
#include "dynamic/row_records.h"
#include "dynamic/stripe.h"
#include "dynamic/table_lock.h"
#include "lookup/parallel.h"
#include "pages/moving_tables.h"
#include "rows/key_lines.h"

namespace graph_opt {

class KeysByStripe;
class TableSnapshot;
struct SnapshotPart;

// A table that gives rows to keys as they come. Every number is a key. Rows are records of floats,
// [weights | slot 0 | slot 1 | ...], and never move while somebody holds them.
//
// Rows below first_row belong to no key: row 0 is what keys without permission read, and those
// after it are the bank of default rows. Lookups give them to keys that have no row; updates skip
// them.
//
// All functions may be called from several threads. Whoever touches the memory of rows has their
// hold, and a ReadLock since they were found.
//
//   bytes of a row          what
//   4 * dim * (1 + slots)   weights, then each slot: in one range of addresses that gets memory as
//                           the table grows (row_records.h, address_region.h)
//   20                      key, frequency, last lookup and last update: in an array of its own
//                           (row_metadata.h)
//   17 to 19                the row of a key: in an index of each stripe (row_index.h)
//
// So rows have numbers, never move as the table grows, and kernels need nothing but a base, a
// stride and the first row that belongs to a key. Another slot makes rows wider, for which they are
// laid out again under the table's exclusive lock, with the same numbers.
//
// Lookups. Where nothing depends on when rows were looked up or how often (stamps_lookups_), keys
// are searched in the order in which they come, on all threads (rows/search_keys.h): that reads
// neither metadata nor values, and writes nothing. Only keys without a row are sorted by stripe.
// Searches share the table's index_lock.h with each other; so do those who change indices, but
// never both at once. Rows that are freed wait for all holds of that moment, and none move while
// there is a hold.
//
// Stripes. The leading bits of a key's hash say which stripe it belongs to. A lookup that stamps
// rows, or gives keys rows, sorts its occurrences by stripe on all threads (keys_by_stripe.h); then
// one thread does all of a stripe, under its mutex, which it takes once. Its keys go through three
// loops of 32: fetch the line of the index, find the row and fetch its metadata, stamp it. Popular
// keys skip all that (recent_rows.h). Rows are given by slabs (row_numbers.h), so the same lookups
// give the same rows whatever the threads.
//
// Holds. A lookup takes the next ticket, and stamps it on the rows that it gives out, if it stamps
// any (row_holds.h). The tensor with their numbers owns a hold, which ends when TensorFlow frees
// it: the batch was used or dropped, or the session is closed. Whoever evicts, moves or reuses rows
// leaves those with the stamp of the oldest hold or a later one. A key can be removed while its row
// is held; the row waits among the stripe's free rows. Before the 32 bits of tickets run out, all
// are lowered.
//
// Locks. Whoever touches rows shares the table's lock (table_lock.h). It is taken exclusively to
// lay rows out again, to begin anew, and to begin a snapshot. An op takes those of all its tables,
// each once, before it finds rows, and keeps them while it uses these (read_locks.h). Updates of a
// row by several ops at once race as they do in a variable without `use_locking`.
//
// Memory. Once a table has outgrown its first slabs, it asks for large pages, with which random
// reads of rows are a third quicker. The system often has none at the moment when memory is first
// written, so the first lookup after a table has grown has what it got in small pages moved
// (moving_tables.h). Rows of removed keys are used again. If more than a quarter of
// the rows are free after an eviction, the last rows of each stripe move to free ones before them,
// and the memory behind the slabs at the end is returned to the system.
class DynamicTable {
 public:
  enum class Purpose {
    kInsert,  // keys that have no row get one if they are admitted, and occurrences are counted
    kRead,    // neither
    kAdmit,   // keys that have no row get one, whatever the rules; nothing is counted
  };

  // Keys to find, any of them several times.
  struct Find {
    const int64_t* keys = nullptr;
    int64_t num_keys = 0;
    Purpose purpose = Purpose::kInsert;
    const int64_t* counts = nullptr;  // how often each occurs; null: once
    const float* initial = nullptr;   // [num_keys, dim]: what new rows begin with, or null
    EvictedRows* evicted = nullptr;   // takes what a full table gave up for new keys, or null

    int64_t count(int64_t i) const { return counts == nullptr ? 1 : counts[i]; }
  };

  // Where rows are, under a ReadLock. Slot s of row r is at base + r * stride + (1 + s) * dim * 4,
  // its weights at base + r * stride.
  struct Rows {
    char* base;
    int64_t stride;     // bytes
    int64_t end;        // row numbers are below
    int64_t first_row;  // of a key
  };

  // What is known of keys besides their rows.
  struct Metrics {
    int64_t keys;
    int64_t free_rows;
    int64_t holds;             // lookups whose rows are held
    int64_t index_bytes;       // of keys, with what is kept of free rows
    int64_t metadata_bytes;    // 20 for each row
    int64_t row_bytes;         // weights and slots of keys
    int64_t free_row_bytes;    // the same of free rows, unless given back
    int64_t given_back_bytes;  // memory of rows returned to the system, in all
    int64_t inserted;          // keys, in all
    int64_t removed;
    int64_t evicted;  // of those, by a rule
    int64_t found;    // occurrences in lookups that had a row, in all
    int64_t not_found;
    int64_t found_in_file;  // of the found
    int64_t promoted;       // rows that moved from the file into memory, in all
    int64_t file_bytes;     // of the disk
    int64_t filtered_keys;  // that are counted, and have no row yet
    int64_t policy_bytes;   // memory of filters, and of the order of eviction
  };

  // Rows stay what they are while this lives: nobody begins anew, or adds a slot. A thread that has
  // one calls only what says that it is to be called under it.
  class ReadLock {
   public:
    explicit ReadLock(const DynamicTable* table) : table_(table) {
      if (table_->must_renumber()) table_->Renumber();
      table_->lock_.LockShared();
    }
    ~ReadLock() { table_->lock_.UnlockShared(); }
    ReadLock(const ReadLock&) = delete;
    ReadLock& operator=(const ReadLock&) = delete;

   private:
    const DynamicTable* const table_;
  };

  // Nobody else touches rows, or the index, while this lives.
  class ExclusiveLock {
   public:
    explicit ExclusiveLock(const DynamicTable* table) : table_(table) { table_->lock_.Lock(); }
    ExclusiveLock(const DynamicTable* table, std::adopt_lock_t) : table_(table) {}
    ~ExclusiveLock() { table_->lock_.Unlock(); }
    ExclusiveLock(const ExclusiveLock&) = delete;
    ExclusiveLock& operator=(const ExclusiveLock&) = delete;

   private:
    const DynamicTable* const table_;
  };

  explicit DynamicTable(const DynamicTableOptions& options);
  ~DynamicTable();

  const DynamicTableOptions& options() const { return options_; }
  int64_t dim() const { return options_.dim; }

  // Begins anew without keys: with these default rows, [bank_rows, dim], which may be none. Slots
  // stay.
  absl::Status Initialize(const float* bank, int64_t bank_rows);
  bool is_initialized() const { return is_initialized_; }

  // Forgets all keys. Those that are held keep their memory until they are not.
  void Clear();

  // Adds a slot, whose values begin with `initial` in all rows, those that exist included. Does
  // nothing if there is one with this name. `index` may be null.
  absl::Status AddSlot(const std::string& name, float initial, int* index);
  // Lets a slot have this value in all rows.
  void FillSlot(int slot, float value);
  int num_slots() const;
  int SlotIndex(const std::string& name) const;  // -1 if there is none

  // Under a ReadLock: writes the row of each key, and gives out a hold of all of them. Keys that
  // get no row are given one below first_row. Fails, with nothing changed, if new keys need more
  // rows than a table with a limit has left.
  absl::Status FindRows(const Find& find, Parallel* parallel, int64_t* rows,
                        std::shared_ptr<Hold>* hold);

  // What finding so many keys costs, as bytes of rows that would be read meanwhile.
  int64_t BytesToFind(int64_t num_keys) const;

  // Under a ReadLock.
  Rows rows() const;

  // Tells that rows are about to be written. Under a ReadLock, before they are; rows below
  // first_row are skipped.
  void WillWrite(const int64_t* rows, int64_t num_rows);

  // The step that updates belong to from now on. Of no effect where their times are noted.
  void set_step(int64_t step) { step_ = static_cast<int32_t>(step); }
  int64_t step() const { return step_; }

  int64_t size() const { return size_; }  // keys
  Metrics metrics() const;

  // The number of keys' occurrences, also of those that wait for a row, and the step of their last
  // update, -1 for those without a row. Either may be null.
  void ReadMetadata(const int64_t* keys, int64_t num_keys, Parallel* parallel, int64_t* frequencies,
                    int64_t* versions) const;

  // Keys with what belongs to them.
  struct Contents {
    const int64_t* keys = nullptr;
    int64_t num_keys = 0;
    // [num_keys, dim] for the weights and for each slot. Where one is null, rows keep what they
    // have, or what new rows begin with.
    const float* weights = nullptr;
    std::vector<const float*> slots;
    const int64_t* frequencies = nullptr;  // [num_keys], or null
    const int64_t* versions = nullptr;     // [num_keys], or null: this step
    bool keep_versions = false;            // of keys that have rows, whatever `versions` are
    bool insert = true;  // gives keys that have no row one; else they are passed over
  };
  // Writes the contents. The last of equal keys counts.
  absl::Status Import(const Contents& contents, Parallel* parallel);

  // Removes keys; those that have no row are skipped. Returns how many there were.
  int64_t Erase(const int64_t* keys, int64_t num_keys, Parallel* parallel);

  // What the table has at this moment, or a part of it, to be read in blocks while others train.
  std::shared_ptr<TableSnapshot> Snapshot();
  std::shared_ptr<TableSnapshot> Snapshot(const SnapshotPart& part);

  // Whether it is known which rows were touched since a moment.
  bool notes_times() const { return clock_ != nullptr; }
  // Notes times by this clock. To be called first.
  void UseClock(std::unique_ptr<RowClock> clock) { clock_ = std::move(clock); }

  // A checkpoint that changes are counted from is about to be written, and is written. If it fails,
  // changes are those since the one before.
  void BeginCheckpoint();
  void EndCheckpoint();
  // Whether there is one; not if all keys were forgotten since.
  bool tracks_changes() const { return removed_keys_.is_tracking(); }

  // Removes keys by the rules for checkpoints: those whose last update is too many steps before
  // this one, and those of small weights; none that are held. Keys that were never updated count
  // from the first call. Returns how many there were; `evicted` may be null.
  int64_t Evict(int64_t step, Parallel* parallel, EvictedRows* evicted);

  // Lets later lookups belong to another epoch.
  void EndEpoch();

  // Keys that the filter counted, and that have no row. Under the ExclusiveLock or with no other
  // user.
  std::vector<FilteredKey> FilteredKeys() const;
  void RestoreFilteredKeys(const FilteredKey* keys, int64_t num_keys);

  // Moves rows that nobody holds to fill slabs, and gives the memory of empty ones back. Returns
  // the number of bytes. Evict does so if many rows are free.
  int64_t Compact();

  // As if so many lookups had been, for tests.
  void SkipLookups(int64_t lookups) { holds_->Skip(lookups); }

  // Calls visit(key, row, metadata) for each key, under the ExclusiveLock or with no other user.
  template <typename Visit>
  void ForEachKey(Visit visit) const {
    for (const auto& stripe : stripes_) {
      stripe->ForEachRow([&](uint32_t row) { visit(metadata()[row].key(), row, metadata()[row]); });
    }
  }

 private:
  friend class TableSnapshot;

  RowMetadata* metadata() const { return reinterpret_cast<RowMetadata*>(metadata_.data()); }
  Stripe* StripeOf(const Stripe::Probe& probe) const {
    return stripes_[probe.hash >> stripe_shift_].get();
  }

  // Calls visit(stripe, probe, place) for each key, those of a stripe in their order, on one thread
  // and under its mutex.
  void VisitByStripe(
      const int64_t* keys, int64_t num_keys, Parallel* parallel,
      const std::function<void(Stripe*, const Stripe::Probe&, int64_t)>& visit) const;
  // Writes what belongs to the key at `place`. Under the stripe's mutex.
  void WriteContents(const Contents& contents, int64_t place, Stripe* stripe, uint32_t row);
  // What is stamped on rows that are written now, or were in a version; and the version of a stamp.
  int32_t WrittenNow() const { return clock_ == nullptr ? step_.load() : clock_->Stamp(); }
  int32_t WrittenIn(int64_t version) const;
  int64_t VersionOf(int32_t written, int clock_shift) const;
  int ClockShift() const { return clock_ == nullptr ? 0 : clock_->shift(); }

  // Begins numbering lookups, and moments, again before the numbers run out.
  bool must_renumber() const {
    return holds_->must_begin_again() || (clock_ != nullptr && clock_->must_halve_stamps());
  }
  void Renumber() const;
  // Whether there are many more keys than when memory was last moved to large pages.
  bool must_move() const;
  void MoveToLargePages();  // under a ReadLock
  // Whether there is room for the keys that have no row; of a table with a limit.
  absl::Status CheckRoom(const KeysByStripe& keys, int64_t num_keys, Parallel* parallel) const;
  // Finds keys that have rows, in the order in which they come. Returns how many have none, and
  // writes which.
  int64_t FindKnown(const Find& find, Parallel* parallel, int64_t* rows, uint32_t* missed);
  // Finds keys stripe by stripe, and those that have no row give one: all, or those at `places`.
  absl::Status FindByStripe(const Find& find, const uint32_t* places, int64_t num_keys,
                            Parallel* parallel, uint32_t ticket, int64_t* rows);
  absl::Status FindInStripe(const Find& find, const KeysByStripe& keys, int number, uint32_t ticket,
                            int64_t* rows);
  // Gives the key at `place` a row, or leaves it absent. Under the stripe's mutex.
  absl::Status AddRow(Stripe* stripe, const Stripe::Probe& probe, uint32_t ticket, const Find& find,
                      int64_t place, uint32_t* row);
  // Takes a row from its key. Under the stripe's mutex.
  void FreeRow(Stripe* stripe, uint32_t row);
  int64_t DefaultRow(int64_t key) const;
  int64_t BankRow(int64_t key) const;
  absl::Status BringMemory(const Stripe& stripe, uint32_t row);
  absl::Status Named(const absl::Status& status) const;
  // The following are under the stripe's mutex.
  void CountOccurrence(Stripe* stripe, uint32_t row, int64_t count);
  void TellValue(Stripe* stripe, uint32_t row);  // of a row that is new, or may be worth less
  // Where a row of the file that is being read is from now on.
  uint32_t Promoted(Stripe* stripe, uint32_t row, uint32_t ticket);
  bool IsColder(const RowMetadata& one, const RowMetadata& other, uint32_t ticket) const;
  int64_t EvictFromStripe(Stripe* stripe, int64_t step, EvictedRows* evicted);
  void EvictRow(Stripe* stripe, uint32_t row, EvictedRows* evicted);
  void EvictOverflow(EvictedRows* evicted);  // under no mutex
  void WriteInitial(int64_t key, const float* initial, int64_t row);
  absl::Status CommitRows(int64_t end);
  int64_t CompactRows();  // under a ReadLock
  absl::Status ReserveAddresses();
  absl::Status BeginAnew(const float* bank, int64_t bank_rows);
  void ForgetKeys(bool keep_held);
  std::vector<RowRecords::Range> UsedRows() const;
  int64_t RowsInMemory() const;  // of keys, or free
  void EndSnapshot(TableSnapshot* snapshot);
  void KeepForSnapshots(const int64_t* rows, int64_t num_rows);
  void KeepBankForSnapshots();
  static int64_t MetadataBytes(int64_t rows) {
    return rows * static_cast<int64_t>(sizeof(RowMetadata));
  }

  const DynamicTableOptions options_;
  const int stripe_shift_;
  const bool stamps_lookups_;        // on the rows that they find
  absl::Status reserved_;            // whether there are addresses
  std::unique_ptr<RowClock> clock_;  // null: times are not noted
  RowRecords records_;
  AddressRegion metadata_;
  std::vector<KeyLines> lines_;  // of the stripes' indices
  std::vector<std::unique_ptr<Stripe>> stripes_;
  const std::shared_ptr<RowHolds> holds_;
  mutable TableLock lock_;
  IndexLock index_lock_;             // taken before the mutexes of stripes
  int64_t first_row_ = 0;            // guarded by lock_
  int64_t bank_rows_ = 0;            // guarded by lock_
  mutable std::mutex commit_mutex_;  // taken last
  std::atomic<int64_t> end_{0};      // of rows with memory
  std::atomic<bool> is_initialized_{false};
  std::atomic<int32_t> step_{RowMetadata::kNeverWritten};
  std::atomic<int64_t> size_{0};
  std::atomic<int64_t> moved_keys_{0};  // when memory was last moved to large pages
  MovingTables moving_;
  std::atomic<int64_t> inserted_{0};
  std::atomic<int64_t> removed_{0};
  std::atomic<int64_t> found_{0};
  std::atomic<int64_t> not_found_{0};
  std::atomic<int64_t> found_in_file_{0};
  std::atomic<int64_t> promoted_{0};
  std::atomic<int64_t> evicted_{0};
  mutable RowValues values_;   // guarded by lock_
  std::mutex room_mutex_;      // of those who add rows to a table with a limit; taken first
  std::mutex eviction_mutex_;  // taken before those of stripes
  std::atomic<int64_t> given_back_bytes_{0};
  RemovedKeys removed_keys_;
  std::mutex snapshots_mutex_;
  std::atomic<int> num_snapshots_{0};
  std::vector<TableSnapshot*> snapshots_;  // guarded by snapshots_mutex_
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_DYNAMIC_TABLE_H_
