#include "packed/deferred_request.h"

#include <cstdint>

#include "deferred/deferred_lookup.h"
#include "scratch/scratch_array.h"

namespace graph_opt {
namespace {

// The lookup of what is asked of one shard, for each of its lookups.
void AddLookups(const RequestedRows& requested, int shard, std::vector<ScratchArray<int32_t>>* ids,
                std::vector<DeferredLookup>* lookups) {
  DeferredLookup lookup;
  lookup.table = shard;
  if (requested.rows != nullptr) {
    lookup.bags.ids = requested.rows;
    lookup.bags.num_ids = requested.count;
    lookups->push_back(lookup);
  }
  for (const PackedBags& packed : requested.bags) {
    ids->emplace_back();
    ids->back().Reserve(packed.num_ids);
    ReadIds(packed, ids->back().data());
    lookup.bags.wide_ids = false;
    lookup.bags.ids = ids->back().data();
    lookup.bags.num_ids = packed.num_ids;
    lookup.bags.default_id = packed.default_id;
    lookups->push_back(lookup);
  }
}

}  // namespace

void CatchUp(const std::vector<DeferredShard>& shards, const std::vector<RequestedRows>& requested,
             DeferredNeeds needs, const RowKernels& kernels, Parallel* parallel) {
  std::vector<DeferredTable> tables;
  std::vector<DeferredLookup> lookups;
  std::vector<ScratchArray<int32_t>> ids;
  for (size_t i = 0; i < shards.size(); ++i) {
    tables.emplace_back();
    tables.back().shards.push_back(shards[i]);
    tables.back().needs = needs;
    if (shards[i].rows == nullptr) continue;
    tables.back().partition = TableShards(Partition::kMod, {shards[i].rows->num_rows()});
    AddLookups(requested[i], static_cast<int>(i), &ids, &lookups);
  }
  CatchUp(tables, lookups, kernels, parallel);
}

}  // namespace graph_opt
