#ifndef GRAPH_OPT_DYNAMIC_TABLE_SNAPSHOT_H_
#define GRAPH_OPT_DYNAMIC_TABLE_SNAPSHOT_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace graph_opt {

class DynamicTable;
class RowMetadata;

// Which keys of a table a snapshot has: all, or those that have changed since the last checkpoint,
// or were touched since a moment (see RowClock::After), and of these the ones with these numbers.
// They are numbered in an order that stays the same while no rows come or go.
struct SnapshotPart {
  enum Keys { kAll, kChanged, kTouched, kWritten };

  Keys keys = kAll;
  int64_t time = 0;  // of kTouched and kWritten, in microseconds since 1970
  int64_t first = 0;
  int64_t count = std::numeric_limits<int64_t>::max();
};

// The keys that a table had at one moment and what belonged to them, to be read in blocks while
// others train: whoever writes or removes a row that was not read yet keeps a copy of it here
// first. Must not outlive its table.
class TableSnapshot {
 public:
  // Where Read writes: [count] or [count, dim]. What is null is not wanted.
  struct Block {
    int64_t* keys = nullptr;
    float* weights = nullptr;
    std::vector<float*> slots;  // the first so many slots
    int64_t* frequencies = nullptr;
    int64_t* versions = nullptr;
  };

  // Under the table's exclusive lock.
  TableSnapshot(DynamicTable* table, const SnapshotPart& part);
  ~TableSnapshot();
  TableSnapshot(const TableSnapshot&) = delete;
  TableSnapshot& operator=(const TableSnapshot&) = delete;

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  int num_slots() const { return num_slots_; }
  // Keys that have lost their rows since the last checkpoint, if there is one.
  const std::vector<int64_t>& removed_keys() const { return removed_keys_; }

  // Reads entries [first, first + count), in the order of rows or of the last Sort. As often as one
  // likes.
  void Read(int64_t first, int64_t count, const Block& block);

  // The bank of default rows of that moment, [rows, dim].
  std::vector<float> ReadBank() const;

  // Orders the entries by non-negative key % buckets, those of a bucket by row. Returns where each
  // bucket begins, and the end.
  std::vector<int64_t> SortByBucket(int64_t buckets);

 private:
  friend class DynamicTable;

  struct Entry {
    uint32_t row;
    uint32_t frequency;
    int32_t written;
  };
  // A row as it was before it changed.
  struct Kept {
    int64_t key;
    std::vector<float> record;
  };

  void AddEntries(const SnapshotPart& part);
  // Whether a key with this metadata is one of them; null for all.
  std::function<bool(const RowMetadata&)> Chosen(const SnapshotPart& part) const;
  void Keep(const int64_t* rows, int64_t num_rows);
  void KeepBank();  // under the table's exclusive lock
  std::vector<float> BankOfTable() const;
  void ReadRow(uint32_t row, int64_t i, const Block& block) const;
  int64_t KeyOf(uint32_t row) const;

  DynamicTable* const table_;
  const int num_slots_;
  const int clock_shift_;  // of the stamps in entries
  const int64_t bank_rows_;
  std::vector<Entry> entries_;
  const std::vector<int64_t> removed_keys_;
  std::vector<bool> is_kept_;  // by row, or has no entry; guarded by mutex_
  mutable std::mutex mutex_;
  absl::flat_hash_map<uint32_t, Kept> kept_;  // guarded by mutex_
  bool bank_is_kept_ = false;                 // guarded by the table's lock
  std::vector<float> bank_;                   // the same
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_TABLE_SNAPSHOT_H_
