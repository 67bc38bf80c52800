#include "dynamic/bloom_counters.h"

#include <algorithm>
#include <cmath>

#include "keys/key_hash.h"

namespace graph_opt {
namespace {

constexpr int64_t kFirstKeys = 4096;
constexpr int kWordBits = 32;

int CounterBits(uint32_t most) {
  if (most < 16) return 4;
  if (most < 256) return 8;
  return most < 65536 ? 16 : 32;
}

// The places of a key in a filter: h1 + i * h2 is as good as that many independent hashes (Kirsch
// and Mitzenmacher 2006).
class Places {
 public:
  Places(uint64_t hash, uint64_t counters)
      : place_(hash % counters), stride_(1 + (hash >> 32) % (counters - 1)), counters_(counters) {}

  uint64_t Next() {
    const uint64_t place = place_;
    place_ += stride_;
    if (place_ >= counters_) place_ -= counters_;
    return place;
  }

 private:
  uint64_t place_;
  const uint64_t stride_;
  const uint64_t counters_;
};

}  // namespace

BloomCounters::BloomCounters(int64_t expected_keys, double false_positive_probability,
                             uint32_t most)
    : expected_keys_(std::max<int64_t>(expected_keys, 1)),
      probability_(false_positive_probability),
      most_(most),
      bits_(CounterBits(most)) {}

uint32_t BloomCounters::Count(int64_t key) const {
  const uint64_t hash = MixKey(static_cast<uint64_t>(key));
  uint32_t count = 0;
  for (const Filter& filter : filters_) count = std::max(count, CountIn(filter, hash));
  return count;
}

void BloomCounters::Add(int64_t key, int64_t count) {
  if (count <= 0) return;
  const uint64_t hash = MixKey(static_cast<uint64_t>(key));
  const uint32_t more = static_cast<uint32_t>(std::min<int64_t>(count, most_));
  for (Filter& filter : filters_) {
    const uint32_t before = CountIn(filter, hash);
    if (before > 0) return Raise(hash, before + std::min(more, most_ - before), &filter);
  }
  if (filters_.empty() || filters_.back().keys >= filters_.back().capacity) Grow();
  ++filters_.back().keys;
  Raise(hash, more, &filters_.back());
}

void BloomCounters::Clear() { filters_.clear(); }

int64_t BloomCounters::bytes() const {
  int64_t bytes = 0;
  for (const Filter& filter : filters_) bytes += filter.words.capacity() * sizeof(uint32_t);
  return bytes;
}

BloomCounters::Filter BloomCounters::MakeFilter(int64_t capacity, double probability) const {
  const double bits = -std::log(probability);
  Filter filter;
  filter.capacity = capacity;
  filter.keys = 0;
  filter.hashes = std::max(1, static_cast<int>(std::ceil(bits / std::log(2.0))));
  const double counters = std::ceil(bits / (std::log(2.0) * std::log(2.0)) * capacity);
  filter.counters = std::max<uint64_t>(2, static_cast<uint64_t>(counters));
  const uint64_t in_word = kWordBits / bits_;
  filter.words.resize((filter.counters + in_word - 1) / in_word);
  return filter;
}

void BloomCounters::Grow() {
  int64_t capacity = 0;
  for (const Filter& filter : filters_) capacity += filter.capacity;
  const int64_t missing = expected_keys_ - capacity;
  if (filters_.empty() && missing <= kFirstKeys) {
    filters_.push_back(MakeFilter(missing, probability_));
  } else if (missing > 0) {
    const int64_t next = filters_.empty() ? kFirstKeys : 2 * filters_.back().capacity;
    const double share = std::ldexp(probability_, -1 - static_cast<int>(filters_.size()));
    filters_.push_back(MakeFilter(std::min(next, missing), share));
  }
}

uint32_t BloomCounters::CountIn(const Filter& filter, uint64_t hash) const {
  const uint64_t in_word = kWordBits / bits_;
  const uint32_t mask = ~uint32_t{0} >> (kWordBits - bits_);
  Places places(hash, filter.counters);
  uint32_t count = most_;
  for (int i = 0; i < filter.hashes && count > 0; ++i) {
    const uint64_t place = places.Next();
    const int shift = static_cast<int>(place % in_word) * bits_;
    count = std::min(count, (filter.words[place / in_word] >> shift) & mask);
  }
  return count;
}

// Counters that are higher stay: they belong to other keys, too.
void BloomCounters::Raise(uint64_t hash, uint32_t count, Filter* filter) {
  const uint64_t in_word = kWordBits / bits_;
  const uint32_t mask = ~uint32_t{0} >> (kWordBits - bits_);
  Places places(hash, filter->counters);
  for (int i = 0; i < filter->hashes; ++i) {
    const uint64_t place = places.Next();
    const int shift = static_cast<int>(place % in_word) * bits_;
    uint32_t* word = &filter->words[place / in_word];
    const uint32_t raised = std::max(count, (*word >> shift) & mask);
    *word = (*word & ~(mask << shift)) | (raised << shift);
  }
}

}  // namespace graph_opt
