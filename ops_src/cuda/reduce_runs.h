// The kernels of the backward pass and the update: sum the gradients of each row, and write the sum
// or update the row by it.
#ifndef GRAPH_OPT_CUDA_REDUCE_RUNS_H_
#define GRAPH_OPT_CUDA_REDUCE_RUNS_H_

#include "cuda/sort_ids.h"
#include "cuda/sum_rows.h"
#include "cuda/update_rows.h"

namespace graph_opt {
namespace gpu {

// The gradients of one row, by their places in the sorted ids.
struct GradientTerms {
  const SortMemory& memory;

  GRAPH_OPT_GPU Term At(int64_t place) const {
    const uint64_t packed = memory.sorted_packed[place];
    const BagGradient bag = memory.bags[BagIn(packed)];
    return Term{bag.gradient, bag.divisor, bag.scale * WeightIn(packed)};
  }
};

// A row of a shard, and which of the shard's rows of sums it is.
struct RunPlace {
  const GraphOptCudaShard& shard;
  int64_t row;
  int64_t number;
};

// Writes sums, and which rows they are of.
struct WriteSums {
  GRAPH_OPT_GPU void Begin(const RunPlace& place) const {
    place.shard.indices[place.number] = place.row;
  }
  template <typename T, int kColumns>
  GRAPH_OPT_GPU void Columns(const RunPlace& place, int64_t dim, int64_t column,
                             const float* sums) const {
    T* const to = static_cast<T*>(place.shard.sums) + place.number * dim;
    StoreColumns<T, kColumns>(sums, to, column);
  }
};

// Updates rows of floats by an optimizer's formula.
template <typename Spec>
struct UpdateBySpec {
  Spec spec;

  GRAPH_OPT_GPU void Begin(const RunPlace&) const {}
  template <typename T, int kColumns>
  GRAPH_OPT_GPU void Columns(const RunPlace& place, int64_t dim, int64_t column,
                             const float* sums) const {
    UpdateColumns<kColumns>(spec, place.shard, place.row * dim + column, sums);
  }
};

// Gives `take` (WriteSums or UpdateBySpec) the sum of each row that is in the ids.
template <typename Take>
struct ReduceRuns {
  GroupOnDevice group;
  SortMemory memory;
  Take take;

  struct Shared {
    PartialSums partial;
    bool is_long[kThreads];  // of the block's runs
  };

  template <typename Block>
  GRAPH_OPT_GPU void operator()(const Block& block, Shared* shared, int64_t index) const {
    const int32_t t = PartOf(group.first_row_blocks, group.num_tables, index);
    const TableOnDevice& table = group.tables[t];
    const int64_t first = memory.first_runs[table.first_shard] +
                          (index - group.first_row_blocks[t]) * (kThreads / table.lanes);
    // There are blocks for as many rows as there may be.
    if (first >= memory.first_runs[table.first_shard + table.num_shards]) return;
    Dispatch(block, shared, table, first, take);
  }

  template <typename Block, typename Spec>
  GRAPH_OPT_GPU void Dispatch(const Block& block, Shared* shared, const TableOnDevice& table,
                              int64_t first, const UpdateBySpec<Spec>&) const {
    if (table.vectors) return Reduce<float, 4>(block, shared, table, first);
    return Reduce<float, 1>(block, shared, table, first);
  }

  template <typename Block>
  GRAPH_OPT_GPU void Dispatch(const Block& block, Shared* shared, const TableOnDevice& table,
                              int64_t first, const WriteSums&) const {
    if (table.type == GRAPH_OPT_CUDA_FLOAT) {
      if (table.vectors) return Reduce<float, 4>(block, shared, table, first);
      return Reduce<float, 1>(block, shared, table, first);
    }
    if (table.type == GRAPH_OPT_CUDA_HALF) {
      if (table.vectors) return Reduce<Half, 8>(block, shared, table, first);
      return Reduce<Half, 1>(block, shared, table, first);
    }
    if (table.vectors) return Reduce<Bfloat16, 8>(block, shared, table, first);
    return Reduce<Bfloat16, 1>(block, shared, table, first);
  }

  // The block's runs from `first` on: a team of `lanes` threads each, but a long one by all.
  template <typename T, int kColumns, typename Block>
  GRAPH_OPT_GPU void Reduce(const Block& block, Shared* shared, const TableOnDevice& table,
                            int64_t first) const {
    const int32_t lanes = table.lanes;
    const int32_t teams = kThreads / lanes;
    const int64_t end_run = memory.first_runs[table.first_shard + table.num_shards];
    const GradientTerms terms = {memory};
    block.Each([&](int thread) {
      const int32_t lane = thread % lanes;
      const int64_t run = first + thread / lanes;
      bool is_long = false;
      if (run < end_run) {
        const int64_t begin = memory.run_begins[run];
        const int64_t end = memory.run_begins[run + 1];
        is_long = end - begin > kLongSum;
        const RunPlace place = PlaceOf(table, run);
        if (lane == 0) take.Begin(place);
        const int64_t step = static_cast<int64_t>(lanes) * kColumns;
        for (int64_t column = lane * kColumns; !is_long && column < table.dim; column += step) {
          float sums[kColumns] = {};
          AddRows<T, kColumns>(terms, begin, end, column, sums);
          take.template Columns<T, kColumns>(place, table.dim, column, sums);
        }
      }
      if (lane == 0) shared->is_long[thread / lanes] = is_long;
    });
    for (int32_t team = 0; team < teams; ++team) {
      if (!shared->is_long[team]) continue;
      const int64_t run = first + team;
      const RunPlace place = PlaceOf(table, run);
      SumByBlock<T, kColumns>(block, &shared->partial, terms, memory.run_begins[run],
                              memory.run_begins[run + 1], table.dim, lanes,
                              [&](int64_t column, const float* sums) {
                                take.template Columns<T, kColumns>(place, table.dim, column, sums);
                              });
    }
  }

  GRAPH_OPT_GPU RunPlace PlaceOf(const TableOnDevice& table, int64_t run) const {
    const int64_t key = static_cast<int64_t>(memory.sorted_keys[memory.run_begins[run]]);
    const int32_t shard = ShardOf(group, table, key);
    return RunPlace{group.shards[shard], key - group.first_keys[shard],
                    run - memory.first_runs[shard]};
  }
};

}  // namespace gpu
}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_REDUCE_RUNS_H_
