#include "lookup/refresh_bags.h"

#include <algorithm>

#include "scratch/scratch_pool.h"

namespace graph_opt {
namespace {

// Bags without a changed row that are pooled again nevertheless where they lie between two with
// one: to begin another run takes as long as to pool about so many.
constexpr int64_t kMostBetween = 8;

// Refreshes the bags of one block.
class BlockRefresh {
 public:
  BlockRefresh(const Table& table, const ChangedRows& changed, const Lookup& lookup,
               const RowKernels& kernels)
      : table_(table), changed_(changed), lookup_(lookup), kernels_(kernels) {}

  BagFault Run(const BagBlock& block) {
    if (changed_.all()) {
      changed_ids_ = lookup_.bags.End(block.end) - lookup_.bags.Begin(block.begin);
      changed_bags_ = block.end - block.begin;
      return PoolBags(table_, lookup_, block, kernels_);
    }
    return PoolChanged(block);
  }

  int64_t changed_ids() const { return changed_ids_; }
  int64_t changed_bags() const { return changed_bags_; }

 private:
  BagFault PoolChanged(const BagBlock& block) {
    BagFault fault;
    fault.lookup = block.lookup;
    BagBlock run = {block.lookup, block.begin, block.begin};  // changed bags, and few others
    int64_t changed_in_bag = 0;
    const bool in_order = ForEachOccurrence(
        lookup_.bags, block.begin, block.end, &fault.bag,
        [&](int64_t, int64_t, int64_t id, float) {
          const int64_t key = table_.shards.KeyOf(id);
          changed_in_bag += key < 0 || changed_.MayHave(table_.shards, key);
          return true;
        },
        [&](int64_t bag) {
          changed_ids_ += changed_in_bag;
          if (changed_in_bag > 0) {
            ++changed_bags_;
            if (run.end + kMostBetween < bag) Pool(&run, bag);
            run.end = bag + 1;
          }
          changed_in_bag = 0;
        });
    if (!in_order) {
      fault.kind = BagFault::kPositionsOutOfOrder;
      return fault;
    }
    Pool(&run, block.end);
    return fault_;
  }

  // Pools a run, and begins the next one.
  void Pool(BagBlock* run, int64_t next) {
    if (run->end > run->begin) {
      const BagFault fault = PoolBags(table_, lookup_, *run, kernels_);
      if (fault.Before(fault_)) fault_ = fault;
    }
    run->begin = next;
    run->end = next;
  }

  const Table& table_;
  const ChangedRows& changed_;
  const Lookup& lookup_;
  const RowKernels& kernels_;
  int64_t changed_ids_ = 0;
  int64_t changed_bags_ = 0;
  BagFault fault_;
};

}  // namespace

bool ChangedRows::none() const {
  return std::all_of(shards.begin(), shards.end(), [](const RowSet& set) { return set.none(); });
}

bool ChangedRows::all() const {
  return std::any_of(shards.begin(), shards.end(), [](const RowSet& set) { return set.all(); });
}

BagFault RefreshBags(const std::vector<Table>& tables, const std::vector<ChangedRows>& changed,
                     const std::vector<Lookup>& lookups, const RowKernels& kernels,
                     Parallel* parallel, std::vector<RefreshedLookup>* refreshed) {
  ScratchPool::OfProcess()->BeginCall();
  const Bags nothing;
  std::vector<RowsOfBags> rows = RowsOf(tables, lookups);
  refreshed->assign(lookups.size(), RefreshedLookup());
  for (size_t i = 0; i < lookups.size(); ++i) {
    const Lookup& lookup = lookups[i];
    (*refreshed)[i].ids = lookup.bags.num_ids;
    (*refreshed)[i].bags = lookup.bags.num_bags;
    if (changed[lookup.table].none()) rows[i].bags = &nothing;
  }
  const std::vector<BagBlock> blocks = BlocksOf(rows, parallel->num_threads());
  FirstFault first;
  std::vector<RefreshedLookup> of_blocks(blocks.size());
  parallel->Run(static_cast<int64_t>(blocks.size()), [&](int64_t i) {
    const Lookup& lookup = lookups[blocks[i].lookup];
    BlockRefresh refresh(tables[lookup.table], changed[lookup.table], lookup, kernels);
    const BagFault fault = refresh.Run(blocks[i]);
    if (fault.kind != BagFault::kNone) first.Tell(fault);
    of_blocks[i].changed_ids = refresh.changed_ids();
    of_blocks[i].changed_bags = refresh.changed_bags();
  });
  for (size_t i = 0; i < blocks.size(); ++i) {
    RefreshedLookup& of_lookup = (*refreshed)[blocks[i].lookup];
    of_lookup.changed_ids += of_blocks[i].changed_ids;
    of_lookup.changed_bags += of_blocks[i].changed_bags;
  }
  if (!first.fault().MayBeOfOrder()) return first.fault();
  // Unsorted ids were taken for those of other bags, so any bag may be wrong.
  for (RefreshedLookup& of_lookup : *refreshed) {
    of_lookup.changed_ids = of_lookup.ids;
    of_lookup.changed_bags = of_lookup.bags;
  }
  return GroupLookup(tables, lookups, kernels, parallel);
}

}  // namespace graph_opt
