#include "dynamic/row_index.h"

#include <cstring>
#include <utility>

#include "pages/large_pages.h"

namespace graph_opt {

constexpr uint32_t RowIndex::kAbsent;
constexpr int64_t RowIndex::kKeysPerLine;

RowIndex::RowIndex(int64_t lines) : num_lines_(static_cast<uint64_t>(lines)) {
  void* const memory = NewInLargePages(bytes());
  std::memset(memory, 0, bytes());
  lines_.reset(static_cast<Line*>(memory));
}

void RowIndex::Add(int64_t key, uint64_t hash, uint32_t row) {
  for (uint64_t at = HomeOf(hash);; at = After(at)) {
    Line* const line = &lines_.get()[at];
    for (int i = 0; i < kKeysPerLine; ++i) {
      if (line->rows[i] != kAbsent) continue;
      line->keys[i] = key;
      line->rows[i] = row;
      ++size_;
      return;
    }
    ++line->passed;
  }
}

void RowIndex::Remove(int64_t key, uint64_t hash) {
  *PlaceOf(key, hash, -1) = kAbsent;
  --size_;
}

void RowIndex::Replace(int64_t key, uint64_t hash, uint32_t row) { *PlaceOf(key, hash, 0) = row; }

uint32_t* RowIndex::PlaceOf(int64_t key, uint64_t hash, int passed) {
  for (uint64_t at = HomeOf(hash);; at = After(at)) {
    Line* const line = &lines_.get()[at];
    for (int i = 0; i < kKeysPerLine; ++i) {
      if (line->rows[i] != kAbsent && line->keys[i] == key) return &line->rows[i];
    }
    line->passed += passed;
  }
}

void RowIndex::Swap(RowIndex* other) {
  std::swap(num_lines_, other->num_lines_);
  std::swap(lines_, other->lines_);
  std::swap(size_, other->size_);
}

}  // namespace graph_opt
