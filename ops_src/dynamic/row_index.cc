#include "dynamic/row_index.h"

#include <cstring>
#include <new>
#include <utility>

namespace graph_opt {

constexpr uint32_t RowIndex::kAbsent;
constexpr int64_t RowIndex::kRowsPerLine;

RowIndex::RowIndex(int64_t lines) : mask_(static_cast<uint64_t>(lines) - 1) {
  void* memory = nullptr;
  if (posix_memalign(&memory, sizeof(Line), bytes()) != 0) throw std::bad_alloc();
  std::memset(memory, 0, bytes());
  lines_.reset(static_cast<Line*>(memory));
}

void RowIndex::Add(uint64_t hash, uint32_t row) {
  uint64_t at = Home(hash);
  uint32_t places;
  while ((places = lines_.get()[at].Places(0)) == 0) {
    ++lines_.get()[at].passed;
    at = (at + 1) & mask_;
  }
  const int place = __builtin_ctz(places);
  lines_.get()[at].tags[place] = Tag(hash);
  lines_.get()[at].rows[place] = row;
  ++size_;
}

void RowIndex::Remove(uint64_t hash, uint32_t row) {
  int place;
  Line* const line = LineOf(hash, row, -1, &place);
  line->tags[place] = 0;
  --size_;
}

void RowIndex::Replace(uint64_t hash, uint32_t row, uint32_t other) {
  int place;
  Line* const line = LineOf(hash, row, 0, &place);
  line->rows[place] = other;
}

RowIndex::Line* RowIndex::LineOf(uint64_t hash, uint32_t row, int passed, int* place) {
  const uint8_t tag = Tag(hash);
  for (uint64_t at = Home(hash);; at = (at + 1) & mask_) {
    Line* const line = &lines_.get()[at];
    for (uint32_t places = line->Places(tag); places != 0; places &= places - 1) {
      *place = __builtin_ctz(places);
      if (line->rows[*place] == row) return line;
    }
    line->passed += passed;
  }
}

void RowIndex::Swap(RowIndex* other) {
  std::swap(mask_, other->mask_);
  std::swap(lines_, other->lines_);
  std::swap(size_, other->size_);
}

}  // namespace graph_opt
