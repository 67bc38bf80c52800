// Shared by the tests of deferred rows: the same training three times over, with steps without
// gradient deferred, in float step by step as TensorFlow does them, and in double.
#ifndef GRAPH_OPT_TESTS_DEFERRED_FUNCTORS_TESTING_H_
#define GRAPH_OPT_TESTS_DEFERRED_FUNCTORS_TESTING_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "deferred/deferred_lookup.h"
#include "deferred/deferred_rows.h"
#include "group_functors_testing.h"
#include "optimizers/description.h"
#include "optimizers/optimizer.h"

namespace graph_opt {

inline Optimizer MakeOptimizer(const char* name, const std::vector<float>& hyperparameters) {
  Optimizer optimizer;
  const char* const wrong = graph_opt_make_optimizer(name, hyperparameters.data(),
                                                     static_cast<int32_t>(hyperparameters.size()),
                                                     nullptr, 0, &optimizer);
  if (wrong != nullptr) std::fprintf(stderr, "%s\n", wrong);
  CHECK(wrong == nullptr);
  return optimizer;
}

// A table's weights, then its slots, each [rows, dim].
template <typename T>
using Values = std::vector<std::vector<T>>;

// How far values are from the exact ones, in units of the last place: a weight's unit is that of
// the greatest value that it had, since it is the sum of all steps.
struct Distance {
  double greatest = 0;
  double squares = 0;
  int64_t count = 0;

  void Add(float value, double exact, double greatest_exact) {
    const float magnitude = std::max(static_cast<float>(greatest_exact), 1e-30f);
    const double unit = std::nextafterf(magnitude, INFINITY) - magnitude;
    const double apart = std::fabs(value - exact) / unit;
    greatest = std::max(greatest, apart);
    squares += apart * apart;
    ++count;
  }
  void Add(const Distance& other) {
    greatest = std::max(greatest, other.greatest);
    squares += other.squares;
    count += other.count;
  }
  double typical() const { return std::sqrt(squares / std::max<int64_t>(count, 1)); }
};

class Training {
 public:
  Training(Random* random, int64_t rows, int64_t dim, const std::vector<float>& initial_slots,
           const RowKernels& kernels)
      : rows_(rows), dim_(dim), kernels_(kernels), state_(rows, 0x3ffffff0) {  // soon wraps
    std::vector<float> weights(rows * dim);
    for (float& weight : weights) weight = Number(random) / 64;
    stepwise_.push_back(weights);
    for (float initial : initial_slots) stepwise_.emplace_back(rows * dim, initial);
    deferred_ = stepwise_;
    for (const std::vector<float>& values : stepwise_) {
      exact_.emplace_back(values.begin(), values.end());
    }
    greatest_ = exact_;
    NoteGreatest();
  }

  // One step: gradients [ids, dim] of some rows, each once.
  void Step(const Optimizer& optimizer, const std::vector<int64_t>& ids,
            const std::vector<float>& gradients, Parallel* parallel, int64_t run = 0) {
    std::vector<int64_t> all(rows_);
    std::vector<float> dense(rows_ * dim_, 0.0f);
    for (int64_t row = 0; row < rows_; ++row) all[row] = row;
    for (size_t i = 0; i < ids.size(); ++i) {
      std::copy_n(gradients.begin() + i * dim_, dim_, dense.begin() + ids[i] * dim_);
    }
    Apply(optimizer, all, dense, nullptr, &stepwise_, parallel);
    const std::vector<double> in_double(dense.begin(), dense.end());
    double* slots[kMostSlots] = {};
    for (size_t slot = 1; slot < exact_.size(); ++slot) slots[slot - 1] = exact_[slot].data();
    graph_opt_update_exactly(&optimizer, rows_ * dim_, in_double.data(), exact_[0].data(), slots);
    NoteGreatest();
    DeferredUpdate update(optimizer, {Place()}, run, kernels_, parallel);
    Apply(optimizer, ids, gradients, &state_, &deferred_, parallel);
  }

  // Keeps an average of the weights over time from now on, which begins with their values.
  void KeepAverage() {
    average_.deferred = deferred_[0];
    average_.stepwise = stepwise_[0];
    average_.exact = exact_[0];
  }

  // One step of the average.
  void StepAverage(float rate, Parallel* parallel, int64_t run = 0) {
    for (size_t i = 0; i < average_.exact.size(); ++i) {
      average_.stepwise[i] -= (average_.stepwise[i] - stepwise_[0][i]) * rate;
      average_.exact[i] -= (average_.exact[i] - exact_[0][i]) * rate;
    }
    StepAverages({Place()}, rate, run, kernels_, parallel);
  }

  // As a lookup does.
  void CatchUp(const std::vector<int64_t>& ids, Parallel* parallel,
               DeferredNeeds needs = DeferredNeeds::kAll) {
    DeferredTable table;
    table.needs = needs;
    table.partition = TableShards(Partition::kMod, {rows_});
    table.shards.push_back(Place());
    DeferredLookup lookup = {};
    lookup.bags.ids = ids.data();
    lookup.bags.num_ids = static_cast<int64_t>(ids.size());
    graph_opt::CatchUp({table}, {lookup}, kernels_, parallel);
  }

  void CatchUpAll(Parallel* parallel, int64_t run = 0) {
    graph_opt::CatchUpAll({Place()}, run, kernels_, parallel);
  }

  // Sets a row everywhere.
  void Assign(int values, int64_t row, float value) {
    std::fill_n(deferred_[values].begin() + row * dim_, dim_, value);
    std::fill_n(stepwise_[values].begin() + row * dim_, dim_, value);
    std::fill_n(exact_[values].begin() + row * dim_, dim_, value);
  }

  // How many steps a row has missed.
  int64_t Age(int64_t row) { return state_.stamps()->Of(row).Age(state_.passed()->step()); }

  Distance Deferred(int values, int64_t row) const { return Of(deferred_, values, row); }
  Distance Stepwise(int values, int64_t row) const { return Of(stepwise_, values, row); }

  Distance DeferredAverage(int64_t row) const { return OfAverage(average_.deferred, row); }
  Distance StepwiseAverage(int64_t row) const { return OfAverage(average_.stepwise, row); }
  bool IsResting(int64_t row) { return state_.stamps()->Of(row).is_resting(); }

  const std::vector<float>& average() const { return average_.deferred; }
  const Values<float>& deferred() const { return deferred_; }
  const Values<float>& stepwise() const { return stepwise_; }

 private:
  DeferredShard Place() {
    DeferredShard place;
    place.rows = &state_;
    place.table = deferred_[0].data();
    place.dim = dim_;
    if (!average_.deferred.empty()) place.average = average_.deferred.data();
    for (size_t slot = 1; slot < deferred_.size(); ++slot) {
      place.slots[slot - 1] = deferred_[slot].data();
    }
    return place;
  }

  void Apply(const Optimizer& optimizer, const std::vector<int64_t>& ids,
             const std::vector<float>& gradients, DeferredRows* state, Values<float>* values,
             Parallel* parallel) {
    UpdatedTable table;
    table.table.shards = TableShards(Partition::kMod, {rows_});
    table.table.dim = dim_;
    UpdatedTable::Shard shard = {(*values)[0].data(), {}, state};
    for (size_t slot = 1; slot < values->size(); ++slot) {
      shard.slots[slot - 1] = (*values)[slot].data();
    }
    table.shards.push_back(shard);
    PooledGradient lookup = {};
    lookup.bags.ids = ids.data();
    lookup.bags.num_ids = lookup.bags.num_bags = static_cast<int64_t>(ids.size());
    lookup.bags.combiner = Combiner::kSum;
    lookup.gradients = gradients.data();
    lookup.stride = dim_;
    CHECK(GroupApply(optimizer, {table}, {lookup}, kernels_, parallel).kind == BagFault::kNone);
  }

  void NoteGreatest() {
    for (size_t which = 0; which < exact_.size(); ++which) {
      for (size_t i = 0; i < exact_[which].size(); ++i) {
        greatest_[which][i] = std::max(std::fabs(greatest_[which][i]), std::fabs(exact_[which][i]));
      }
    }
  }

  Distance Of(const Values<float>& values, int which, int64_t row) const {
    const std::vector<double>& unit_of = which < 2 ? greatest_[which] : exact_[which];
    Distance distance;
    for (int64_t i = row * dim_; i < (row + 1) * dim_; ++i) {
      distance.Add(values[which][i], exact_[which][i], std::fabs(unit_of[i]));
    }
    return distance;
  }

  Distance OfAverage(const std::vector<float>& values, int64_t row) const {
    Distance distance;
    for (int64_t i = row * dim_; i < (row + 1) * dim_; ++i) {
      distance.Add(values[i], average_.exact[i], greatest_[0][i]);
    }
    return distance;
  }

  struct Average {
    std::vector<float> deferred;
    std::vector<float> stepwise;
    std::vector<double> exact;
  };

  const int64_t rows_;
  const int64_t dim_;
  const RowKernels& kernels_;
  DeferredRows state_;
  Values<float> deferred_;
  Values<float> stepwise_;
  Average average_;
  Values<double> exact_;
  Values<double> greatest_;  // absolute values so far
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_TESTS_DEFERRED_FUNCTORS_TESTING_H_
