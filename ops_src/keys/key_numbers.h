#ifndef GRAPH_OPT_KEYS_KEY_NUMBERS_H_
#define GRAPH_OPT_KEYS_KEY_NUMBERS_H_

#include <algorithm>
#include <cstdint>

#include "scratch/scratch_array.h"

namespace graph_opt {

// Numbers different keys 0, 1, ... in the order in which they first come. Every number is a key.
// Lives for a call, in scratch memory; at most 2^31 - 1 keys.
class KeyNumbers {
 public:
  // Of all bits of a key; the highest ones are as random as the lowest.
  static uint64_t Hash(int64_t key) {
    uint64_t hash = static_cast<uint64_t>(key);
    hash = (hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9u;
    return hash ^ (hash >> 32);
  }

  // Forgets all keys.
  void Begin() {
    size_ = 0;
    if (num_places_ == 0) return Grow();
    std::fill_n(places_.data(), num_places_, -1);
  }

  int32_t NumberOf(int64_t key, uint64_t hash) {
    const uint64_t mask = static_cast<uint64_t>(num_places_) - 1;
    for (uint64_t place = hash & mask;; place = (place + 1) & mask) {
      const int32_t number = places_[place];
      if (number >= 0 && keys_[number] == key) return number;
      if (number >= 0) continue;
      places_[place] = size_;
      keys_[size_] = key;
      if (2 * static_cast<int64_t>(++size_) > num_places_) Grow();
      return size_ - 1;
    }
  }
  int32_t NumberOf(int64_t key) { return NumberOf(key, Hash(key)); }

  // The number of a key, or -1 if it has none.
  int32_t Find(int64_t key) const {
    const uint64_t mask = static_cast<uint64_t>(num_places_) - 1;
    for (uint64_t place = Hash(key) & mask;; place = (place + 1) & mask) {
      const int32_t number = places_[place];
      if (number < 0 || keys_[number] == key) return number;
    }
  }

  int32_t size() const { return size_; }
  const int64_t* keys() const { return keys_.data(); }  // by number

 private:
  void Grow();

  int32_t size_ = 0;
  int64_t num_places_ = 0;        // a power of two, more than twice the keys
  ScratchArray<int32_t> places_;  // numbers; -1: free
  ScratchArray<int64_t> keys_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KEYS_KEY_NUMBERS_H_
