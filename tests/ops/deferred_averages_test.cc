// Averages of weights over time, whose steps are deferred, against all their steps in double.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "deferred_functors_testing.h"

namespace graph_opt {
namespace {

constexpr int64_t kRows = 60;
constexpr int64_t kDim = 11;

struct Trained {
  const char* name;
  std::vector<float> initial_slots;
  std::function<Optimizer(int64_t)> at;
};

float Power(float beta, int64_t step) {
  return static_cast<float>(std::pow(beta, static_cast<double>(step + 1)));
}

Optimizer AdamAt(int64_t step) {
  const float rate = 0.01f / static_cast<float>(1 + step / 100);
  return MakeOptimizer("Adam", {rate, 0.9f, 0.999f, 1e-7f, Power(0.9f, step), Power(0.999f, step)});
}

// Some that move all rows, divided by a root or not, or shrink them, and one that moves some only.
std::vector<Trained> AllTrained() {
  std::vector<Trained> all;
  all.push_back({"Adam", {0, 0}, AdamAt});
  all.push_back({"Adam with short memory", {0, 0}, [](int64_t step) {
                   return MakeOptimizer(
                       "Adam", {0.01f, 0.8f, 0.9f, 1e-3f, Power(0.8f, step), Power(0.9f, step)});
                 }});
  all.push_back({"AdamW", {0, 0}, [](int64_t step) {
                   const float rate = 0.01f * static_cast<float>(step % 5);
                   return MakeOptimizer("AdamW", {rate, 0.9f, 0.1f, 0.999f, 0.001f, 1e-6f, 0.05f});
                 }});
  all.push_back({"DenseMomentum", {0}, [](int64_t) {
                   return MakeOptimizer("DenseMomentum", {0.01f, 0.9f});
                 }});
  all.push_back({"GradientDescentL2", {}, [](int64_t) {
                   return MakeOptimizer("GradientDescentL2", {0.01f, 0.02f});
                 }});
  all.push_back({"Adagrad", {0.1f}, [](int64_t) { return MakeOptimizer("Adagrad", {0.05f, 0}); }});
  return all;
}

enum class Pattern { kAfterEach, kEveryThird, kBeforeEach, kManyAtOnce, kAtRandom, kCount };

int AveragesAfter(Pattern pattern, int64_t step, Random* random) {
  switch (pattern) {
    case Pattern::kEveryThird:
      return step % 3 == 0;
    case Pattern::kManyAtOnce:
      return step % 50 == 0 ? 70 : 0;
    case Pattern::kAtRandom:
      return static_cast<int>(Below(random, 4));
    default:
      return 1;
  }
}

// As num_updates makes it, now and then with a decay of 1 or 0.
float RateAt(int64_t step, Random* random) {
  if (Below(random, 200) == 0) return static_cast<float>(Below(random, 2));
  const float updates = static_cast<float>(step);
  return 1.0f - std::min(0.99f, (1.0f + updates) / (10.0f + updates));
}

// Some rows: the first ones often, the last ones never.
std::vector<int64_t> SomeRows(Random* random) {
  std::vector<int64_t> ids;
  for (int64_t row = 0; row < kRows - 5; ++row) {
    if (Below(random, 2 + row * row) == 0) ids.push_back(row);
  }
  return ids;
}

void Compare(const char* what, int pattern, const Training& training) {
  Distance deferred;
  Distance stepwise;
  for (int64_t row = 0; row < kRows; ++row) {
    deferred.Add(training.DeferredAverage(row));
    stepwise.Add(training.StepwiseAverage(row));
  }
  if (deferred.typical() < 1.3 * stepwise.typical() + 0.7 &&
      deferred.greatest < 2 * stepwise.greatest + 6) {
    return;
  }
  std::fprintf(stderr,
               "%s, pattern %d: typical distance %.2f, step by step %.2f; greatest %.1f, "
               "%.1f\n",
               what, pattern, deferred.typical(), stepwise.typical(), deferred.greatest,
               stepwise.greatest);
  std::exit(1);
}

void AveragesAreThoseOfAllSteps(const Trained& trained, Pattern pattern, int64_t steps) {
  Random random(17 + static_cast<int>(pattern));
  Threads threads(pattern == Pattern::kAtRandom ? 2 : 1);
  Training training(&random, kRows, kDim, trained.initial_slots, BestRowKernels());
  training.KeepAverage();
  const auto average = [&](int64_t step) {
    const int count = AveragesAfter(pattern, step, &random);
    for (int i = 0; i < count; ++i) training.StepAverage(RateAt(step, &random), &threads, step);
  };
  for (int64_t step = 0; step < steps; ++step) {
    if (pattern == Pattern::kBeforeEach) average(step);
    const std::vector<int64_t> ids = SomeRows(&random);
    std::vector<float> gradients(ids.size() * kDim);
    for (float& gradient : gradients) gradient = Number(&random);
    const DeferredNeeds needs = step % 2 == 0 ? DeferredNeeds::kWeights : DeferredNeeds::kAll;
    training.CatchUp(ids, &threads, needs);
    training.Step(trained.at(step), ids, gradients, &threads, step);
    if (pattern != Pattern::kBeforeEach) average(step);
    if (step % 400 == 399) {
      training.CatchUpAll(&threads, step);
      Compare(trained.name, static_cast<int>(pattern), training);
    }
  }
  training.CatchUpAll(&threads);
  Compare(trained.name, static_cast<int>(pattern), training);
  const std::vector<float> settled = training.average();
  training.CatchUpAll(&threads);
  CHECK(training.average() == settled);
}

// Who reads weights does not care about averages, and who updates weights catches them up.
void WeightsNeedNoAverages() {
  Random random(3);
  Sequential sequential;
  Training training(&random, kRows, kDim, {0, 0}, BestRowKernels());
  training.KeepAverage();
  training.Step(AdamAt(0), {0, 1, 2}, std::vector<float>(3 * kDim, 1.0f), &sequential);
  const std::vector<float> before = training.average();
  training.StepAverage(0.25f, &sequential);
  training.CatchUp({0}, &sequential, DeferredNeeds::kWeights);
  CHECK(training.average() == before && training.Age(0) == 1);
  training.CatchUp({1}, &sequential);
  CHECK(training.average()[0] == before[0] && training.average()[kDim] != before[kDim]);
  training.Step(AdamAt(1), {2}, std::vector<float>(kDim, 1.0f), &sequential);
  CHECK(training.average()[2 * kDim] != before[2 * kDim]);
  training.CatchUpAll(&sequential);
  Compare("three rows", 0, training);
}

// Rows without moments whose average is their weights cost nothing, unless weights shrink.
void UntouchedRowsRest() {
  for (const Trained& trained : {AllTrained().front(), AllTrained().back()}) {
    Random random(4);
    Sequential sequential;
    Training training(&random, kRows, kDim, trained.initial_slots, BestRowKernels());
    training.KeepAverage();
    for (int64_t step = 0; step < 20; ++step) {
      training.Step(trained.at(step), {0}, std::vector<float>(kDim, 1.0f), &sequential, step);
      training.StepAverage(0.1f, &sequential, step);
      training.CatchUp({0, 5}, &sequential);
      CHECK(training.IsResting(5) && !training.IsResting(0));
    }
    // Assigned weights end that.
    training.CatchUpAll(&sequential);
    training.Assign(0, 5, 0.75f);
    for (int64_t step = 20; step < 30; ++step) {
      training.Step(trained.at(step), {0}, std::vector<float>(kDim, 1.0f), &sequential, step);
      training.StepAverage(0.1f, &sequential, step);
    }
    training.CatchUpAll(&sequential);
    Compare(trained.name, -1, training);
  }
}

// Whatever a script sets as the decay is done, and a run with a dense reader ends settled.
void OddRatesAreDoneAtOnce() {
  Random random(5);
  Threads threads(2);
  Training training(&random, kRows, kDim, {0, 0}, BestRowKernels());
  training.KeepAverage();
  for (int64_t step = 0; step < 30; ++step) {
    training.Step(AdamAt(step), {step % 4}, std::vector<float>(kDim, 1.0f), &threads, step);
    if (step % 7 == 6) training.CatchUpAll(&threads, step);
    training.StepAverage(step % 5 == 4 ? -0.01f : 0.1f, &threads, step);
    if (step % 7 == 6 || step % 5 == 4) Compare("odd rates", static_cast<int>(step), training);
  }
}

}  // namespace
}  // namespace graph_opt

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 1500;
  using graph_opt::Pattern;
  for (const graph_opt::Trained& trained : graph_opt::AllTrained()) {
    for (int pattern = 0; pattern < static_cast<int>(Pattern::kCount); ++pattern) {
      graph_opt::AveragesAreThoseOfAllSteps(trained, static_cast<Pattern>(pattern), steps);
    }
  }
  graph_opt::WeightsNeedNoAverages();
  graph_opt::UntouchedRowsRest();
  graph_opt::OddRatesAreDoneAtOnce();
  return 0;
}
