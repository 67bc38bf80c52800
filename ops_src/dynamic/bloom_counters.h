#ifndef GRAPH_OPT_DYNAMIC_BLOOM_COUNTERS_H_
#define GRAPH_OPT_DYNAMIC_BLOOM_COUNTERS_H_

#include <cstdint>
#include <vector>

namespace graph_opt {

// Counts occurrences of keys without keeping the keys: a counting Bloom filter. A count is never
// too low, and with at most `expected_keys` keys, the share of new keys whose count is too high is
// at most the given probability.
//
// The memory grows with the keys that come (Almeida et al. 2007, "Scalable Bloom Filters"): a full
// filter is followed by one of twice its size and half its share of the probability, until
// `expected_keys` fit. More keys share the last one, and its error grows. Counters are as wide as
// `most` needs, the highest count that is told from lower ones. Not thread-safe.
class BloomCounters {
 public:
  BloomCounters(int64_t expected_keys, double false_positive_probability, uint32_t most);

  uint32_t Count(int64_t key) const;
  void Add(int64_t key, int64_t count);
  void Clear();

  int64_t bytes() const;

 private:
  // A filter of the size that its number of keys needs.
  struct Filter {
    int64_t capacity;  // keys
    int64_t keys;      // that were added
    int hashes;
    uint64_t counters;
    std::vector<uint32_t> words;
  };

  Filter MakeFilter(int64_t capacity, double probability) const;
  void Grow();
  uint32_t CountIn(const Filter& filter, uint64_t hash) const;
  void Raise(uint64_t hash, uint32_t count, Filter* filter);

  const int64_t expected_keys_;
  const double probability_;
  const uint32_t most_;
  const int bits_;  // of a counter
  std::vector<Filter> filters_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_BLOOM_COUNTERS_H_
