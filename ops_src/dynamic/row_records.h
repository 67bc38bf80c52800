#ifndef GRAPH_OPT_DYNAMIC_ROW_RECORDS_H_
#define GRAPH_OPT_DYNAMIC_ROW_RECORDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "dynamic/address_region.h"
#include "dynamic/row_file.h"
#include "dynamic/row_numbers.h"
#include "dynamic/table_policies.h"

namespace graph_opt {

// The values of a table's rows: records of [weights | slot 0 | slot 1 | ...], each of `dim` floats.
// Those that do not fit into the memory budget are in a file; the addresses of both are one region.
// Commit, TakeSpace and GiveBack, one at a time, may be called while others use other rows.
class RowRecords {
 public:
  RowRecords(int64_t dim, int64_t max_rows, const TierOptions& tiers)
      : dim_(dim), max_rows_(max_rows), tiers_(tiers) {}

  // Takes addresses for so many rows, at most; false if the process cannot have them.
  bool Reserve(int64_t max_rows);

  // Rows [begin, end), whole slabs, of which those below used_end have values.
  struct Range {
    int64_t begin;
    int64_t end;
    int64_t used_end;
  };

  // Lays rows out again with one more slot: there is memory behind those below `end`, and these are
  // used.
  absl::Status AddSlot(const std::string& name, float initial, int64_t end,
                       const std::vector<Range>& used);

  // Keeps rows below this one in memory, even if that is beyond the budget. While no others are
  // used.
  absl::Status SetFixedRows(int64_t fixed_rows);

  // Brings memory behind rows [begin, end), whole slabs.
  absl::Status Commit(int64_t begin, int64_t end);

  // Takes the space of rows [begin, end), whole slabs, that are in the file.
  absl::Status TakeSpace(int64_t begin, int64_t end);

  // Gives the memory of rows [begin, end), whole slabs, back to the system, or their space on the
  // disk.
  void GiveBack(int64_t begin, int64_t end);

  // Writes what slots begin with.
  void WriteSlots(int64_t row);
  void CopyRow(int64_t from, int64_t to);
  void ExchangeRows(int64_t one, int64_t other);

  float* Row(int64_t row) const {
    return reinterpret_cast<float*>(region_.data() + row * stride());
  }
  float* Slot(int64_t row, int slot) const { return Row(row) + (1 + slot) * dim_; }

  char* data() const { return region_.data(); }
  int64_t dim() const { return dim_; }
  int64_t stride() const { return (1 + num_slots()) * dim_ * static_cast<int64_t>(sizeof(float)); }
  int64_t max_rows() const { return max_rows_; }
  // Rows from this one on are in the file.
  int64_t memory_rows() const;
  int64_t file_bytes() const { return file_ == nullptr ? 0 : file_->bytes(); }
  int num_slots() const { return static_cast<int>(slots_.size()); }
  int SlotIndex(const std::string& name) const;  // -1 if there is none

 private:
  struct NamedSlot {
    std::string name;
    float initial;
  };

  // The first of rows [begin, end) that is in the file; the end if none is.
  int64_t FileBegin(int64_t begin, int64_t end) const;

  const int64_t dim_;
  int64_t max_rows_;
  const TierOptions tiers_;
  int64_t fixed_rows_ = 0;
  std::vector<NamedSlot> slots_;
  AddressRegion region_;
  std::unique_ptr<RowFile> file_;  // once rows are in it
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ROW_RECORDS_H_
