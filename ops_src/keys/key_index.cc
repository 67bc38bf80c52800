#include "keys/key_index.h"

#include "absl/strings/str_cat.h"

namespace graph_opt {

constexpr int64_t KeyIndex::kAbsent;

absl::Status KeyIndex::Assign(const int64_t* keys, int64_t count) {
  rows_.clear();
  rows_.reserve(count);
  for (int64_t row = 0; row < count; ++row) {
    const auto added = rows_.emplace(keys[row], row);
    if (!added.second) {
      const int64_t first = added.first->second;
      rows_.clear();
      return absl::DataLossError(
          absl::StrCat("rows ", first, " and ", row, " both have key ", keys[row]));
    }
  }
  return absl::OkStatus();
}

void KeyIndex::Find(const int64_t* keys, int64_t count, int64_t* rows) const {
  for (int64_t i = 0; i < count; ++i) {
    const auto found = rows_.find(keys[i]);
    rows[i] = found == rows_.end() ? kAbsent : found->second;
  }
}

void KeyIndex::FindOrAdd(const int64_t* keys, int64_t count, int64_t capacity, int64_t* rows,
                         int64_t* new_keys) {
  for (int64_t i = 0; i < count; ++i) {
    if (size() >= capacity) {
      Find(keys + i, count - i, rows + i);
      return;
    }
    const auto added = rows_.emplace(keys[i], size());
    rows[i] = added.first->second;
    if (added.second) new_keys[rows[i]] = keys[i];
  }
}

}  // namespace graph_opt
