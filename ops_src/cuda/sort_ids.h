// The kernels that find which rows the ids of a group name, around a sort. They run in this order:
//
//   CountBags    for each bag what its gradient is divided by           one thread group for a bag
//   WriteKeys    for each id its row's key, its bag and weight          one thread for an id
//   (sort by key: stable, so the ids of one row stay in the order of lookups and ids)
//   MarkRuns     1 where a key is another than the one before
//   (inclusive sum of the marks: the number of the run, counted from 1)
//   StartRuns    where each run begins
//   FindShards   the first run of each shard
#ifndef GRAPH_OPT_CUDA_SORT_IDS_H_
#define GRAPH_OPT_CUDA_SORT_IDS_H_

#include "cuda/bags_on_device.h"
#include "cuda/pool_bags.h"

namespace graph_opt {
namespace gpu {

// Where a bag's gradient is; an id's gradient is  gradient / divisor * scale * weight.
struct BagGradient {
  const void* gradient;
  float divisor;
  float scale;
};

// What is sorted with a key: the bag and the weight of an id.
GRAPH_OPT_GPU uint64_t PackedBag(int64_t bag, float weight) {
  return static_cast<uint64_t>(bag) << 32 | FloatToBits(weight);
}
GRAPH_OPT_GPU int64_t BagIn(uint64_t packed) { return static_cast<int64_t>(packed >> 32); }
GRAPH_OPT_GPU float WeightIn(uint64_t packed) {
  return BitsToFloat(static_cast<uint32_t>(packed & 0xffffffff));
}

// Device memory of the backward pass.
struct SortMemory {
  BagGradient* bags;  // of all bags
  uint32_t* counts;   // of all bags: ids that count
  uint64_t* keys;     // of all slots, as all below; `num_keys` for none
  uint64_t* packed;
  uint64_t* sorted_keys;
  uint64_t* sorted_packed;
  uint32_t* marks;
  uint32_t* runs;
  uint32_t* run_begins;  // one more than slots: the end of the last run
  int64_t* first_runs;   // of shards, and the number of runs
  int64_t num_slots;
  int64_t num_keys;
};

struct CountBags {
  GroupOnDevice group;
  SortMemory memory;

  struct Shared {
    int64_t counts[kThreads];
    float weights[kThreads];
    bool is_long[kThreads / kBagLanes];
  };

  template <typename Block>
  GRAPH_OPT_GPU void operator()(const Block& block, Shared* shared, int64_t index) const {
    const int32_t i = PartOf(group.first_bag_blocks, group.num_lookups, index);
    const LookupOnDevice& lookup = group.lookups[i];
    const int32_t teams = kThreads / kBagLanes;
    const int64_t first_bag = (index - group.first_bag_blocks[i]) * teams;
    block.Each([&](int thread) {
      const int64_t bag = first_bag + thread / kBagLanes;
      bool is_long = false;
      if (bag < lookup.given.num_bags) {
        IdRange ids = {0, 0};
        if (lookup.counts) ids = IdsOf(lookup.given, bag);
        is_long = ids.end - ids.begin > kLongSum;
        if (!is_long) CountPart(lookup, ids, thread % kBagLanes, kBagLanes, thread, shared);
      }
      if (thread % kBagLanes == 0) shared->is_long[thread / kBagLanes] = is_long;
    });
    block.Each([&](int thread) {
      const int64_t bag = first_bag + thread / kBagLanes;
      if (thread % kBagLanes != 0 || bag >= lookup.given.num_bags) return;
      if (shared->is_long[thread / kBagLanes]) return;
      BagTotal total = {0, 0.0f};
      for (int lane = 0; lane < kBagLanes; ++lane) {
        total.count += shared->counts[thread + lane];
        total.weights += shared->weights[thread + lane];
      }
      Write(lookup, bag, total);
    });
    for (int32_t team = 0; team < teams; ++team) {
      if (shared->is_long[team]) CountByBlock(block, shared, lookup, first_bag + team);
    }
  }

  template <typename Block>
  GRAPH_OPT_GPU void CountByBlock(const Block& block, Shared* shared, const LookupOnDevice& lookup,
                                  int64_t bag) const {
    block.Each([&](int thread) {
      CountPart(lookup, IdsOf(lookup.given, bag), thread, kThreads, thread, shared);
    });
    for (int half = kThreads / 2; half > 0; half /= 2) {
      block.Each([&](int thread) {
        if (thread >= half) return;
        shared->counts[thread] += shared->counts[thread + half];
        shared->weights[thread] += shared->weights[thread + half];
      });
    }
    block.Each([&](int thread) {
      if (thread == 0) Write(lookup, bag, BagTotal{shared->counts[0], shared->weights[0]});
    });
  }

  GRAPH_OPT_GPU void CountPart(const LookupOnDevice& lookup, const IdRange& ids, int first,
                               int step, int thread, Shared* shared) const {
    BagTotal part = {0, 0.0f};
    for (int64_t k = ids.begin + first; k < ids.end; k += step) AddToTotal(lookup, k, &part);
    shared->counts[thread] = part.count;
    shared->weights[thread] = part.weights;
  }

  GRAPH_OPT_GPU void Write(const LookupOnDevice& lookup, int64_t bag, const BagTotal& total) const {
    const GraphOptCudaLookup& of = lookup.given;
    BagGradient of_bag;
    of_bag.gradient =
        static_cast<const char*>(of.pooled) + bag * of.pooled_stride * lookup.element_bytes;
    of_bag.divisor = 1.0f;
    of_bag.scale = 1.0f;
    if (of.combiner != GRAPH_OPT_CUDA_SUM && total.count > 0) {
      const double count = static_cast<double>(total.count);
      if (of.weights != nullptr) {
        of_bag.divisor = WeightedDivisor(of.combiner, total.weights);
      } else {
        of_bag.scale =
            static_cast<float>(1.0 / (of.combiner == GRAPH_OPT_CUDA_MEAN ? count : sqrt(count)));
      }
    }
    memory.bags[lookup.first_bag + bag] = of_bag;
    memory.counts[lookup.first_bag + bag] = static_cast<uint32_t>(total.count);
  }
};

struct WriteKeys {
  GroupOnDevice group;
  SortMemory memory;
  uint64_t* fault;

  struct Shared {};

  template <typename Block>
  GRAPH_OPT_GPU void operator()(const Block& block, Shared*, int64_t index) const {
    const int32_t i = PartOf(group.first_slot_blocks, group.num_lookups, index);
    const LookupOnDevice& lookup = group.lookups[i];
    block.Each([&](int thread) {
      const int64_t slot = (index - group.first_slot_blocks[i]) * kThreads + thread;
      if (slot < lookup.num_slots) WriteKey(lookup, i, slot);
    });
  }

  GRAPH_OPT_GPU void WriteKey(const LookupOnDevice& lookup, int32_t index, int64_t slot) const {
    const GraphOptCudaLookup& of = lookup.given;
    int64_t bag;
    int64_t id = of.default_id >= 0 ? of.default_id : of.filled_id;
    float weight = of.default_id >= 0 ? 1.0f : 0.0f;
    bool counts;
    if (slot < of.num_ids) {
      bag = BagOf(of, slot);
      id = IdAt(of, slot);
      weight = WeightAt(of, slot);
      counts = bag >= 0 && Counts(lookup, slot, id);
      CheckOrder(of, index, slot, bag);
    } else {
      bag = slot - of.num_ids;
      counts = memory.counts[lookup.first_bag + bag] == 0;
    }
    int64_t key = -1;
    if (counts) {
      key = KeyOf(group, lookup.table, id);
      if (key < 0) TellFault(fault, Fault(GRAPH_OPT_CUDA_ID_OUT_OF_RANGE, index, bag));
    }
    const int64_t to = lookup.first_slot + slot;
    memory.keys[to] = static_cast<uint64_t>(key < 0 ? memory.num_keys : key);
    memory.packed[to] = PackedBag(lookup.first_bag + Greatest<int64_t>(bag, 0), weight);
  }

  GRAPH_OPT_GPU void CheckOrder(const GraphOptCudaLookup& of, int32_t index, int64_t k,
                                int64_t bag) const {
    if (fault == nullptr || of.layout == GRAPH_OPT_CUDA_DENSE) return;
    bool in_order = bag >= 0;
    if (in_order && of.layout == GRAPH_OPT_CUDA_RAGGED) in_order = SplitsAreInOrder(of, bag);
    if (in_order && of.layout == GRAPH_OPT_CUDA_SPARSE && k > 0) {
      in_order = SparseBagOf(of, k - 1) <= bag;
    }
    if (in_order) return;
    TellFault(fault, Fault(GRAPH_OPT_CUDA_OUT_OF_ORDER, index, Greatest<int64_t>(bag, 0)));
  }
};

struct MarkRuns {
  SortMemory memory;

  struct Shared {};

  template <typename Block>
  GRAPH_OPT_GPU void operator()(const Block& block, Shared*, int64_t index) const {
    block.Each([&](int thread) {
      const int64_t i = index * kThreads + thread;
      if (i >= memory.num_slots) return;
      const uint64_t key = memory.sorted_keys[i];
      const bool is_first = i == 0 || memory.sorted_keys[i - 1] != key;
      memory.marks[i] = is_first && key < static_cast<uint64_t>(memory.num_keys);
    });
  }
};

struct StartRuns {
  SortMemory memory;

  struct Shared {};

  template <typename Block>
  GRAPH_OPT_GPU void operator()(const Block& block, Shared*, int64_t index) const {
    block.Each([&](int thread) {
      const int64_t i = index * kThreads + thread;
      if (i >= memory.num_slots) return;
      const uint64_t end_key = static_cast<uint64_t>(memory.num_keys);
      const bool is_row = memory.sorted_keys[i] < end_key;
      if (memory.marks[i]) memory.run_begins[memory.runs[i] - 1] = static_cast<uint32_t>(i);
      const bool is_last = i + 1 == memory.num_slots || memory.sorted_keys[i + 1] >= end_key;
      if (is_row && is_last) memory.run_begins[memory.runs[i]] = static_cast<uint32_t>(i + 1);
    });
  }
};

struct FindShards {
  GroupOnDevice group;
  SortMemory memory;

  struct Shared {};

  template <typename Block>
  GRAPH_OPT_GPU void operator()(const Block& block, Shared*, int64_t index) const {
    block.Each([&](int thread) {
      const int64_t shard = index * kThreads + thread;
      if (shard > group.num_shards) return;
      const uint64_t first_key = static_cast<uint64_t>(group.first_keys[shard]);
      int64_t low = 0;
      int64_t high = memory.num_slots == 0 ? 0 : memory.runs[memory.num_slots - 1];
      while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (memory.sorted_keys[memory.run_begins[middle]] < first_key) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      memory.first_runs[shard] = low;
    });
  }
};

}  // namespace gpu
}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_SORT_IDS_H_
