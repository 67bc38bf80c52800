// The kernel of the forward pass: pools the rows of all bags of all lookups.
#ifndef GRAPH_OPT_CUDA_POOL_BAGS_H_
#define GRAPH_OPT_CUDA_POOL_BAGS_H_

#include "cuda/bags_on_device.h"
#include "cuda/sum_rows.h"

namespace graph_opt {
namespace gpu {

// How many ids of a bag count, and their weights or squared weights added up.
struct BagTotal {
  int64_t count;
  float weights;
};

GRAPH_OPT_GPU bool IsMean(int32_t combiner) {
  return combiner == GRAPH_OPT_CUDA_MEAN || combiner == GRAPH_OPT_CUDA_MEAN_OR_NAN;
}

GRAPH_OPT_GPU bool GivesNan(int32_t combiner) {
  return combiner == GRAPH_OPT_CUDA_MEAN_OR_NAN || combiner == GRAPH_OPT_CUDA_SQRTN_OR_NAN;
}

GRAPH_OPT_GPU void AddToTotal(const LookupOnDevice& lookup, int64_t k, BagTotal* total) {
  if (!Counts(lookup, k, IdAt(lookup.given, k))) return;
  ++total->count;
  if (lookup.given.weights == nullptr) return;
  const float weight = lookup.given.weights[k];
  total->weights += IsMean(lookup.given.combiner) ? weight : weight * weight;
}

// What a weighted bag's sum is divided by, as in row_types.h.
GRAPH_OPT_GPU float WeightedDivisor(int32_t combiner, float weights) {
  const float divisor = IsMean(combiner) ? weights : sqrtf(weights);
  if (divisor != 0) return divisor;
  return GivesNan(combiner) ? 0.0f : kDividesToZero;
}

// A bag's sum becomes its pooled row; the steps are those of TensorFlow (row_kernels_compiled.h).
GRAPH_OPT_GPU float Combined(const GraphOptCudaLookup& of, const BagTotal& total, float sum) {
  if (of.combiner == GRAPH_OPT_CUDA_SUM) return sum;
  if (total.count == 0 && !GivesNan(of.combiner)) return sum;
  if (of.weights != nullptr) {
    const float divisor = WeightedDivisor(of.combiner, total.weights);
    return DividesToZero(divisor) ? 0.0f : sum / divisor;
  }
  const float divisor = of.combiner == GRAPH_OPT_CUDA_MEAN
                            ? static_cast<float>(total.count)
                            : static_cast<float>(sqrt(static_cast<double>(total.count)));
  return total.count < 10 ? sum * (1.0f / divisor) : sum / divisor;
}

// The rows of a bag's ids.
struct BagTerms {
  const GroupOnDevice& group;
  const LookupOnDevice& lookup;

  GRAPH_OPT_GPU Term At(int64_t k) const {
    const int64_t id = IdAt(lookup.given, k);
    if (!Counts(lookup, k, id)) return Term{nullptr, 1.0f, 1.0f};
    const int64_t key = KeyOf(group, lookup.table, id);
    if (key < 0) return Term{nullptr, 1.0f, 1.0f};
    return Term{RowOf(group, lookup.table, lookup.element_bytes, key), 1.0f,
                WeightAt(lookup.given, k)};
  }
};

// The one row of an empty bag that has a default.
struct DefaultTerm {
  const GroupOnDevice& group;
  const LookupOnDevice& lookup;

  GRAPH_OPT_GPU Term At(int64_t) const {
    const int64_t key = KeyOf(group, lookup.table, lookup.given.default_id);
    if (key < 0) return Term{nullptr, 1.0f, 1.0f};
    return Term{RowOf(group, lookup.table, lookup.element_bytes, key), 1.0f, 1.0f};
  }
};

struct PoolBags {
  GroupOnDevice group;
  uint64_t* fault;

  struct Shared {
    PartialSums partial;
    int64_t counts[kThreads];
    float weights[kThreads];
    bool is_long[kThreads];  // of the block's bags
  };

  template <typename Block>
  GRAPH_OPT_GPU void operator()(const Block& block, Shared* shared, int64_t index) const {
    const int32_t i = PartOf(group.first_pool_blocks, group.num_lookups, index);
    const LookupOnDevice& lookup = group.lookups[i];
    if (lookup.table.dim == 0) return;  // nothing to write
    const int64_t first_bag = (index - group.first_pool_blocks[i]) * (kThreads / lookup.lanes);
    if (lookup.table.type == GRAPH_OPT_CUDA_FLOAT) {
      if (lookup.vectors) return Pool<float, 4>(block, shared, i, first_bag);
      return Pool<float, 1>(block, shared, i, first_bag);
    }
    if (lookup.table.type == GRAPH_OPT_CUDA_HALF) {
      if (lookup.vectors) return Pool<Half, 8>(block, shared, i, first_bag);
      return Pool<Half, 1>(block, shared, i, first_bag);
    }
    if (lookup.vectors) return Pool<Bfloat16, 8>(block, shared, i, first_bag);
    return Pool<Bfloat16, 1>(block, shared, i, first_bag);
  }

  // Pools the block's bags from `first_bag` on: a team of `lanes` threads each, but a long one by
  // all threads.
  template <typename T, int kColumns, typename Block>
  GRAPH_OPT_GPU void Pool(const Block& block, Shared* shared, int32_t index,
                          int64_t first_bag) const {
    const LookupOnDevice& lookup = group.lookups[index];
    const int32_t lanes = lookup.lanes;
    const int32_t teams = kThreads / lanes;
    block.Each([&](int thread) {
      const int32_t lane = thread % lanes;
      const int64_t bag = first_bag + thread / lanes;
      bool is_long = false;
      if (bag < lookup.given.num_bags) {
        const IdRange ids = IdsOf(lookup.given, bag);
        is_long = ids.end - ids.begin > kLongSum;
        if (lane == 0) CheckBag(lookup, index, bag, ids);
        if (!is_long) {
          CheckIds(lookup, index, bag, ids.begin + lane, ids.end, lanes);
          PoolByTeam<T, kColumns>(lookup, index, bag, ids, lane);
        }
      }
      if (lane == 0) shared->is_long[thread / lanes] = is_long;
    });
    for (int32_t team = 0; team < teams; ++team) {
      if (shared->is_long[team]) {
        PoolByBlock<T, kColumns>(block, shared, index, first_bag + team);
      }
    }
  }

  template <typename T, int kColumns>
  GRAPH_OPT_GPU void PoolByTeam(const LookupOnDevice& lookup, int32_t index, int64_t bag,
                                const IdRange& ids, int32_t lane) const {
    BagTotal total = {0, 0.0f};
    if (lookup.counts) {
      for (int64_t k = ids.begin; k < ids.end; ++k) AddToTotal(lookup, k, &total);
    }
    const bool is_default = total.count == 0 && lookup.given.default_id >= 0;
    if (is_default && lane == 0) CheckDefault(lookup, index, bag);
    const int64_t step = static_cast<int64_t>(lookup.lanes) * kColumns;
    for (int64_t column = lane * kColumns; column < lookup.table.dim; column += step) {
      float sums[kColumns] = {};
      if (is_default) {
        AddRows<T, kColumns>(DefaultTerm{group, lookup}, 0, 1, column, sums);
      } else {
        AddRows<T, kColumns>(BagTerms{group, lookup}, ids.begin, ids.end, column, sums);
      }
      Store<T, kColumns>(lookup, bag, total, column, sums);
    }
  }

  template <typename T, int kColumns, typename Block>
  GRAPH_OPT_GPU void PoolByBlock(const Block& block, Shared* shared, int32_t index,
                                 int64_t bag) const {
    const LookupOnDevice& lookup = group.lookups[index];
    const IdRange ids = IdsOf(lookup.given, bag);
    block.Each([&](int thread) {
      CheckIds(lookup, index, bag, ids.begin + thread, ids.end, kThreads);
      BagTotal part = {0, 0.0f};
      if (lookup.counts) {
        for (int64_t k = ids.begin + thread; k < ids.end; k += kThreads) {
          AddToTotal(lookup, k, &part);
        }
      }
      shared->counts[thread] = part.count;
      shared->weights[thread] = part.weights;
    });
    for (int half = kThreads / 2; half > 0; half /= 2) {
      block.Each([&](int thread) {
        if (thread >= half) return;
        shared->counts[thread] += shared->counts[thread + half];
        shared->weights[thread] += shared->weights[thread + half];
      });
    }
    const BagTotal total = {shared->counts[0], shared->weights[0]};
    const bool is_default = total.count == 0 && lookup.given.default_id >= 0;
    if (is_default) {  // a long bag of which nothing counts
      block.Each([&](int thread) {
        if (thread < lookup.lanes) {
          PoolByTeam<T, kColumns>(lookup, index, bag, IdRange{0, 0}, thread);
        }
      });
      return;
    }
    SumByBlock<T, kColumns>(block, &shared->partial, BagTerms{group, lookup}, ids.begin, ids.end,
                            lookup.table.dim, lookup.lanes, [&](int64_t column, float* sums) {
                              Store<T, kColumns>(lookup, bag, total, column, sums);
                            });
  }

  template <typename T, int kColumns>
  GRAPH_OPT_GPU void Store(const LookupOnDevice& lookup, int64_t bag, const BagTotal& total,
                           int64_t column, float* sums) const {
    GRAPH_OPT_UNROLL
    for (int c = 0; c < kColumns; ++c) sums[c] = Combined(lookup.given, total, sums[c]);
    T* const pooled = static_cast<T*>(lookup.given.pooled) + bag * lookup.given.pooled_stride;
    StoreColumns<T, kColumns>(sums, pooled, column);
  }

  // Reports a bag whose ids are not where they should be. Sparse ids of a bag in order are found by
  // the positions of the first one and by those of all others (CheckIds).
  GRAPH_OPT_GPU void CheckBag(const LookupOnDevice& lookup, int32_t index, int64_t bag,
                              const IdRange& ids) const {
    if (fault == nullptr || lookup.given.layout == GRAPH_OPT_CUDA_DENSE) return;
    const bool in_order = lookup.given.layout == GRAPH_OPT_CUDA_RAGGED
                              ? SplitsAreInOrder(lookup.given, bag)
                              : FirstIdOf(lookup.given, bag + 1) == ids.end;
    if (!in_order) TellFault(fault, Fault(GRAPH_OPT_CUDA_OUT_OF_ORDER, index, bag));
  }

  GRAPH_OPT_GPU void CheckIds(const LookupOnDevice& lookup, int32_t index, int64_t bag,
                              int64_t begin, int64_t end, int64_t step) const {
    if (fault == nullptr) return;
    for (int64_t k = begin; k < end; k += step) {
      if (lookup.given.layout == GRAPH_OPT_CUDA_SPARSE && SparseBagOf(lookup.given, k) != bag) {
        TellFault(fault, Fault(GRAPH_OPT_CUDA_OUT_OF_ORDER, index, bag));
      }
      const int64_t id = IdAt(lookup.given, k);
      if (Counts(lookup, k, id) && KeyOf(group, lookup.table, id) < 0) {
        TellFault(fault, Fault(GRAPH_OPT_CUDA_ID_OUT_OF_RANGE, index, bag));
      }
    }
  }

  GRAPH_OPT_GPU void CheckDefault(const LookupOnDevice& lookup, int32_t index, int64_t bag) const {
    if (KeyOf(group, lookup.table, lookup.given.default_id) >= 0) return;
    TellFault(fault, Fault(GRAPH_OPT_CUDA_ID_OUT_OF_RANGE, index, bag));
  }
};

}  // namespace gpu
}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_POOL_BAGS_H_
