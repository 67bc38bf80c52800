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

// What a table may reserve, so that thousands of them leave addresses for the rest of the process:
// less, the more the others have. It is too little only for tables beyond the memory of most
// machines.
int64_t MostBytes(int64_t wanted) {
  constexpr int64_t kTebibyte = int64_t{1} << 40;
  const int64_t others = AddressRegion::ReservedInAll();
  if (others < 8 * kTebibyte) return wanted;
  return others < 24 * kTebibyte ? wanted / 8 : wanted / 64;
}

int64_t MostRows(const DynamicTableOptions& options) {
  const int64_t row_bytes = options.dim * static_cast<int64_t>(sizeof(float));
  const int64_t turn = options.stripes * RowNumbers::kSlabRows;
  const int64_t rows = std::min(kMostRows, MostBytes(options.reserved_bytes) / row_bytes);
  return std::max<int64_t>(2, rows / turn) * turn;
}

// What row 0 has, which keys without a row read unless there is a bank: where each key may get a
// row, what rows begin with on average. As in graphs that are exported (stock_dynamic.py).
float DefaultValue(const DynamicTableOptions& options) {
  const TablePolicies& policies = options.policies;
  const bool all_get_rows = policies.admission.kind == Admission::kAll && policies.limit.rows == 0;
  if (!all_get_rows || options.initial == InitialKind::kBank) return options.no_permission;
  if (options.initial == InitialKind::kConstant) return options.initial_constant;
  const InitialValues& values = options.initial_values;
  const bool is_uniform = values.distribution == Distribution::kUniform;
  return is_uniform ? (values.first + values.second) / 2 : values.first;
}

// Memory goes to stripes by slabs, so where little is to be had, few stripes share it.
int FewStripes(const DynamicTableOptions& options) {
  constexpr int64_t kLeastSlabs = 4;
  const int64_t memory_bytes = options.policies.tiers.memory_bytes;
  int stripes = std::max(2, options.stripes);  // a hash is shifted by all bits but a stripe's
  if (memory_bytes == 0) return stripes;
  const int64_t row_bytes = options.dim * static_cast<int64_t>(sizeof(float));
  const int64_t slabs = memory_bytes / (row_bytes * RowNumbers::kSlabRows);
  while (stripes > 2 && slabs < kLeastSlabs * stripes) stripes /= 2;
  return stripes;
}

DynamicTableOptions Completed(DynamicTableOptions options) {
  constexpr int64_t kWaitingForRow = 4;  // keys that a full table counts for each that has a row
  constexpr int64_t kLeastWaiting = 32;  // in each stripe: with fewer, keys soon halve their counts
  options.initial_values.column = 0;
  options.initial_values.width = options.dim;
  options.stripes = FewStripes(options);
  const int64_t capacity = options.policies.eviction.capacity;
  if (options.policies.admission.most_counted == 0 && capacity > 0) {
    options.policies.admission.most_counted =
        std::max(kWaitingForRow * capacity, kLeastWaiting * options.stripes);
  }
  return options;
}

// Whether anything but holds depends on when rows were last looked up, or how often.
bool StampsLookups(const DynamicTableOptions& options) {
  const TablePolicies& policies = options.policies;
  const EvictionOptions& eviction = policies.eviction;
  return options.counts_lookups || options.notes_times ||
         policies.admission.kind != Admission::kAll || eviction.capacity > 0 ||
         eviction.steps_to_live > 0 || eviction.l2_threshold > 0 || policies.tiers.memory_bytes > 0;
}

}  // namespace

DynamicTable::DynamicTable(const DynamicTableOptions& options)
    : options_(Completed(options)),
      stripe_shift_(64 - BitsFor(options_.stripes)),
      stamps_lookups_(StampsLookups(options_)),
      clock_(options_.notes_times ? new RowClock() : nullptr),
      records_(options_.dim, MostRows(options_), options_.policies.tiers),
      lines_(options_.stripes),
      holds_(std::make_shared<RowHolds>()),
      values_(options_.policies.eviction.order) {
  reserved_ = ReserveAddresses();
  const TablePolicies& policies = options_.policies;
  for (int stripe = 0; stripe < options_.stripes; ++stripe) {
    stripes_.emplace_back(new Stripe(stripe, options_.stripes, metadata(), &lines_[stripe]));
    stripes_.back()->policies()->filter =
        MakeAdmissionFilter(policies.admission, policies.admission_seed, options_.stripes);
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
  KeepBankForSnapshots();
  first_row_ = first_row;
  bank_rows_ = bank_rows;
  for (const auto& stripe : stripes_) stripe->SetFirstRow(first_row_);
  absl::Status status = Named(records_.SetFixedRows(first_row_));
  if (status.ok()) status = CommitRows(first_row_);
  if (!status.ok()) return status;
  std::fill_n(records_.Row(0), options_.dim, DefaultValue(options_));
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
  removed_keys_.Stop();
  if (keep_held && holds_->size() > 0) {
    for (const auto& stripe : stripes_) {
      stripe->ForEachRow([&](uint32_t row) { FreeRow(stripe.get(), row); });
      stripe->policies()->Clear();
    }
    return;
  }
  if (num_snapshots_ > 0) {
    ForEachKey([this](int64_t, int64_t row, const RowMetadata&) { KeepForSnapshots(&row, 1); });
  }
  removed_ += size_;
  size_ = 0;
  moved_keys_ = 0;
  given_back_bytes_ += RowsInMemory() * records_.stride();
  for (const RowRecords::Range& range : UsedRows()) {
    if (range.begin >= first_row_) records_.GiveBack(range.begin, range.end);
  }
  for (const auto& stripe : stripes_) stripe->Clear();
  if (end_ <= first_row_) return;
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
    for (const auto& stripe : stripes_) stripe->policies()->clock_hand = 0;
    moved_keys_ = 0;
  }
  if (index != nullptr) *index = slot;
  return absl::OkStatus();
}

std::vector<RowRecords::Range> DynamicTable::UsedRows() const {
  std::vector<RowRecords::Range> used = {{0, first_row_, 1 + bank_rows_}};
  for (const auto& stripe : stripes_) {
    for (int64_t slab = 0; slab < stripe->num_slabs(); ++slab) {
      const int64_t begin = stripe->SlabBegin(slab);
      const int64_t rows = stripe->rows() - slab * RowNumbers::kSlabRows;
      const int64_t end = begin + RowNumbers::kSlabRows;
      used.push_back({begin, end, std::min(end, begin + rows)});
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
  const bool in_memory = end <= records_.memory_rows();
  const int64_t wanted = in_memory ? std::max(begin + begin / 4, end) : end;
  const int64_t most = records_.max_rows();
  if (end > most) {
    return absl::ResourceExhaustedError(absl::StrCat("table ", options_.name, ": all ", most,
                                                     " rows of its ", most * records_.stride(),
                                                     " bytes of addresses are taken"));
  }
  const int64_t to = std::min(most, RoundedUp(wanted, turn));
  absl::Status committed = metadata_.Commit(MetadataBytes(begin), MetadataBytes(to));
  if (committed.ok()) committed = records_.Commit(begin, to);
  if (committed.ok()) end_ = to;
  return Named(committed);
}

absl::Status DynamicTable::Named(const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("table ", options_.name, ": ", status.message()));
}

void DynamicTable::WillWrite(const int64_t* rows, int64_t num_rows) {
  constexpr int64_t kAhead = 16;
  const int32_t written = WrittenNow();
  for (int64_t i = 0; i < num_rows; ++i) {
    if (i + kAhead < num_rows) __builtin_prefetch(&metadata()[rows[i + kAhead]], 1);
    if (rows[i] >= first_row_) metadata()[rows[i]].set_written(written);
  }
  if (num_snapshots_ > 0) KeepForSnapshots(rows, num_rows);
}

bool DynamicTable::must_move() const {
  constexpr int64_t kLeastBytes = 16 << 20;  // of rows; less hardly waits for page tables
  const int64_t keys = size_, moved = moved_keys_;
  return keys > moved + moved / 8 && keys * records_.stride() >= kLeastBytes;
}

void DynamicTable::MoveToLargePages() {
  moved_keys_ = size_.load();
  const int64_t used = first_row_ + RowsInMemory();  // slabs go to stripes in turn
  const int64_t rows = std::min({used, end_.load(), records_.memory_rows()});
  std::vector<MovingTables::Memory> memory = {{records_.data(), rows * records_.stride()},
                                              {metadata_.data(), MetadataBytes(rows)}};
  {
    const IndexLock::Guard reads(&index_lock_, IndexLock::kRead);
    for (const KeyLines& lines : lines_) {
      const int64_t bytes = static_cast<int64_t>(lines.count * sizeof(KeyLine));
      memory.push_back({reinterpret_cast<const char*>(lines.first), bytes});
    }
  }
  moving_.Move(memory);
}

int64_t DynamicTable::RowsInMemory() const {
  int64_t rows = 0;
  for (const auto& stripe : stripes_) {
    const std::lock_guard<std::mutex> stripe_lock(*stripe->mutex());
    rows += stripe->rows();
  }
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
    const StripePolicies& policies = *stripe->policies();
    metrics.policy_bytes += policies.cold_rows.bytes();
    if (policies.filter == nullptr) continue;
    metrics.filtered_keys += policies.filter->size();
    metrics.policy_bytes += policies.filter->bytes();
  }
  metrics.keys = size_;
  metrics.holds = holds_->size();
  metrics.row_bytes = metrics.keys * records_.stride();
  metrics.given_back_bytes = given_back_bytes_;
  metrics.inserted = inserted_;
  metrics.removed = removed_;
  metrics.found = found_;
  metrics.not_found = not_found_;
  metrics.evicted = evicted_;
  metrics.found_in_file = found_in_file_;
  metrics.promoted = promoted_;
  const std::lock_guard<std::mutex> commit_lock(commit_mutex_);
  metrics.file_bytes = records_.file_bytes();
  return metrics;
}

}  // namespace graph_opt
