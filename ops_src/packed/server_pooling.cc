#include "packed/server_pooling.h"

namespace graph_opt {
namespace {

// Rows are counted in one of so many calls.
constexpr int64_t kCallsPerCount = 64;

// All rows travel until that is so many times the bytes of the best choice, and again from so few
// on.
constexpr double kTimesToPool = 1.25;
constexpr double kTimesToStop = 1.1;

double BytesOfRows(const TableTraffic& table, double rows_per_id) {
  constexpr int64_t kBytesPerRowId = sizeof(int64_t);
  const double rows = rows_per_id * static_cast<double>(table.num_ids);
  return rows * static_cast<double>(table.row_bytes + kBytesPerRowId);
}

double BytesOfBags(const TableTraffic& table) {
  constexpr int64_t kBytesPerBag = 1;  // its number of ids
  const double bags = static_cast<double>(table.num_bags);
  return bags * static_cast<double>(table.row_bytes + kBytesPerBag) +
         static_cast<double>(table.num_ids * table.bytes_per_id + table.num_weights * 4);
}

bool IsLess(const TableTraffic& table, double rows_per_id) {
  return BytesOfBags(table) < BytesOfRows(table, rows_per_id);
}

// With one id in a bag, bags may be less to send for the numbers of rows alone.
bool HasFewerBags(const TableTraffic& table, double rows_per_id) {
  return static_cast<double>(table.num_bags) < rows_per_id * static_cast<double>(table.num_ids);
}

}  // namespace

ServerPooling::Choice ServerPooling::Choose(const std::vector<TableTraffic>& tables) {
  Choice choice;
  choice.pools.assign(tables.size(), false);
  if (mode_ == Mode::kNever) return choice;
  std::lock_guard<std::mutex> lock(mutex_);
  rows_per_id_.resize(tables.size(), 0.0);
  const bool counts = mode_ != Mode::kAlways && calls_++ % kCallsPerCount == 0;
  if (mode_ == Mode::kTogether) {
    choice.pools = ChooseTogether(tables);
    choice.counts = counts;
    return choice;
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    if (counts || !tables[t].can_pool) continue;
    choice.pools[t] = mode_ == Mode::kAlways || IsLess(tables[t], rows_per_id_[t]);
  }
  return choice;
}

std::vector<bool> ServerPooling::ChooseTogether(const std::vector<TableTraffic>& tables) {
  std::vector<bool> is_less(tables.size(), false);
  double rows = 0, best = 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    is_less[t] = tables[t].can_pool && IsLess(tables[t], rows_per_id_[t]) &&
                 HasFewerBags(tables[t], rows_per_id_[t]);
    const double of_rows = BytesOfRows(tables[t], rows_per_id_[t]);
    rows += of_rows;
    best += is_less[t] ? BytesOfBags(tables[t]) : of_rows;
  }
  pools_together_ = rows > best * (pools_together_ ? kTimesToStop : kTimesToPool);
  return pools_together_ ? is_less : std::vector<bool>(tables.size(), false);
}

void ServerPooling::Learn(int table, const TableTraffic& traffic, int64_t num_rows) {
  if (traffic.num_ids == 0) return;
  if (mode_ != Mode::kAuto && mode_ != Mode::kTogether) return;
  std::lock_guard<std::mutex> lock(mutex_);
  rows_per_id_[table] = static_cast<double>(num_rows) / static_cast<double>(traffic.num_ids);
}

}  // namespace graph_opt
