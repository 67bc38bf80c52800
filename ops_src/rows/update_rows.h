// Updates of rows by the formulas of ops_src/optimizers; part of row_kernels_compiled.h.
#ifndef GRAPH_OPT_ROWS_UPDATE_ROWS_H_
#define GRAPH_OPT_ROWS_UPDATE_ROWS_H_

#include "optimizers/all_specs.h"
#include "rows/row_kernels.h"
#include "rows/run_sums.h"
#include "rows/vector_lanes.h"

namespace graph_opt {
namespace GRAPH_OPT_SET {

// TensorFlow's kernels take so many columns of a row at once, and those that are left over one by
// one, with other roots.
constexpr int kColumnsAtOnce = 8;
constexpr int kLanesAtOnce = kLanes < kColumnsAtOnce ? kLanes : kColumnsAtOnce;

// What formulas compute with. The first kAtOnce lanes are columns that TensorFlow takes at once.
template <int kAtOnce, bool kIsOneColumn>
struct Lanes {
  typedef Floats Vector;
  static constexpr bool kOneColumn = kIsOneColumn;
  static inline Floats SquareRoot(Floats x) { return GRAPH_OPT_SET::SquareRoot(x); }
  static inline Floats ReciprocalRoot(Floats x) {
    if (kAtOnce == kLanes) return RefinedReciprocalRoot(x);
    const Floats alone = 1.0f / GRAPH_OPT_SET::SquareRoot(x);
    if (kAtOnce == 0) return alone;
    Words at_once{};
    for (int i = 0; i < kAtOnce; ++i) at_once[i] = ~uint32_t{0};
    return Choose(at_once, RefinedReciprocalRoot(x), alone);
  }
  static __attribute__((noinline)) Floats Power(Floats x, float exponent) {
    for (int i = 0; i < (kOneColumn ? 1 : kLanes); ++i) x[i] = powf(x[i], exponent);
    return x;
  }
  static inline Floats Least(Floats a, Floats b) { return GRAPH_OPT_SET::Least(a, b); }
  static inline Floats Greatest(Floats a, Floats b) { return GRAPH_OPT_SET::Greatest(a, b); }
};

// Whether a formula is told how TensorFlow takes the columns that it updates.
template <bool kTells>
struct ColumnsToldTo {};

// Where a row and its slots lie.
template <int kSlots>
struct RowPlace {
  float* weights;
  float* slots[kSlots == 0 ? 1 : kSlots];

  inline RowPlace(const UpdateRows& rows, int64_t offset) : weights(rows.table + offset) {
    for (int slot = 0; slot < kSlots; ++slot) slots[slot] = rows.slots[slot] + offset;
  }
};

// Some columns of a row.
template <typename Lanes, typename Spec, typename Row>
inline GRAPH_OPT_INLINED void UpdateColumnsBy(const Spec& spec, Floats gradient, const Row& row,
                                              int64_t at, int some) {
  constexpr int kSlots = Spec::kSlots;
  Floats weights = LoadPart(row.weights + at, some);
  Floats slots[kSlots == 0 ? 1 : kSlots];
  for (int slot = 0; slot < kSlots; ++slot) slots[slot] = LoadPart(row.slots[slot] + at, some);
  optimizers::UpdateColumns<Lanes>(spec, gradient, &weights, slots,
                                   optimizers::SlotCount<kSlots>());
  StorePart(weights, row.weights + at, some);
  for (int slot = 0; slot < kSlots; ++slot) StorePart(slots[slot], row.slots[slot] + at, some);
}

// The same by a formula to which it does not matter how TensorFlow takes the columns.
template <typename Spec, typename Row>
inline GRAPH_OPT_INLINED void UpdateColumns(const Spec& spec, Floats gradient, const Row& row,
                                            int64_t at, int some, int64_t, ColumnsToldTo<false>) {
  UpdateColumnsBy<Lanes<kLanes, false>>(spec, gradient, row, at, some);
}

template <typename Spec, typename Row>
inline GRAPH_OPT_INLINED void UpdateColumns(const Spec& spec, Floats gradient, const Row& row,
                                            int64_t at, int some, int64_t dim,
                                            ColumnsToldTo<true>) {
  const int64_t at_once = dim / kColumnsAtOnce * kColumnsAtOnce - at;
  if (at_once >= kLanes) {
    UpdateColumnsBy<Lanes<kLanes, false>>(spec, gradient, row, at, some);
  } else if (at_once == kColumnsAtOnce) {  // of vectors that are wider
    UpdateColumnsBy<Lanes<kLanesAtOnce, false>>(spec, gradient, row, at, some);
  } else if (dim > 1) {
    UpdateColumnsBy<Lanes<0, false>>(spec, gradient, row, at, some);
  } else {
    UpdateColumnsBy<Lanes<0, true>>(spec, gradient, row, at, some);
  }
}

// A row's spec, which may need a sum over the row first.
template <typename Spec, bool kSumsRow>
struct OfRow {
  const Spec& spec;

  template <typename Run, typename Row>
  inline OfRow(const Spec& given, const Run&, const Row&, int64_t) : spec(given) {}
};

template <typename Spec>
struct OfRow<Spec, true> {
  Spec spec;

  template <typename Run, typename Row>
  inline OfRow(const Spec& given, const Run& run, const Row& row, int64_t dim) : spec(given) {
    Floats sums{};
    int64_t at = 0;
    for (; at + kLanes <= dim; at += kLanes) sums += Summand(run, row, at, 0);
    // Columns beyond the row are 0, and so are their summands.
    if (at < dim) sums += Summand(run, row, at, static_cast<int>(dim - at));
    float sum = 0;
    for (int i = 0; i < kLanes; ++i) sum += sums[i];
    spec.TakeRowSum(sum);
  }

 private:
  template <typename Run, typename Row>
  inline Floats Summand(const Run& run, const Row& row, int64_t at, int some) const {
    constexpr int kSlots = Spec::kSlots;
    const Floats weights = LoadPart(row.weights + at, some);
    Floats slots[kSlots];
    for (int slot = 0; slot < kSlots; ++slot) slots[slot] = LoadPart(row.slots[slot] + at, some);
    return optimizers::SummandOf<Lanes<kLanes, false>>(spec, run.Sum(at, some), &weights, slots,
                                                       optimizers::SlotCount<kSlots>());
  }
};

struct UpdateBySpec {
  const Occurrences& all;
  const UpdateRows& rows;

  template <typename Spec>
  inline void operator()(const Spec& given) const {
    const Spec spec = given;  // of its own, which no write to a table could change
    typedef RowPlace<Spec::kSlots> Row;
    typedef ColumnsToldTo<Spec::kTellsColumns> Told;
    const UpdateRows& places = rows;
    const int64_t dim = all.dim;
    const int64_t stride = rows.stride;
    ForEachRun<float>(
        all,
        [&](const auto& run, uint64_t key) GRAPH_OPT_INLINED {
          const Row row(places, static_cast<int64_t>(key - places.first_key) * stride);
          const OfRow<Spec, Spec::kSumsRow> of(spec, run, row, dim);
          int64_t at = 0;
          for (; at + kLanes <= dim; at += kLanes) {
            UpdateColumns(of.spec, run.Sum(at, 0), row, at, 0, dim, Told());
          }
          if (at == dim) return;
          const int some = static_cast<int>(dim - at);
          UpdateColumns(of.spec, run.Sum(at, some), row, at, some, dim, Told());
        },
        [&](uint64_t key) GRAPH_OPT_INLINED {
          const Row row(places, static_cast<int64_t>(key - places.first_key) * stride);
          FetchRow(row.weights, dim * 4);
          for (int slot = 0; slot < Spec::kSlots; ++slot) FetchRow(row.slots[slot], dim * 4);
        });
  }
};

void UpdateRuns(const Occurrences& all, const UpdateRows& rows) {
  optimizers::WithSpec(rows.optimizer, UpdateBySpec{all, rows});
}

}  // namespace GRAPH_OPT_SET
}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_UPDATE_ROWS_H_
