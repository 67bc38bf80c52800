#include "rows/row_kernels.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace graph_opt {

namespace portable {
extern const RowKernels kRowKernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const RowKernels kRowKernels;
}
namespace avx512 {
extern const RowKernels kRowKernels;
}
#endif

namespace {

extern const RowKernels kBest;

struct Runnable {
  Runnable() {
    FindRunnable();
    const char* const widest = std::getenv("GRAPH_OPT_INSTRUCTION_SET");
    if (widest != nullptr && *widest != '\0') LimitTo(widest);
    sets[count] = &kBest;
  }

  void FindRunnable() {
    sets[count++] = &portable::kRowKernels;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
    if (has_avx2) sets[count++] = &avx2::kRowKernels;
    if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      sets[count++] = &avx512::kRowKernels;
    }
#endif
  }

  // The machine may not have the set that is named, which is then no limit.
  void LimitTo(const char* widest) {
    int limit = count;
    for (int i = 0; i < count; ++i) {
      if (std::strcmp(sets[i]->name, widest) == 0) limit = i + 1;
    }
    for (int i = limit; i < count; ++i) sets[i] = nullptr;
    count = limit;
    for (const char* name : {"AVX-512", "AVX2", "portable"}) {
      if (std::strcmp(name, widest) == 0) return;
    }
    std::fprintf(stderr,
                 "graph_opt: GRAPH_OPT_INSTRUCTION_SET is '%s'; need AVX-512, AVX2 or portable. "
                 "Using the widest that this machine has.\n",
                 widest);
  }

  const RowKernels* sets[5] = {};
  int count = 0;  // without kBest
};

const Runnable& Found() {
  static const Runnable runnable;
  return runnable;
}

// The widest vectors that rows are made of without a rest: a rest takes masked loads and stores,
// which cost more than narrow vectors do (rows of 8 floats are updated twice as fast by AVX2 as by
// half-masked AVX-512). Other types need conversions that the portable set lacks, and where there
// is a rest, masks of elements smaller than 32 bits, which AVX2 lacks.
const RowKernels& SetFor(int64_t dim, RowType type) {
  const Runnable& found = Found();
  const bool is_float = type == RowType::kFloat;
  const int narrowest = is_float || found.count == 1 ? 0 : 1;
  for (int i = found.count - 1; i >= narrowest; --i) {
    if (dim % found.sets[i]->lanes == 0) return *found.sets[i];
  }
  return *found.sets[is_float && found.count > 1 ? 1 : found.count - 1];
}

void Pool(const PoolBlock& block) { SetFor(block.dim, block.type).pool(block); }

int64_t CopyRows(const SingleRows& block) {
  if (block.type != block.pooled_type) return SetFor(block.dim, block.type).copy_rows(block);
  return SetFor(block.row_bytes / 4, RowType::kFloat).copy_rows(block);
}

void AddToRows(const Occurrences& all, const KeySet& keys, float* sums) {
  SetFor(all.dim, all.type).add_to_rows(all, keys, sums);
}

int64_t SumRuns(const Occurrences& all, const RunSums& sums) {
  return SetFor(all.dim, all.type).sum_runs(all, sums);
}

void UpdateRuns(const Occurrences& all, const UpdateRows& rows) {
  SetFor(all.dim, all.type).update_runs(all, rows);
}

void CatchUpRows(const IdleRows& rows) { SetFor(rows.dim, RowType::kFloat).catch_up_rows(rows); }

// Lines are as wide as the widest vectors.
int64_t SearchKeys(const KeySearch& search) {
  const Runnable& found = Found();
  return found.sets[found.count - 1]->search_keys(search);
}

const RowKernels kBest = {"best",  1,          Pool,        CopyRows,  AddToRows,
                          SumRuns, UpdateRuns, CatchUpRows, SearchKeys};

}  // namespace

const RowKernels& BestRowKernels() { return kBest; }

const RowKernels& RowKernelsFor(int64_t dim, RowType type) { return SetFor(dim, type); }

const RowKernels* const* RunnableRowKernels() { return Found().sets; }

}  // namespace graph_opt
