#include "kernels/dynamic/keys_of_table.h"

#include <algorithm>

#include "kernels/dynamic/dynamic_keys.h"

namespace graph_opt {
namespace {

// The keys of one part, in the order of lookups and keys.
struct PartKeys {
  ScratchArray<int64_t> keys;
  ScratchArray<int64_t> rows;
  int64_t count = 0;
};

}  // namespace

int64_t TableKeys::BytesToFind() const {
  int64_t bytes = 0;
  for (const Lookup& lookup : lookups) bytes += parts[0]->BytesToFind(lookup.keys->NumElements());
  return bytes;
}

absl::Status TableKeys::FindRows(Parallel* parallel,
                                 std::vector<std::shared_ptr<Hold>>* holds) const {
  if (parts.size() == 1 && lookups.size() == 1 && !skip_negative) {
    return FindAsTheyAre(parallel, holds);
  }
  const int64_t num_parts = static_cast<int64_t>(parts.size());
  std::vector<WideKeys> keys;
  int64_t total = 0;
  for (const Lookup& lookup : lookups) {
    keys.emplace_back(*lookup.keys);
    total += lookup.keys->NumElements();
  }
  std::vector<PartKeys> of_parts(num_parts);
  for (PartKeys& part : of_parts) part.keys.Reserve(total);
  // The part of each key, kept where its row will be; -1: none.
  for (size_t i = 0; i < lookups.size(); ++i) {
    const int64_t* const from = keys[i].data();
    int64_t* const part_of = lookups[i].rows;
    for (int64_t k = 0; k < lookups[i].keys->NumElements(); ++k) {
      const bool is_skipped = skip_negative && from[k] < 0;
      part_of[k] = is_skipped ? -1 : OwnerOf(from[k], owners, static_cast<int>(num_parts));
      if (is_skipped) continue;
      PartKeys& part = of_parts[part_of[k]];
      part.keys[part.count++] = from[k];
    }
  }
  for (int64_t p = 0; p < num_parts; ++p) {
    PartKeys& part = of_parts[p];
    part.rows.Reserve(part.count);
    DynamicTable::Find find;
    find.keys = part.keys.data();
    find.num_keys = part.count;
    find.purpose = purpose;
    holds->emplace_back();
    const absl::Status found = parts[p]->FindRows(find, parallel, part.rows.data(), &holds->back());
    if (!found.ok()) return found;
  }
  std::vector<const int64_t*> next;
  for (const PartKeys& part : of_parts) next.push_back(part.rows.data());
  for (const Lookup& lookup : lookups) {
    for (int64_t k = 0; k < lookup.keys->NumElements(); ++k) {
      const int64_t part = lookup.rows[k];
      if (part >= 0) lookup.rows[k] = *next[part]++ * num_parts + part;
    }
  }
  return absl::OkStatus();
}

absl::Status TableKeys::FindAsTheyAre(Parallel* parallel,
                                      std::vector<std::shared_ptr<Hold>>* holds) const {
  const WideKeys keys(*lookups[0].keys);
  DynamicTable::Find find;
  find.keys = keys.data();
  find.num_keys = lookups[0].keys->NumElements();
  find.purpose = purpose;
  holds->emplace_back();
  return parts[0]->FindRows(find, parallel, lookups[0].rows, &holds->back());
}

}  // namespace graph_opt
