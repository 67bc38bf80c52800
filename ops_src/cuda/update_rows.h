// Updates of rows by the formulas of ops_src/optimizers.
#ifndef GRAPH_OPT_CUDA_UPDATE_ROWS_H_
#define GRAPH_OPT_CUDA_UPDATE_ROWS_H_

#include "cuda/device_code.h"
#include "cuda/group_embedding_cuda.h"
#include "cuda/sum_rows.h"
#include "optimizers/all_specs.h"

namespace graph_opt {
namespace gpu {

// What formulas compute with: one column of a row.
struct Lanes {
  typedef float Vector;
  static constexpr bool kOneColumn = false;
  GRAPH_OPT_GPU static float SquareRoot(float x) { return sqrtf(x); }
  GRAPH_OPT_GPU static float ReciprocalRoot(float x) { return 1.0f / sqrtf(x); }
  GRAPH_OPT_GPU static float Power(float x, float exponent) { return powf(x, exponent); }
  GRAPH_OPT_GPU static float Least(float a, float b) { return gpu::Least(a, b); }
  GRAPH_OPT_GPU static float Greatest(float a, float b) { return gpu::Greatest(a, b); }
};

// Updates `kColumns` columns of a row of floats, from `at` on.
template <int kColumns, typename Spec>
GRAPH_OPT_GPU void UpdateColumns(const Spec& spec, const GraphOptCudaShard& shard, int64_t at,
                                 const float* gradients) {
  constexpr int kSlots = Spec::kSlots;
  constexpr int kLeast = kSlots == 0 ? 1 : kSlots;
  float weights[kColumns];
  float slots[kLeast][kColumns];
  LoadColumns<float, kColumns>(shard.rows, at, weights);
  GRAPH_OPT_UNROLL
  for (int i = 0; i < kSlots; ++i) LoadColumns<float, kColumns>(shard.slots[i], at, slots[i]);
  GRAPH_OPT_UNROLL
  for (int c = 0; c < kColumns; ++c) {
    float of_weight[kLeast];
    GRAPH_OPT_UNROLL
    for (int i = 0; i < kSlots; ++i) of_weight[i] = slots[i][c];
    optimizers::UpdateColumns<Lanes>(spec, gradients[c], &weights[c], of_weight,
                                     optimizers::SlotCount<kSlots>());
    GRAPH_OPT_UNROLL
    for (int i = 0; i < kSlots; ++i) slots[i][c] = of_weight[i];
  }
  StoreColumns<float, kColumns>(weights, shard.rows, at);
  GRAPH_OPT_UNROLL
  for (int i = 0; i < kSlots; ++i) StoreColumns<float, kColumns>(slots[i], shard.slots[i], at);
}

}  // namespace gpu
}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_UPDATE_ROWS_H_
