#include "cuda/group_on_device.h"

#include <string.h>

#include <algorithm>

namespace graph_opt {
namespace gpu {
namespace {

// Slots, bags and rows of sums are counted in 32 bits.
constexpr int64_t kMost = INT32_MAX;
// A fault has 16 bits for the lookup and 46 for the bag.
constexpr int32_t kMostLookups = 65534;

int64_t ElementBytes(int32_t type) { return type == GRAPH_OPT_CUDA_FLOAT ? 4 : 2; }

bool IsAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kVectorBytes == 0;
}

int64_t BlocksFor(int64_t count, int64_t in_block) { return (count + in_block - 1) / in_block; }

bool IsOneOf(int32_t value, int32_t count) { return value >= 0 && value < count; }

bool IsConsistent(const GraphOptCudaLookup& lookup) {
  if (lookup.num_ids < 0 || lookup.num_bags < 0 || !IsOneOf(lookup.layout, 3) ||
      !IsOneOf(lookup.combiner, GRAPH_OPT_CUDA_COMBINERS)) {
    return false;
  }
  if (lookup.layout == GRAPH_OPT_CUDA_DENSE) {
    return lookup.width >= 0 && lookup.num_bags <= kMost && lookup.width <= kMost &&
           lookup.num_ids == lookup.num_bags * lookup.width;
  }
  if (lookup.layout == GRAPH_OPT_CUDA_RAGGED) return lookup.positions != nullptr;
  return lookup.num_sizes >= 1 && lookup.num_sizes <= GRAPH_OPT_CUDA_MOST_SIZES &&
         lookup.stride >= lookup.num_sizes && (lookup.positions != nullptr || lookup.num_ids == 0);
}

template <typename T>
int64_t Place(const std::vector<T>& part, int64_t* end) {
  const int64_t at = *end;
  *end = AlignedBytes(at + static_cast<int64_t>(part.size() * sizeof(T)));
  return at;
}

template <typename T>
const T* Copy(const std::vector<T>& part, char* place, std::vector<char>* image, int64_t* end) {
  const int64_t at = Place(part, end);
  if (!part.empty()) memcpy(image->data() + at, part.data(), part.size() * sizeof(T));
  return reinterpret_cast<const T*>(place + at);
}

}  // namespace

int32_t LanesFor(int64_t dim, int64_t columns_at_once) {
  int32_t lanes = 1;
  while (lanes < 32 && lanes * columns_at_once < dim) lanes *= 2;
  return lanes;
}

int32_t GroupPlan::Read(const GraphOptCudaGroup& group) {
  int32_t status = ReadTables(group);
  if (status == 0) status = ReadLookups(group);
  if (status != 0) return status;
  CountBlocks();
  Place(lookups_, &sizes_.bytes);
  Place(tables_, &sizes_.bytes);
  Place(shards_, &sizes_.bytes);
  Place(first_keys_, &sizes_.bytes);
  Place(first_pool_blocks_, &sizes_.bytes);
  Place(first_bag_blocks_, &sizes_.bytes);
  Place(first_slot_blocks_, &sizes_.bytes);
  Place(first_row_blocks_, &sizes_.bytes);
  const int64_t most_blocks = std::max(std::max(sizes_.pool_blocks, sizes_.bag_blocks),
                                       std::max(sizes_.slot_blocks, sizes_.row_blocks));
  return most_blocks > kMost ? GRAPH_OPT_CUDA_TOO_MANY : 0;
}

int32_t GroupPlan::ReadTables(const GraphOptCudaGroup& group) {
  if (group.num_tables < 1 || group.num_shards < 1) return GRAPH_OPT_CUDA_BAD_GROUP;
  shards_.assign(group.shards, group.shards + group.num_shards);
  first_keys_.assign(1, 0);
  for (const GraphOptCudaShard& shard : shards_) {
    if (shard.num_rows < 0) return GRAPH_OPT_CUDA_BAD_GROUP;
    first_keys_.push_back(first_keys_.back() + shard.num_rows);
  }
  sizes_.keys = first_keys_.back();
  int32_t next_shard = 0;
  for (int32_t t = 0; t < group.num_tables; ++t) {
    const GraphOptCudaTable& given = group.tables[t];
    if (given.first_shard != next_shard || given.num_shards < 1 ||
        given.num_shards > group.num_shards - next_shard || given.dim < 0 ||
        !IsOneOf(given.type, 3) || !IsOneOf(given.partition, 2)) {
      return GRAPH_OPT_CUDA_BAD_GROUP;
    }
    next_shard += given.num_shards;
    TableOnDevice table = {};
    table.first_shard = given.first_shard;
    table.num_shards = given.num_shards;
    table.partition = given.partition;
    table.type = given.type;
    table.dim = given.dim;
    table.first_key = first_keys_[given.first_shard];
    table.num_rows = first_keys_[next_shard] - table.first_key;
    table.piece = table.num_rows / table.num_shards;
    table.longer = table.num_rows % table.num_shards;
    table.vectors = given.dim * ElementBytes(given.type) % kVectorBytes == 0;
    for (int32_t s = given.first_shard; s < next_shard; ++s) {
      const GraphOptCudaShard& shard = shards_[s];
      if (!IsAligned(shard.rows) || !IsAligned(shard.sums)) table.vectors = 0;
      for (const float* slot : shard.slots) {
        if (!IsAligned(slot)) table.vectors = 0;
      }
    }
    tables_.push_back(table);
  }
  return next_shard == group.num_shards ? 0 : GRAPH_OPT_CUDA_BAD_GROUP;
}

int32_t GroupPlan::ReadLookups(const GraphOptCudaGroup& group) {
  if (group.num_lookups > kMostLookups) return GRAPH_OPT_CUDA_TOO_MANY;
  for (int32_t i = 0; i < group.num_lookups; ++i) {
    const GraphOptCudaLookup& given = group.lookups[i];
    if (!IsOneOf(given.table, group.num_tables)) return GRAPH_OPT_CUDA_BAD_GROUP;
    if (given.num_ids > kMost || given.num_bags > kMost) return GRAPH_OPT_CUDA_TOO_MANY;
    if (!IsConsistent(given)) return GRAPH_OPT_CUDA_BAD_GROUP;
    const TableOnDevice& table = tables_[given.table];
    LookupOnDevice lookup = {};
    lookup.given = given;
    lookup.element_bytes = static_cast<int32_t>(ElementBytes(table.type));
    lookup.vectors = table.vectors && IsAligned(given.pooled) &&
                     given.pooled_stride * lookup.element_bytes % kVectorBytes == 0;
    lookup.lanes = LanesFor(table.dim, lookup.vectors ? kVectorBytes / lookup.element_bytes : 1);
    lookup.drops_weights =
        given.safe && given.weights != nullptr && given.combiner != GRAPH_OPT_CUDA_SUM;
    const bool fills = given.default_id >= 0 || given.filled_id >= 0;
    lookup.counts = given.combiner != GRAPH_OPT_CUDA_SUM || fills;
    lookup.first_bag = sizes_.bags;
    lookup.first_slot = sizes_.slots;
    lookup.num_slots = given.num_ids + (fills ? given.num_bags : 0);
    sizes_.bags += given.num_bags;
    sizes_.slots += lookup.num_slots;
    lookups_.push_back(lookup);
  }
  for (const LookupOnDevice& lookup : lookups_) {
    // The gradients of one table's lookups are summed in one way.
    if (!lookup.vectors) tables_[lookup.given.table].vectors = 0;
  }
  for (LookupOnDevice& lookup : lookups_) lookup.table = tables_[lookup.given.table];
  return sizes_.slots > kMost || sizes_.bags > kMost ? GRAPH_OPT_CUDA_TOO_MANY : 0;
}

void GroupPlan::CountBlocks() {
  std::vector<int64_t> slots(tables_.size(), 0);
  first_pool_blocks_.assign(1, 0);
  first_bag_blocks_.assign(1, 0);
  first_slot_blocks_.assign(1, 0);
  first_row_blocks_.assign(1, 0);
  for (const LookupOnDevice& lookup : lookups_) {
    const int64_t bags = lookup.given.num_bags;
    first_pool_blocks_.push_back(first_pool_blocks_.back() +
                                 BlocksFor(bags, kThreads / lookup.lanes));
    first_bag_blocks_.push_back(first_bag_blocks_.back() + BlocksFor(bags, kThreads / kBagLanes));
    first_slot_blocks_.push_back(first_slot_blocks_.back() + BlocksFor(lookup.num_slots, kThreads));
    slots[lookup.given.table] += lookup.num_slots;
  }
  for (size_t t = 0; t < tables_.size(); ++t) {
    TableOnDevice& table = tables_[t];
    const int64_t columns = table.vectors ? kVectorBytes / ElementBytes(table.type) : 1;
    table.lanes = LanesFor(table.dim, columns);
    const int64_t most_rows = std::min(slots[t], table.num_rows);
    first_row_blocks_.push_back(first_row_blocks_.back() +
                                BlocksFor(most_rows, kThreads / table.lanes));
  }
  sizes_.pool_blocks = first_pool_blocks_.back();
  sizes_.bag_blocks = first_bag_blocks_.back();
  sizes_.slot_blocks = first_slot_blocks_.back();
  sizes_.row_blocks = first_row_blocks_.back();
}

const std::vector<char>& GroupPlan::Image(char* place, GroupOnDevice* on_device) {
  image_.assign(static_cast<size_t>(sizes_.bytes), 0);
  int64_t end = 0;
  on_device->lookups = Copy(lookups_, place, &image_, &end);
  on_device->tables = Copy(tables_, place, &image_, &end);
  on_device->shards = Copy(shards_, place, &image_, &end);
  on_device->first_keys = Copy(first_keys_, place, &image_, &end);
  on_device->first_pool_blocks = Copy(first_pool_blocks_, place, &image_, &end);
  on_device->first_bag_blocks = Copy(first_bag_blocks_, place, &image_, &end);
  on_device->first_slot_blocks = Copy(first_slot_blocks_, place, &image_, &end);
  on_device->first_row_blocks = Copy(first_row_blocks_, place, &image_, &end);
  on_device->num_lookups = static_cast<int32_t>(lookups_.size());
  on_device->num_tables = static_cast<int32_t>(tables_.size());
  on_device->num_shards = static_cast<int32_t>(shards_.size());
  return image_;
}

}  // namespace gpu
}  // namespace graph_opt
