#ifndef GRAPH_OPT_PACKED_SHARD_BLOCKS_H_
#define GRAPH_OPT_PACKED_SHARD_BLOCKS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace graph_opt {

// Rows [begin, end) of those named of one shard: what one thread does at a time.
struct ShardBlock {
  int64_t shard;
  int64_t begin;
  int64_t end;
};

// Cuts the rows named of each shard into blocks that cost about the same.
inline std::vector<ShardBlock> BlocksOfShards(const std::vector<int64_t>& counts,
                                              const std::vector<int64_t>& row_bytes,
                                              int num_threads) {
  constexpr int64_t kLeastBlockBytes = 64 << 10;  // some microseconds
  constexpr int64_t kBlocksPerThread = 4;
  int64_t total_bytes = 0;
  for (size_t i = 0; i < counts.size(); ++i) total_bytes += counts[i] * (row_bytes[i] + 1);
  const int64_t block_bytes =
      std::max(kLeastBlockBytes, total_bytes / (num_threads * kBlocksPerThread) + 1);
  std::vector<ShardBlock> blocks;
  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t step = std::max<int64_t>(block_bytes / (row_bytes[i] + 1), 1);
    for (int64_t begin = 0; begin < counts[i]; begin += step) {
      const int64_t end = std::min(begin + step, counts[i]);
      blocks.push_back(ShardBlock{static_cast<int64_t>(i), begin, end});
    }
  }
  return blocks;
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_SHARD_BLOCKS_H_
