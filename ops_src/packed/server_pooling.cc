#include "packed/server_pooling.h"

namespace graph_opt {
namespace {

// Rows are counted in one of so many calls.
constexpr int64_t kCallsPerCount = 64;

bool IsLess(const TableTraffic& table, double rows_per_id) {
  constexpr int64_t kBytesPerRowId = sizeof(int64_t);
  constexpr int64_t kBytesPerBag = 1;  // its number of ids
  const double rows = rows_per_id * static_cast<double>(table.num_ids);
  const double bags = static_cast<double>(table.num_bags);
  return bags * static_cast<double>(table.row_bytes + kBytesPerBag) +
             static_cast<double>(table.num_ids * table.bytes_per_id + table.num_weights * 4) <
         rows * static_cast<double>(table.row_bytes + kBytesPerRowId);
}

}  // namespace

std::vector<bool> ServerPooling::Choose(const std::vector<TableTraffic>& tables) {
  std::vector<bool> pools(tables.size(), false);
  if (mode_ == Mode::kNever) return pools;
  std::lock_guard<std::mutex> lock(mutex_);
  rows_per_id_.resize(tables.size(), 0.0);
  const bool counts = mode_ == Mode::kAuto && calls_++ % kCallsPerCount == 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    if (counts || !tables[t].can_pool) continue;
    pools[t] = mode_ == Mode::kAlways || IsLess(tables[t], rows_per_id_[t]);
  }
  return pools;
}

void ServerPooling::Learn(int table, const TableTraffic& traffic, int64_t num_rows) {
  if (mode_ != Mode::kAuto || traffic.num_ids == 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  rows_per_id_[table] = static_cast<double>(num_rows) / static_cast<double>(traffic.num_ids);
}

}  // namespace graph_opt
