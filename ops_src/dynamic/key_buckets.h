#ifndef GRAPH_OPT_DYNAMIC_KEY_BUCKETS_H_
#define GRAPH_OPT_DYNAMIC_KEY_BUCKETS_H_

#include <cstdint>
#include <vector>

#include "keys/key_owners.h"

namespace graph_opt {

// Which keys a part of a table has.
struct KeyOwner {
  KeyOwners rule = KeyOwners::kMod1000;
  int part = 0;
  int parts = 1;

  bool Has(int64_t key) const { return OwnerOf(key, rule, parts) == part; }

  // Whether a bucket may hold keys of the part.
  bool MayHaveBucket(int bucket) const {
    if (rule == KeyOwners::kMod1000 || kKeyBuckets % parts == 0) return Has(bucket);
    return true;
  }
};

// Keys in the order of their buckets, and within these as they are given.
class BucketOrder {
 public:
  BucketOrder(const int64_t* keys, int64_t count);

  // The place of each key.
  const std::vector<int64_t>& places() const { return places_; }
  // Where each bucket begins, and the number of keys.
  const std::vector<int64_t>& offsets() const { return offsets_; }

 private:
  std::vector<int64_t> places_;
  std::vector<int64_t> offsets_;
};

// Ranges of places that hold all keys of a part.
struct PlaceRange {
  int64_t first;
  int64_t count;
};

// `offsets` has kKeyBuckets + 1 numbers. Ranges that touch are joined, and those longer than
// `most` divided.
std::vector<PlaceRange> RangesOf(const KeyOwner& owner, const int32_t* offsets, int64_t most);
std::vector<PlaceRange> WholeRange(int64_t count, int64_t most);

// Whether offsets are those of `count` keys: not all writers know them.
bool AreOffsetsOf(const int32_t* offsets, int64_t count);

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_KEY_BUCKETS_H_
