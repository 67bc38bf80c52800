#include "dynamic/key_buckets.h"

#include <algorithm>

namespace graph_opt {

BucketOrder::BucketOrder(const int64_t* keys, int64_t count)
    : places_(count), offsets_(kKeyBuckets + 1) {
  for (int64_t k = 0; k < count; ++k) ++offsets_[KeyRemainder(keys[k], kKeyBuckets) + 1];
  for (int b = 0; b < kKeyBuckets; ++b) offsets_[b + 1] += offsets_[b];
  std::vector<int64_t> next(offsets_.begin(), offsets_.end() - 1);
  for (int64_t k = 0; k < count; ++k) places_[k] = next[KeyRemainder(keys[k], kKeyBuckets)]++;
}

std::vector<PlaceRange> RangesOf(const KeyOwner& owner, const int32_t* offsets, int64_t most) {
  std::vector<PlaceRange> ranges;
  int64_t first = 0;
  int64_t end = 0;
  const auto add = [&] {
    for (; first < end; first += most) ranges.push_back({first, std::min(most, end - first)});
  };
  for (int b = 0; b < kKeyBuckets; ++b) {
    if (!owner.MayHaveBucket(b)) continue;
    if (offsets[b] != end) {
      add();
      first = offsets[b];
    }
    end = offsets[b + 1];
  }
  add();
  return ranges;
}

std::vector<PlaceRange> WholeRange(int64_t count, int64_t most) {
  std::vector<PlaceRange> ranges;
  for (int64_t first = 0; first < count; first += most) {
    ranges.push_back({first, std::min(most, count - first)});
  }
  return ranges;
}

bool AreOffsetsOf(const int32_t* offsets, int64_t count) {
  return offsets[0] == 0 && offsets[kKeyBuckets] == count &&
         std::is_sorted(offsets, offsets + kKeyBuckets + 1);
}

}  // namespace graph_opt
