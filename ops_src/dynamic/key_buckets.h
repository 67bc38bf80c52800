#ifndef GRAPH_OPT_DYNAMIC_KEY_BUCKETS_H_
#define GRAPH_OPT_DYNAMIC_KEY_BUCKETS_H_

#include <cstdint>
#include <vector>

namespace graph_opt {

// DeepRec's checkpoints hold a table's keys in this many buckets, by remainder, so that a part of a
// table finds its own whatever the number of parts was when they were written.
constexpr int kKeyBuckets = 1000;

// The remainder of a key, not negative.
inline int64_t KeyRemainder(int64_t key, int64_t divisor) {
  const int64_t remainder = key % divisor;
  return remainder < 0 ? remainder + divisor : remainder;
}

// Which keys a part of a table has.
struct KeyOwner {
  enum Rule {
    kBucket,    // DeepRec's: bucket modulo parts
    kRemainder  // SparseOperationKit's: key modulo parts
  };
  Rule rule = kBucket;
  int64_t part = 0;
  int64_t parts = 1;

  bool Has(int64_t key) const {
    if (parts == 1) return true;
    return KeyRemainder(rule == kBucket ? KeyRemainder(key, kKeyBuckets) : key, parts) == part;
  }

  // Whether a bucket may hold keys of the part.
  bool MayHaveBucket(int64_t bucket) const {
    if (rule == kBucket || kKeyBuckets % parts == 0) return bucket % parts == part;
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
