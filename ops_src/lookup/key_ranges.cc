#include <algorithm>

#include "lookup/occurrences.h"

namespace graph_opt {
namespace {

// Ranges for each thread: with more, the load is more even; with fewer, ids are read less often.
constexpr int kRangesPerThread = 3;
// Fewer ids than this are not worth splitting: about ten microseconds.
constexpr int64_t kLeastRangeIds = 2048;
constexpr int64_t kSamples = 512;

int64_t IdAt(const Bags& bags, int64_t k) {
  if (bags.wide_ids) return static_cast<const int64_t*>(bags.ids)[k];
  return static_cast<const int32_t*>(bags.ids)[k];
}

// Some keys of a table's ids, sorted.
std::vector<int64_t> SampleKeys(int table, const GradientTable& of,
                                const std::vector<PooledGradient>& lookups, int64_t num_ids) {
  const int64_t step = std::max<int64_t>(num_ids / kSamples, 1);
  std::vector<int64_t> keys;
  for (const PooledGradient& lookup : lookups) {
    if (lookup.table != table) continue;
    for (int64_t k = 0; k < lookup.bags.num_ids; k += step) {
      const int64_t key = of.shards.KeyOf(IdAt(lookup.bags, k));
      if (key >= 0) keys.push_back(key);
    }
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace

int64_t BytesOfIds(const std::vector<PooledGradient>& lookups) {
  int64_t num_ids = 0;
  for (const PooledGradient& lookup : lookups) num_ids += lookup.bags.num_ids;
  return BytesOfIds(num_ids);
}

int64_t BytesOfGradients(const std::vector<GradientTable>& tables,
                         const std::vector<PooledGradient>& lookups) {
  int64_t bytes = 0;
  for (const PooledGradient& lookup : lookups) {
    const GradientTable& table = tables[lookup.table];
    bytes += BytesOfGradients(lookup.bags.num_ids, RowBytesOf(table.type, table.dim));
  }
  return bytes;
}

std::vector<KeyRange> KeyRangesOf(const std::vector<GradientTable>& tables,
                                  const std::vector<PooledGradient>& lookups, int num_threads) {
  std::vector<int64_t> num_ids(tables.size(), 0);
  int64_t total = 0;
  for (const PooledGradient& lookup : lookups) {
    num_ids[lookup.table] += lookup.bags.num_ids;
    total += lookup.bags.num_ids;
  }
  const int64_t range_ids = std::max(kLeastRangeIds, total / (num_threads * kRangesPerThread) + 1);
  std::vector<KeyRange> ranges;
  for (size_t t = 0; t < tables.size(); ++t) {
    const int64_t pieces = num_threads == 1 ? 1 : (num_ids[t] + range_ids / 2) / range_ids;
    const int64_t end = tables[t].shards.num_rows();
    int64_t begin = 0;
    if (pieces > 1) {
      const std::vector<int64_t> keys =
          SampleKeys(static_cast<int>(t), tables[t], lookups, num_ids[t]);
      for (int64_t piece = 1; piece < pieces && !keys.empty(); ++piece) {
        const int64_t cut = keys[keys.size() * piece / pieces];
        if (cut <= begin) continue;
        ranges.push_back(KeyRange{static_cast<int>(t), begin, cut});
        begin = cut;
      }
    }
    ranges.push_back(KeyRange{static_cast<int>(t), begin, end});
  }
  return ranges;
}

}  // namespace graph_opt
