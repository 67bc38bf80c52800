// Deferred steps against the same steps in double: never farther from them than TensorFlow's own
// float arithmetic, step by step. Arguments: steps of a training (default 1500), how many of the
// trainings are left out for each one that runs (default 4).
#include <cfloat>

#include "deferred/step_history.h"
#include "deferred_functors_testing.h"

#if defined(__SSE2__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

namespace graph_opt {
namespace {

struct Betas {
  float first;
  float second;
};
constexpr Betas kBetas[] = {{0.9f, 0.999f},  {0.9f, 0.99f}, {0.5f, 0.9f}, {0.0f, 0.999f},
                            {0.99f, 0.999f}, {0.9f, 0.9f},  {0.9f, 0.8f}, {0.3f, 0.0f}};
constexpr float kEpsilons[] = {1e-8f, 1e-3f, 1.0f, 1e-12f};

enum class Rates { kConstant, kDecay, kWarmUp, kOftenZero };
constexpr Rates kRates[] = {Rates::kConstant, Rates::kDecay, Rates::kWarmUp, Rates::kOftenZero};

float RateAt(Rates rates, int64_t step, int64_t num_steps) {
  const double part = static_cast<double>(step) / static_cast<double>(num_steps);
  if (rates == Rates::kDecay) return static_cast<float>(0.05 * std::pow(0.9, 100 * part));
  if (rates == Rates::kWarmUp) return static_cast<float>(1e-8 * std::pow(10, 6 * part));
  if (rates == Rates::kOftenZero) return step / 400 % 2 == 0 ? 0.0f : 0.01f;
  return 0.01f;
}

// Adam at a step, from 0.
Optimizer AdamAt(int64_t step, const Betas& betas, float epsilon, float rate) {
  const auto power = [step](float beta) {
    return static_cast<float>(std::pow(beta, static_cast<double>(step + 1)));
  };
  return MakeOptimizer(
      "Adam", {rate, betas.first, betas.second, epsilon, power(betas.first), power(betas.second)});
}

// A gradient for some rows: row r about every 1, 2, ... 10,000 steps; the last row never.
std::vector<int64_t> SomeRows(Random* random, int64_t rows, int64_t step) {
  std::vector<int64_t> ids;
  for (int64_t row = 0; row < rows - 1; ++row) {
    const double every = std::pow(10, 4.0 * static_cast<double>(row) / static_cast<double>(rows));
    const bool is_first = step == 0 && row % 2 == 0;
    if (is_first || Below(random, static_cast<int64_t>(every) + 1) == 0) ids.push_back(row);
  }
  return ids;
}

std::vector<float> Gradients(Random* random, int64_t count) {
  std::vector<float> gradients(count);
  for (int64_t i = 0; i < count; ++i) {
    gradients[i] = Number(random) * std::pow(10.0f, -static_cast<float>(i % 4) - 2);
  }
  return gradients;
}

// Of the weights of all trainings.
struct Distances {
  Distance deferred;
  Distance stepwise;
};

void TrainsAsStepByStep(const Betas& betas, float epsilon, Rates rates, int64_t num_steps,
                        Distances* all) {
  constexpr int64_t kRows = 24;
  constexpr int64_t kDim = 16;
  Random random(7);
  Sequential sequential;
  Training training(&random, kRows, kDim, {0, 0}, BestRowKernels());
  for (int64_t step = 0; step < num_steps; ++step) {
    const std::vector<int64_t> ids = SomeRows(&random, kRows, step);
    const std::vector<float> gradients =
        Gradients(&random, static_cast<int64_t>(ids.size()) * kDim);
    training.CatchUp(SomeRows(&random, kRows, 1), &sequential);
    training.Step(AdamAt(step, betas, epsilon, RateAt(rates, step, num_steps)), ids, gradients,
                  &sequential, step);
  }
  training.CatchUpAll(&sequential, num_steps);
  for (int which = 0; which < 3; ++which) {
    Distance deferred;
    Distance stepwise;
    for (int64_t row = 0; row < kRows; ++row) {
      deferred.Add(training.Deferred(which, row));
      stepwise.Add(training.Stepwise(which, row));
    }
    if (which == 0) {
      all->deferred.Add(deferred);
      all->stepwise.Add(stepwise);
    }
    // A training has few weights that change often: chance decides which of the two rounds better.
    if (deferred.typical() > 1.6 * stepwise.typical() + 0.2 ||
        deferred.greatest > 3 * stepwise.greatest + 2) {
      std::fprintf(stderr,
                   "betas %g %g, epsilon %g, rates %d, values %d: typical distance %.2f, of float "
                   "step by step %.2f; greatest %.1f, %.1f\n",
                   betas.first, betas.second, epsilon, static_cast<int>(rates), which,
                   deferred.typical(), stepwise.typical(), deferred.greatest, stepwise.greatest);
      std::exit(1);
    }
  }
  for (size_t which = 0; which < 3; ++which) {  // the row that never had a gradient
    for (int64_t i = (kRows - 1) * kDim; i < kRows * kDim; ++i) {
      CHECK(training.deferred()[which][i] == training.stepwise()[which][i]);
    }
  }
}

// One row of weights 0 that missed `age` steps, caught up at once, and the same in double.
struct OneRow {
  OneRow(const Optimizer& first, int64_t dim)
      : values(static_cast<size_t>(1 + graph_opt_num_slots(&first)), std::vector<float>(dim)) {}

  void CatchUp(const PassedSteps& passed, int64_t age, const RowKernels& kernels) {
    std::vector<IdleSpan> spans;
    IdleRow row = {};
    passed.Describe(age, &row, &spans);
    CHECK(row.first_span == 0 && row.num_spans == static_cast<int64_t>(spans.size()));
    IdleRows all = {};
    all.table = values[0].data();
    for (size_t slot = 1; slot < values.size(); ++slot) all.slots[slot - 1] = values[slot].data();
    all.num_slots = passed.rule().num_slots;
    all.dim = static_cast<int64_t>(values[0].size());
    all.moment = passed.rule().moment;
    all.root = passed.rule().root;
    all.are_mixed = passed.rule().mixes;
    all.epsilon = static_cast<float>(passed.rule().epsilon);
    all.num_sums = passed.num_sums();
    all.spans = spans.data();
    all.rows = &row;
    all.count = 1;
    kernels.catch_up_rows(all);
  }

  Values<float> values;
};

Values<double> InDouble(const Values<float>& values) {
  Values<double> doubles;
  for (const std::vector<float>& some : values) doubles.emplace_back(some.begin(), some.end());
  return doubles;
}

void StepInDouble(const Optimizer& optimizer, Values<double>* values) {
  const std::vector<double> none((*values)[0].size(), 0.0);
  double* slots[kMostSlots] = {};
  for (size_t slot = 1; slot < values->size(); ++slot) slots[slot - 1] = (*values)[slot].data();
  graph_opt_update_exactly(&optimizer, static_cast<int64_t>(none.size()), none.data(),
                           (*values)[0].data(), slots);
}

// How far two numbers are apart, as a part of the second.
double Apart(double value, double exact) {
  if (std::fabs(exact) < 1e-30) return std::fabs(value) < 1e-29 ? 0 : 1;
  return std::fabs(value / exact - 1);
}

// With weights of 0, what is compared is the drift itself, not what is left of it in a sum.
void CatchesUpRowsOfAnyAge(const Betas& betas, float epsilon, Rates rates,
                           const RowKernels& kernels, int64_t most_steps) {
  const auto optimizer_at = [&](int64_t step) {
    return AdamAt(step, betas, epsilon, RateAt(rates, step, most_steps));
  };
  Random random(11);
  const int64_t dim = 1 + Below(&random, 40);
  OneRow before(optimizer_at(0), dim);
  for (int64_t i = 0; i < dim; ++i) {
    before.values[1][i] = Number(&random) * 1e-3f;
    before.values[2][i] =
        before.values[1][i] * before.values[1][i] * std::pow(10.0f, static_cast<float>(i % 7) - 1);
  }
  StepHistory history(IdleStepOf(optimizer_at(0)), most_steps, 0xffffff00);
  Values<double> exact = InDouble(before.values);
  int64_t next = 1;
  for (int64_t step = 0; step < most_steps; ++step) {
    const Optimizer optimizer = optimizer_at(step);
    history.Add(IdleStepOf(optimizer));
    StepInDouble(optimizer, &exact);
    if (step + 1 < next && step + 1 < most_steps) continue;
    next += 1 + next / 3;
    OneRow row = before;
    row.CatchUp(*history.passed(), step + 1, kernels);
    for (int64_t i = 0; i < dim; ++i) {
      const bool as_exact = Apart(row.values[0][i], exact[0][i]) < 8 * FLT_EPSILON &&
                            Apart(row.values[1][i], exact[1][i]) < FLT_EPSILON &&
                            Apart(row.values[2][i], exact[2][i]) < FLT_EPSILON;
      if (as_exact) continue;
      std::fprintf(stderr, "betas %g %g, epsilon %g, rates %d, %s, after %d steps: %g, not %g\n",
                   betas.first, betas.second, epsilon, static_cast<int>(rates), kernels.name,
                   static_cast<int>(step + 1), row.values[0][i], exact[0][i]);
      std::exit(1);
    }
  }
}

// One step in double, of column i.
void StepByRule(const IdleStep& step, size_t i, Values<double>* values) {
  for (int slot = 0; slot < step.num_slots; ++slot) (*values)[slot + 1][i] *= step.decays[slot];
  double& weight = (*values)[0][i];
  weight *= step.kept;
  if (step.moment < 0) return;
  const double root = step.root < 0 ? 1 : std::sqrt((*values)[step.root + 1][i]) + step.epsilon;
  weight -= step.rate * (*values)[step.moment + 1][i] / root;
}

// Rules of all forms: weights that decay, moments that are not divided by a root, and none at all.
void RulesOfAllForms(const RowKernels& kernels) {
  for (int form = 0; form < 6; ++form) {
    IdleStep step;
    step.num_slots = 2;
    step.decays[0] = 0.8;
    step.decays[1] = 0.97;
    step.changes = true;
    step.keeps = form % 2 == 0;
    step.moment = form < 4 ? 1 : -1;  // not in the usual places
    step.root = form < 2 ? 0 : -1;
    step.epsilon = 0.01;
    Random random(form);
    OneRow before(AdamAt(0, kBetas[0], 1, 1), 19);
    for (std::vector<float>& values : before.values) {
      for (float& value : values) value = std::fabs(Number(&random)) + 0.01f;
    }
    Values<double> exact = InDouble(before.values);
    StepHistory history(step, 4096, 5);
    for (int age = 1; age < 3000; ++age) {
      step.kept = step.keeps ? 1 - 1e-5 * static_cast<double>(age % 1000) : 1;
      step.rate = 0.01 + 1e-3 * static_cast<double>(age % 7);
      history.Add(step);
      for (size_t i = 0; i < 19; ++i) StepByRule(step, i, &exact);
      if (age % 97 != 0 && age > 10) continue;
      OneRow row = before;
      row.CatchUp(*history.passed(), age, kernels);
      for (size_t i = 0; i < 19; ++i) {
        const double unit = FLT_EPSILON * (std::fabs(before.values[0][i]) + std::fabs(exact[0][i]));
        CHECK(std::fabs(row.values[0][i] - exact[0][i]) < 8 * unit);
        CHECK(Apart(row.values[1][i], exact[1][i]) < FLT_EPSILON);
        CHECK(Apart(row.values[2][i], exact[2][i]) < FLT_EPSILON);
      }
    }
  }
}

// Weights and a slot that depend on each other, as with momentum and a penalty on all weights.
void MixedStepsOfAnyAge(const RowKernels& kernels) {
  Random random(17);
  Values<float> before(2, std::vector<float>(19));
  for (std::vector<float>& values : before) {
    for (float& value : values) value = Number(&random);
  }
  Values<double> exact = InDouble(before);
  IdleStep step;
  step.num_slots = 1;
  step.changes = true;
  step.mixes = true;
  StepHistory history(step, 8192, 0xfffffff0);
  for (int age = 1; age < 6000; ++age) {
    const double rate = age % 11 == 0 ? 0 : 0.001 * static_cast<double>(1 + age % 7);
    step.mixing = {0.9, 0.05, -0.9 * rate, 1 - 0.05 * rate};
    history.Add(step);
    for (size_t i = 0; i < 19; ++i) {
      const double slot = exact[1][i];
      exact[1][i] = 0.9 * slot + 0.05 * exact[0][i];
      exact[0][i] += rate * (-0.9 * slot - 0.05 * exact[0][i]);
    }
    if (age % 97 != 0 && age > 10) continue;
    OneRow row(AdamAt(0, kBetas[0], 1, 1), 19);
    row.values = before;
    row.CatchUp(*history.passed(), age, kernels);
    for (size_t which = 0; which < 2; ++which) {
      for (size_t i = 0; i < 19; ++i) {
        const double sizes = std::fabs(before[0][i]) + std::fabs(before[1][i]);
        const double unit = FLT_EPSILON * (sizes + std::fabs(exact[which][i]));
        CHECK(std::fabs(row.values[which][i] - exact[which][i]) < 2 * unit);
      }
    }
  }
}

// What moves a row that has no gradient. The decay of this one is for rows that have one.
Optimizer WithoutGradient(const UsualOptimizer& usual) {
  if (usual.text != "DecayingAdam") return usual.optimizer;
  for (const UsualOptimizer& other : UsualOptimizers()) {
    if (other.text == "Adam") return other.optimizer;
  }
  std::exit(1);
}

// Whatever spec: what it says of idle steps is what its formula does without a gradient.
void IdleStepsAreUpdatesWithoutGradient(const RowKernels& kernels) {
  int found = 0;
  for (const UsualOptimizer& usual : UsualOptimizers()) {
    if (!CheckDeferrable(usual.optimizer).ok()) continue;
    ++found;
    OneRow row(usual.optimizer, 21);
    Random random(3);
    for (std::vector<float>& values : row.values) {
      for (float& value : values) value = std::fabs(Number(&random)) + 0.1f;
    }
    // A mean of squares is no less than the square of the mean, and AMSGrad's last is the greatest.
    for (size_t which = 1; which < row.values.size(); which += 2) {
      for (float& value : row.values[which]) value += 20;
    }
    StepHistory history(IdleStepOf(usual.optimizer), 1024, 0);
    const Values<float> before = row.values;
    Values<double> exact = InDouble(row.values);
    for (int step = 0; step < 3; ++step) {
      history.Add(IdleStepOf(usual.optimizer));
      StepInDouble(WithoutGradient(usual), &exact);
    }
    row.CatchUp(*history.passed(), 3, kernels);
    for (size_t which = 0; which < exact.size(); ++which) {
      for (size_t i = 0; i < exact[which].size(); ++i) {
        const double moved = std::fabs(exact[which][i] - before[which][i]);
        const double unit = FLT_EPSILON * (std::fabs(before[which][i]) + moved);
        if (std::fabs(row.values[which][i] - exact[which][i]) < 2 * unit) continue;
        std::fprintf(stderr, "%s, values %d: %g, not %g\n", usual.text.c_str(),
                     static_cast<int>(which), row.values[which][i], exact[which][i]);
        std::exit(1);
      }
    }
  }
  CHECK(found >= 1);
}

}  // namespace
}  // namespace graph_opt

int main(int argc, char** argv) {
  using namespace graph_opt;
#if defined(__SSE2__)  // as threads of TensorFlow's kernels do
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
#endif
  const int64_t num_steps = argc > 1 ? std::atoi(argv[1]) : 1500;
  const int left_out = argc > 2 ? std::atoi(argv[2]) : 4;  // trainings after each one
  const int first = argc > 3 ? std::atoi(argv[3]) : 0;
  int number = 0;
  Distances all;
  for (const RowKernels* const* set = RunnableRowKernels(); *set != nullptr; ++set) {
    IdleStepsAreUpdatesWithoutGradient(**set);
    RulesOfAllForms(**set);
    MixedStepsOfAnyAge(**set);
  }
  for (const Betas& betas : kBetas) {
    for (float epsilon : kEpsilons) {
      for (Rates rates : kRates) {
        if (number++ % (left_out + 1) != first) continue;
        for (const RowKernels* const* set = RunnableRowKernels(); *set != nullptr; ++set) {
          CatchesUpRowsOfAnyAge(betas, epsilon, rates, **set, 10 * num_steps);
        }
        TrainsAsStepByStep(betas, epsilon, rates, num_steps, &all);
      }
    }
  }
  std::printf("deferred: typical distance %.2f, greatest %.1f; in float step by step: %.2f, %.1f\n",
              all.deferred.typical(), all.deferred.greatest, all.stepwise.typical(),
              all.stepwise.greatest);
  CHECK(all.deferred.typical() < all.stepwise.typical());
  return 0;
}
