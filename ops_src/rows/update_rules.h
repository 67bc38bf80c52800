// An optimizer's rule for one row; part of row_kernels_compiled.h. Numbers are those of
// TensorFlow's sparse apply ops (tensorflow/core/kernels/training_ops.cc), in the same order of
// operations.
#ifndef GRAPH_OPT_ROWS_UPDATE_RULES_H_
#define GRAPH_OPT_ROWS_UPDATE_RULES_H_

#include "rows/row_kernels.h"
#include "rows/run_sums.h"
#include "rows/vector_lanes.h"

namespace graph_opt {
namespace GRAPH_OPT_SET {

inline Floats Power(Floats x, float exponent) {
  if (exponent == 0.5f) return SquareRoot(x);
  for (int i = 0; i < kLanes; ++i) x[i] = powf(x[i], exponent);
  return x;
}

// Some columns of a row: w the weights, a and b the slots, g the gradient.
template <UpdateRule kRule>
struct Rule;

template <>
struct Rule<UpdateRule::kGradientDescent> {
  static constexpr int kSlots = 0;
  static inline void Apply(const UpdateNumbers& n, Floats g, Floats* w, Floats*, Floats*) {
    *w -= g * Broadcast(n.learning_rate);
  }
};

template <>
struct Rule<UpdateRule::kMomentum> {
  static constexpr int kSlots = 1;
  static inline void Apply(const UpdateNumbers& n, Floats g, Floats* w, Floats* a, Floats*) {
    *a = *a * Broadcast(n.momentum) + g;
    *w -= Broadcast(n.learning_rate) * *a;
  }
};

template <>
struct Rule<UpdateRule::kNesterov> {
  static constexpr int kSlots = 1;
  static inline void Apply(const UpdateNumbers& n, Floats g, Floats* w, Floats* a, Floats*) {
    const Floats rate = Broadcast(n.learning_rate);
    *a = *a * Broadcast(n.momentum) + g;
    *w -= rate * g + rate * Broadcast(n.momentum) * *a;
  }
};

template <>
struct Rule<UpdateRule::kAdagrad> {
  static constexpr int kSlots = 1;
  static inline void Apply(const UpdateNumbers& n, Floats g, Floats* w, Floats* a, Floats*) {
    if (n.update_slots) *a += g * g;
    *w -= Broadcast(n.learning_rate) * g / (SquareRoot(*a) + Broadcast(n.epsilon));
  }
};

template <>
struct Rule<UpdateRule::kFtrl> {
  static constexpr int kSlots = 2;
  static inline void Apply(const UpdateNumbers& n, Floats g, Floats* w, Floats* accumulator,
                           Floats* linear) {
    const Floats rate = Broadcast(n.learning_rate);
    const Floats shrunk =
        n.l2_shrinkage == 0 ? g : g + Broadcast(2.0f) * Broadcast(n.l2_shrinkage) * *w;
    const Floats grown = *accumulator + g * g;
    const Floats new_power = Power(grown, -n.learning_rate_power);
    const Floats change = new_power - Power(*accumulator, -n.learning_rate_power);
    const Floats l2 = Broadcast(2.0f * n.l2);
    Floats quadratic;
    Floats l1;
    if (n.multiply_linear_by_lr) {
      *linear += shrunk * rate - change * *w;
      quadratic = new_power + l2 * rate;
      l1 = Broadcast(n.l1) * rate;
    } else {
      *linear += shrunk - change / rate * *w;
      quadratic = new_power / rate + l2;
      l1 = Broadcast(n.l1);
    }
    *w = (Greatest(Least(*linear, l1), -l1) - *linear) / quadratic;
    *accumulator = grown;
  }
};

template <>
struct Rule<UpdateRule::kAdam> {
  static constexpr int kSlots = 2;
  static inline void Apply(const UpdateNumbers& n, Floats g, Floats* w, Floats* m, Floats* v) {
    *m = *m * Broadcast(n.beta1) + g * Broadcast(1.0f - n.beta1);
    *v = *v * Broadcast(n.beta2) + g * g * Broadcast(1.0f - n.beta2);
    *w -= Broadcast(n.learning_rate) * *m / (SquareRoot(*v) + Broadcast(n.epsilon));
  }
};

inline Floats LoadPart(const float* from, int some) {
  return some == 0 ? Load(from) : LoadSome(from, some);
}

inline void StorePart(Floats lanes, float* to, int some) {
  if (some == 0) return Store(lanes, to);
  StoreSome(lanes, to, some);
}

// Where a row and its slots lie.
struct RowPlace {
  float* w;
  float* a;
  float* b;

  inline RowPlace(const UpdateRows& rows, int64_t offset)
      : w(rows.table + offset),
        a(rows.slots[0] == nullptr ? nullptr : rows.slots[0] + offset),
        b(rows.slots[1] == nullptr ? nullptr : rows.slots[1] + offset) {}
};

template <UpdateRule kRule>
inline void UpdateColumns(const UpdateNumbers& numbers, Floats g, const RowPlace& row, int64_t at,
                          int some) {
  constexpr int kSlots = Rule<kRule>::kSlots;
  Floats w = LoadPart(row.w + at, some);
  Floats a = kSlots > 0 ? LoadPart(row.a + at, some) : Floats{};
  Floats b = kSlots > 1 ? LoadPart(row.b + at, some) : Floats{};
  Rule<kRule>::Apply(numbers, g, &w, &a, &b);
  StorePart(w, row.w + at, some);
  if (kSlots > 0) StorePart(a, row.a + at, some);
  if (kSlots > 1) StorePart(b, row.b + at, some);
}

template <UpdateRule kRule>
inline void UpdateByRule(const Occurrences& all, const UpdateRows& rows) {
  const int64_t row_bytes = all.dim * 4;
  ForEachRun<float>(
      all,
      [&](const auto& run, uint64_t key) {
        const RowPlace row(rows, static_cast<int64_t>(key - rows.first_key) * all.dim);
        int64_t at = 0;
        for (; at + kLanes <= all.dim; at += kLanes) {
          UpdateColumns<kRule>(rows.numbers, run.Sum(at, 0), row, at, 0);
        }
        if (at == all.dim) return;
        const int some = static_cast<int>(all.dim - at);
        UpdateColumns<kRule>(rows.numbers, run.Sum(at, some), row, at, some);
      },
      [&](uint64_t key) {
        const RowPlace row(rows, static_cast<int64_t>(key - rows.first_key) * all.dim);
        FetchRow(row.w, row_bytes);
        if (Rule<kRule>::kSlots > 0) FetchRow(row.a, row_bytes);
        if (Rule<kRule>::kSlots > 1) FetchRow(row.b, row_bytes);
      });
}

void UpdateRuns(const Occurrences& all, const UpdateRows& rows) {
  switch (rows.rule) {
    case UpdateRule::kGradientDescent:
      return UpdateByRule<UpdateRule::kGradientDescent>(all, rows);
    case UpdateRule::kMomentum:
      return UpdateByRule<UpdateRule::kMomentum>(all, rows);
    case UpdateRule::kNesterov:
      return UpdateByRule<UpdateRule::kNesterov>(all, rows);
    case UpdateRule::kAdagrad:
      return UpdateByRule<UpdateRule::kAdagrad>(all, rows);
    case UpdateRule::kFtrl:
      return UpdateByRule<UpdateRule::kFtrl>(all, rows);
    case UpdateRule::kAdam:
      return UpdateByRule<UpdateRule::kAdam>(all, rows);
  }
}

}  // namespace GRAPH_OPT_SET
}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_UPDATE_RULES_H_
