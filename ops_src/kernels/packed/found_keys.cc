#include "kernels/packed/found_keys.h"

#include <algorithm>

namespace graph_opt {
namespace {

DynamicTable::Purpose PurposeOf(NewKeys new_keys) {
  if (new_keys == NewKeys::kInsert) return DynamicTable::Purpose::kInsert;
  return new_keys == NewKeys::kAdmit ? DynamicTable::Purpose::kAdmit : DynamicTable::Purpose::kRead;
}

}  // namespace

absl::Status FoundKeys::Find(DynamicTable* table, const std::vector<RequestedRows*>& requests,
                             Parallel* parallel) {
  for (NewKeys new_keys : {NewKeys::kInsert, NewKeys::kAdmit, NewKeys::kRead}) {
    const absl::Status found = FindThose(table, requests, new_keys, parallel);
    if (!found.ok()) return found;
  }
  return absl::OkStatus();
}

absl::Status FoundKeys::Find(DynamicTable* table, UpdateBlock* block, Parallel* parallel) {
  int64_t* const rows = NewRows(block->count);
  DynamicTable::Find find;
  find.keys = block->rows;
  find.num_keys = block->count;
  find.purpose = DynamicTable::Purpose::kRead;
  holds_.emplace_back();
  const absl::Status found = table->FindRows(find, parallel, rows, &holds_.back());
  if (!found.ok()) return found;
  table->WillWrite(rows, block->count);
  block->rows = rows;
  return found;
}

absl::Status FoundKeys::FindThose(DynamicTable* table, const std::vector<RequestedRows*>& requests,
                                  NewKeys new_keys, Parallel* parallel) {
  int64_t num_keys = 0;
  bool counted = false;
  std::vector<RequestedRows*> those;
  for (RequestedRows* request : requests) {
    if (request->keys.new_keys != new_keys) continue;
    those.push_back(request);
    num_keys += request->keys.count;
    counted |= new_keys == NewKeys::kInsert && request->keys.count_bytes > 0;
  }
  if (those.empty()) return absl::OkStatus();
  ScratchArray<int64_t> joined;
  ScratchArray<int64_t> counts;
  const int64_t* keys = those[0]->keys.keys;
  if (those.size() > 1) joined.Reserve(std::max<int64_t>(num_keys, 1));
  if (counted) counts.Reserve(std::max<int64_t>(num_keys, 1));
  int64_t* const rows = NewRows(num_keys);
  int64_t begin = 0;
  for (RequestedRows* request : those) {
    if (those.size() > 1) std::copy_n(request->keys.keys, request->keys.count, &joined[begin]);
    if (counted) request->keys.ReadCounts(&counts[begin]);
    request->rows = rows + begin;
    begin += request->keys.count;
  }
  if (those.size() > 1) keys = joined.data();
  DynamicTable::Find find;
  find.keys = keys;
  find.num_keys = num_keys;
  find.purpose = PurposeOf(new_keys);
  if (counted) find.counts = counts.data();
  holds_.emplace_back();
  return table->FindRows(find, parallel, rows, &holds_.back());
}

int64_t* FoundKeys::NewRows(int64_t count) {
  rows_.emplace_back(std::max<int64_t>(count, 1));
  return rows_.back().data();
}

}  // namespace graph_opt
