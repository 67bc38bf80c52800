#include "dynamic/row_index.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "pages/large_pages.h"

namespace graph_opt {

constexpr uint32_t RowIndex::kAbsent;

RowIndex::RowIndex(int64_t lines) : lines_{nullptr, static_cast<uint64_t>(lines)} {
  void* const memory = NewInLargePages(bytes());
  std::memset(memory, 0, bytes());
  lines_.first = static_cast<KeyLine*>(memory);
}

RowIndex::~RowIndex() { std::free(lines_.first); }

void RowIndex::Add(int64_t key, uint64_t hash, uint32_t row) {
  for (uint64_t at = HomeOf(lines_, hash);; at = LineAfter(lines_, at)) {
    KeyLine* const line = &lines_.first[at];
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
  for (uint64_t at = HomeOf(lines_, hash);; at = LineAfter(lines_, at)) {
    KeyLine* const line = &lines_.first[at];
    for (int i = 0; i < kKeysPerLine; ++i) {
      if (line->rows[i] != kAbsent && line->keys[i] == key) return &line->rows[i];
    }
    line->passed += passed;
  }
}

void RowIndex::Swap(RowIndex* other) {
  std::swap(lines_, other->lines_);
  std::swap(size_, other->size_);
}

}  // namespace graph_opt
