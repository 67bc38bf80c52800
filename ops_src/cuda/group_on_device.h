// A group as the kernels read it: one block of device memory, filled on the host.
#ifndef GRAPH_OPT_CUDA_GROUP_ON_DEVICE_H_
#define GRAPH_OPT_CUDA_GROUP_ON_DEVICE_H_

#include <stdint.h>

#include <vector>

#include "cuda/device_code.h"
#include "cuda/group_embedding_cuda.h"

namespace graph_opt {
namespace gpu {

// Tables are numbered through by the keys of their rows: those of one shard one after another, in
// order of shards.
struct TableOnDevice {
  int32_t first_shard;
  int32_t num_shards;
  int32_t partition;
  int32_t type;
  int32_t dim;
  int32_t lanes;      // threads that work on one row of sums, a power of two up to 32
  int32_t vectors;    // whether rows, slots, gradients and sums can be read in vectors
  int64_t first_key;  // of the first shard
  int64_t num_rows;
  int64_t piece;   // div: rows of the shorter shards
  int64_t longer;  // div: how many shards have one row more
};

struct LookupOnDevice {
  GraphOptCudaLookup given;
  TableOnDevice table;
  int64_t first_bag;   // bags of all lookups are numbered through
  int64_t first_slot;  // so are the places where an id may be
  int64_t num_slots;   // ids, then a place for each bag's default or filled row
  int32_t element_bytes;
  int32_t lanes;    // threads that pool one bag
  int32_t vectors;  // whether rows and pooled rows can be accessed in vectors
  int32_t drops_weights;
  int32_t counts;  // whether it matters how many ids of a bag count
};

// Pointers into the piece of memory. first_*[i] is where lookup, table or shard i begins, with one
// entry more for the end.
struct GroupOnDevice {
  const LookupOnDevice* lookups;
  const TableOnDevice* tables;
  const GraphOptCudaShard* shards;
  const int64_t* first_keys;         // of shards
  const int64_t* first_pool_blocks;  // of lookups: bags, by `lanes` threads each
  const int64_t* first_bag_blocks;   // of lookups: bags, by kBagLanes threads each
  const int64_t* first_slot_blocks;  // of lookups: one thread for each slot
  const int64_t* first_row_blocks;   // of tables: rows of sums, by `lanes` threads each
  int32_t num_lookups;
  int32_t num_tables;
  int32_t num_shards;
};

// What the host knows about a group.
struct GroupSizes {
  int64_t slots = 0;
  int64_t bags = 0;
  int64_t keys = 0;
  int64_t pool_blocks = 0;
  int64_t bag_blocks = 0;
  int64_t slot_blocks = 0;
  int64_t row_blocks = 0;
  int64_t bytes = 0;  // of the piece of memory
};

// Threads that count the ids of one bag.
constexpr int kBagLanes = 8;

// Checks a group and lays it out. Returns a negative status, or 0.
class GroupPlan {
 public:
  int32_t Read(const GraphOptCudaGroup& group);

  const GroupSizes& sizes() const { return sizes_; }
  // The block of memory to be copied to `place`, and the pointers into it there.
  const std::vector<char>& Image(char* place, GroupOnDevice* on_device);

 private:
  int32_t ReadTables(const GraphOptCudaGroup& group);
  int32_t ReadLookups(const GraphOptCudaGroup& group);
  void CountBlocks();

  GroupSizes sizes_;
  std::vector<LookupOnDevice> lookups_;
  std::vector<TableOnDevice> tables_;
  std::vector<GraphOptCudaShard> shards_;
  std::vector<int64_t> first_keys_;
  std::vector<int64_t> first_pool_blocks_;
  std::vector<int64_t> first_bag_blocks_;
  std::vector<int64_t> first_slot_blocks_;
  std::vector<int64_t> first_row_blocks_;
  std::vector<char> image_;
};

// Threads for rows of `dim` columns.
int32_t LanesFor(int64_t dim, int64_t columns_at_once);

// `bytes`, rounded up to where the next piece of memory may begin.
inline int64_t AlignedBytes(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace gpu
}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_GROUP_ON_DEVICE_H_
