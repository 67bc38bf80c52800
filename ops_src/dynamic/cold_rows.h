#ifndef GRAPH_OPT_DYNAMIC_COLD_ROWS_H_
#define GRAPH_OPT_DYNAMIC_COLD_ROWS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "dynamic/row_value.h"

namespace graph_opt {

// The rows of a stripe, as ColdRows sees them.
class ValuedRows {
 public:
  virtual ~ValuedRows() = default;

  virtual void ForEach(const std::function<void(uint32_t row)>& visit) const = 0;
  virtual bool IsUsed(uint32_t row) const = 0;
  virtual RowValue Value(uint32_t row) const = 0;
  virtual uint32_t LastRead(uint32_t row) const = 0;
};

// Finds the least valuable row of a stripe without keeping all rows in order. One pass over them
// takes the least valuable eighth into a heap; rows outside are worth at least `cutoff_`. Since the
// value of a row only grows while it is used, an entry whose row is worth more is put back with
// that, and the top of the heap is the least valuable row of all. The next pass comes when the heap
// is empty: each eviction pays for a visit to eight rows. Not thread-safe.
class ColdRows {
 public:
  struct Entry {
    RowValue value;
    uint32_t row;
  };

  // Tells that a row is new, or is worth less than before.
  void Add(uint32_t row, RowValue value, uint32_t read);

  // Writes the least valuable row that was last read by a lookup before `oldest_hold`, the earliest
  // that holds rows, or the highest number. False if there is none.
  bool Coldest(const ValuedRows& rows, uint32_t oldest_hold, Entry* coldest);

  void Clear();
  int64_t bytes() const;

 private:
  // A row that some lookup holds.
  struct Held {
    uint32_t read;
    uint32_t row;
  };

  void Refill(const ValuedRows& rows, uint32_t oldest_hold);
  void TakeReleased(const ValuedRows& rows, uint32_t oldest_hold);
  bool FindTop(const ValuedRows& rows, uint32_t oldest_hold, Entry* coldest);
  void Push(uint32_t row, RowValue value);
  void Pop();
  void Hold(uint32_t row, uint32_t read);

  std::vector<Entry> entries_;  // a heap, the least valuable first
  std::vector<Held> held_;      // a heap, the earliest lookup first
  RowValue cutoff_ = {0, 0};
  size_t most_entries_ = 0;
  uint32_t all_held_since_ = 0;  // the oldest hold when no row was to be had
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_COLD_ROWS_H_
