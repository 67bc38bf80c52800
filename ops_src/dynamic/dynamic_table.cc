#include "dynamic/dynamic_table.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "dynamic/table_snapshot.h"
#include "lookup/radix_sort.h"

namespace graph_opt {
namespace {

constexpr int64_t kMostRows = std::numeric_limits<uint32_t>::max();

int64_t RoundedUp(int64_t number, int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

int64_t MostRows(const DynamicTableOptions& options) {
  const int64_t row_bytes = options.dim * static_cast<int64_t>(sizeof(float));
  const int64_t turn = options.stripes * RowNumbers::kSlabRows;
  const int64_t rows = std::min(kMostRows, options.reserved_bytes / row_bytes);
  return std::max<int64_t>(2, rows / turn) * turn;
}

DynamicTableOptions WithWidth(DynamicTableOptions options) {
  options.initial_values.column = 0;
  options.initial_values.width = options.dim;
  return options;
}

}  // namespace

DynamicTable::DynamicTable(const DynamicTableOptions& options)
    : options_(WithWidth(options)),
      stripe_shift_(64 - BitsFor(options.stripes)),
      records_(options.dim, MostRows(options)),
      holds_(std::make_shared<RowHolds>()) {
  reserved_ = ReserveAddresses();
  for (int stripe = 0; stripe < options.stripes; ++stripe) {
    stripes_.emplace_back(new Stripe(stripe, options.stripes, metadata()));
  }
  if (reserved_.ok()) reserved_ = BeginAnew(nullptr, 0);
}

DynamicTable::~DynamicTable() = default;

absl::Status DynamicTable::ReserveAddresses() {
  const int64_t turn = options_.stripes * RowNumbers::kSlabRows;
  for (int64_t rows = records_.max_rows(); rows >= 2 * turn; rows = rows / 2 / turn * turn) {
    if (records_.Reserve(rows)) {
      if (metadata_.Reserve(rows * static_cast<int64_t>(sizeof(RowMetadata)))) {
        return absl::OkStatus();
      }
    }
  }
  return absl::ResourceExhaustedError(absl::StrCat("table ", options_.name, ": no addresses for ",
                                                   2 * turn, " rows of ", options_.dim, " values"));
}

absl::Status DynamicTable::Initialize(const float* bank, int64_t bank_rows) {
  const ExclusiveLock lock(this);
  const absl::Status begun = BeginAnew(bank, bank_rows);
  if (begun.ok()) is_initialized_ = true;
  return begun;
}

absl::Status DynamicTable::BeginAnew(const float* bank, int64_t bank_rows) {
  if (!reserved_.ok()) return reserved_;
  const int64_t first_row = RoundedUp(1 + bank_rows, RowNumbers::kSlabRows);
  ForgetKeys(/*keep_held=*/first_row == first_row_);
  first_row_ = first_row;
  bank_rows_ = bank_rows;
  for (const auto& stripe : stripes_) stripe->SetFirstRow(first_row_);
  const absl::Status committed = CommitRows(first_row_);
  if (!committed.ok()) return committed;
  std::fill_n(records_.Row(0), options_.dim, options_.no_permission);
  for (int64_t row = 0; row < bank_rows; ++row) {
    std::memcpy(records_.Row(1 + row), bank + row * options_.dim, options_.dim * sizeof(float));
  }
  return absl::OkStatus();
}

void DynamicTable::Clear() {
  const ExclusiveLock lock(this);
  ForgetKeys(/*keep_held=*/true);
}

void DynamicTable::ForgetKeys(bool keep_held) {
  if (keep_held && holds_->size() > 0) {
    for (const auto& stripe : stripes_) {
      stripe->ForEachRow([&](uint32_t row) { FreeRow(stripe.get(), row); });
    }
    return;
  }
  removed_ += size_;
  size_ = 0;
  for (const auto& stripe : stripes_) stripe->Clear();
  if (end_ <= first_row_) return;
  given_back_bytes_ += RowsInMemory() * records_.stride();
  records_.GiveBack(first_row_, end_);
  metadata_.GiveBack(MetadataBytes(first_row_), MetadataBytes(end_));
}

absl::Status DynamicTable::AddSlot(const std::string& name, float initial, int* index) {
  const ExclusiveLock lock(this);
  if (!reserved_.ok()) return reserved_;
  int slot = records_.SlotIndex(name);
  if (slot < 0) {
    slot = records_.num_slots();
    const absl::Status added = records_.AddSlot(name, initial, end_, UsedRows());
    if (!added.ok()) {
      return absl::Status(added.code(), absl::StrCat("table ", options_.name, ", slot ", name, ": ",
                                                     added.message()));
    }
  }
  if (index != nullptr) *index = slot;
  return absl::OkStatus();
}

std::vector<RowRecords::Range> DynamicTable::UsedRows() const {
  std::vector<RowRecords::Range> used = {{0, first_row_}};
  for (const auto& stripe : stripes_) {
    for (int64_t slab = 0; slab < stripe->num_slabs(); ++slab) {
      const int64_t begin = stripe->SlabBegin(slab);
      used.push_back({begin, begin + RowNumbers::kSlabRows});
    }
  }
  return used;
}

int DynamicTable::num_slots() const {
  const ReadLock lock(this);
  return records_.num_slots();
}

int DynamicTable::SlotIndex(const std::string& name) const {
  const ReadLock lock(this);
  return records_.SlotIndex(name);
}

DynamicTable::Rows DynamicTable::rows() const {
  return Rows{records_.data(), records_.stride(), end_, first_row_};
}

absl::Status DynamicTable::CommitRows(int64_t end) {
  if (end <= end_) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(commit_mutex_);
  const int64_t begin = end_;
  if (end <= begin) return absl::OkStatus();
  const int64_t turn = options_.stripes * RowNumbers::kSlabRows;
  const int64_t wanted = std::max(begin + begin / 4, end);
  const int64_t most = records_.max_rows();
  if (end > most) {
    return absl::ResourceExhaustedError(absl::StrCat("table ", options_.name, ": all ", most,
                                                     " rows of its ", most * records_.stride(),
                                                     " bytes of addresses are taken"));
  }
  const int64_t to = std::min(most, RoundedUp(wanted, turn));
  absl::Status committed = metadata_.Commit(MetadataBytes(begin), MetadataBytes(to));
  if (committed.ok()) committed = records_.Commit(begin, to);
  if (!committed.ok()) {
    return absl::Status(committed.code(),
                        absl::StrCat("table ", options_.name, ": ", committed.message()));
  }
  end_ = to;
  return absl::OkStatus();
}

void DynamicTable::WillWrite(const int64_t* rows, int64_t num_rows) {
  const int32_t step = step_;
  for (int64_t i = 0; i < num_rows; ++i) {
    if (rows[i] >= first_row_) metadata()[rows[i]].set_written(step);
  }
  if (num_snapshots_ > 0) KeepForSnapshots(rows, num_rows);
}

int64_t DynamicTable::RowsInMemory() const {
  int64_t rows = 0;
  for (const auto& stripe : stripes_) rows += stripe->rows();
  return rows;
}

DynamicTable::Metrics DynamicTable::metrics() const {
  const ReadLock lock(this);
  Metrics metrics = {};
  for (const auto& stripe : stripes_) {
    const std::lock_guard<std::mutex> stripe_lock(*stripe->mutex());
    metrics.free_rows += stripe->free_rows();
    metrics.index_bytes += stripe->index_bytes();
    metrics.metadata_bytes += MetadataBytes(stripe->rows());
    metrics.free_row_bytes += stripe->free_rows() * records_.stride();
  }
  metrics.keys = size_;
  metrics.holds = holds_->size();
  metrics.row_bytes = metrics.keys * records_.stride();
  metrics.given_back_bytes = given_back_bytes_;
  metrics.inserted = inserted_;
  metrics.removed = removed_;
  metrics.found = found_;
  metrics.not_found = not_found_;
  return metrics;
}

}  // namespace graph_opt
