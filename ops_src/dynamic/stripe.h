#ifndef GRAPH_OPT_DYNAMIC_STRIPE_H_
#define GRAPH_OPT_DYNAMIC_STRIPE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

#include "dynamic/row_index.h"
#include "dynamic/row_metadata.h"
#include "dynamic/row_numbers.h"
#include "dynamic/stripe_policies.h"
#include "keys/key_hash.h"

namespace graph_opt {

// The keys of a table whose hashes share some bits, the row of each, and the rows that are free.
// Keys are in the rows' metadata alone. Not thread-safe.
class Stripe {
 public:
  static constexpr uint32_t kAbsent = RowIndex::kAbsent;

  // A key with its hash, which is the same for all uses.
  struct Probe {
    Probe() = default;
    explicit Probe(int64_t key) : key(key), hash(MixKey(static_cast<uint64_t>(key))) {}
    int64_t key = 0;
    uint64_t hash = 0;
  };

  // `lines` are told those of the index, whenever it is made anew.
  Stripe(int number, int num_stripes, RowMetadata* metadata, KeyLines* lines);

  // Where the rows of this stripe begin. Only while it is empty.
  void SetFirstRow(int64_t first_row) { numbers_.first_row = first_row; }

  // The line of the index that Find reads first.
  const KeyLine* Home(const Probe& probe) const { return index_.Home(probe.hash); }

  // The row of a key, or kAbsent.
  uint32_t Find(const Probe& probe) const { return index_.Find(probe.key, probe.hash); }

  // The row that Add will give, if no hold since `oldest_hold` keeps it from being used again.
  uint32_t NextRow(uint32_t oldest_hold) const {
    if (!free_.empty() && free_.front().read < oldest_hold) return free_.front().row;
    return static_cast<uint32_t>(numbers_.Row(number_, rows_));
  }

  // Gives a key that has none this row, which is NextRow's.
  void Add(const Probe& probe, uint32_t row, uint32_t ticket);

  // Takes a row from its key. Lookups up to this ticket may hold it.
  void Free(uint32_t row, uint32_t read);

  // Lowers the tickets of all rows.
  void LowerTickets();

  // Lets two keys have each other's row.
  void Exchange(uint32_t one, uint32_t other);

  // Forgets all keys. Rows are numbered from the beginning again.
  void Clear();

  // Calls visit(row) for each row of a key, in the order of their numbers.
  template <typename Visit>
  void ForEachRow(Visit visit) const {
    for (int64_t local = 0; local < rows_; ++local) {
      const int64_t row = numbers_.Row(number_, local);
      if (!metadata_[row].is_free()) visit(static_cast<uint32_t>(row));
    }
  }

  // Moves keys that no hold since `oldest_hold` keeps in place from the last rows to free ones
  // before them, with copy(from, to), and forgets the free rows at the end.
  void Compact(uint32_t oldest_hold, const std::function<void(uint32_t, uint32_t)>& copy);

  // The first row of a slab.
  int64_t SlabBegin(int64_t slab) const {
    return numbers_.Row(number_, slab * RowNumbers::kSlabRows);
  }

  // Whether this row, NextRow's, is the first that is used of its slab.
  bool BeginsSlab(uint32_t row) const {
    return rows_ % RowNumbers::kSlabRows == 0 && row == numbers_.Row(number_, rows_);
  }

  // The number of the stripe's rows that are below a row, which begins a slab.
  int64_t RowsBelow(int64_t row) const { return std::min(rows_, numbers_.RowsBelow(number_, row)); }
  uint32_t RowAt(int64_t local) const {
    return static_cast<uint32_t>(numbers_.Row(number_, local));
  }

  int64_t size() const { return index_.size(); }
  int64_t free_rows() const { return static_cast<int64_t>(free_.size()); }
  int64_t rows() const { return rows_; }  // in use or free
  int64_t num_slabs() const { return (rows_ + RowNumbers::kSlabRows - 1) / RowNumbers::kSlabRows; }
  int64_t index_bytes() const;

  std::mutex* mutex() { return &mutex_; }
  StripePolicies* policies() { return &policies_; }

 private:
  // A row without a key, and the ticket of the last lookup that gave it out.
  struct FreeRow {
    uint32_t row;
    uint32_t read;
  };

  Probe ProbeOf(uint32_t row) const { return Probe(metadata_[row].key()); }
  // The next larger number of lines that an index of so many should have.
  int64_t MoreLines(int64_t lines) const;
  void MakeIndex(int64_t lines);
  void Move(uint32_t from, uint32_t to, const std::function<void(uint32_t, uint32_t)>& copy);

  const int number_;
  RowNumbers numbers_;
  RowMetadata* const metadata_;
  KeyLines* const lines_;
  int64_t rows_ = 0;
  RowIndex index_;
  std::deque<FreeRow> free_;
  std::mutex mutex_;
  StripePolicies policies_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_STRIPE_H_
