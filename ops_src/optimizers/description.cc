#include "optimizers/description.h"

#include <cstdlib>

#include "optimizers/all_specs.h"

namespace graph_opt {
namespace {

using optimizers::SpecList;

class Describer {
 public:
  explicit Describer(OptimizerDescription* of) : of_(of) {}

  void Name(const char* name) { of_->name = name; }
  void StockOp(const char* drawn) { of_->stock_ops.push_back(drawn); }
  void Slot(const char* name, float initial) { of_->slots.push_back({name, initial}); }
  void Hyperparameter(const char* name, float*, float usual,
                      optimizers::Bound = optimizers::Bound::kNone) {
    of_->hyperparameters.push_back({name, usual});
  }
  void Flag(const char* name, bool* member, bool by_default) {
    *member = by_default;
    of_->flags.push_back({name, by_default});
  }
  void MovesEveryRow() { of_->moves_every_row = true; }
  void SumsRow() { of_->sums_row = true; }

 private:
  OptimizerDescription* const of_;
};

void DescribeAll(SpecList<>, std::vector<OptimizerDescription>*) {}

template <typename First, typename... Rest>
void DescribeAll(SpecList<First, Rest...>, std::vector<OptimizerDescription>* all) {
  First spec;
  OptimizerDescription of;
  Describer describer(&of);
  spec.Describe(&describer);
  if (of.slots.size() != First::kSlots) std::abort();  // kSlots is wrong
  if (of.sums_row != First::kSumsRow) std::abort();
  all->push_back(of);
  DescribeAll(SpecList<Rest...>(), all);
}

UsualOptimizer UsualOf(const OptimizerDescription& of, const std::string& flag) {
  UsualOptimizer usual;
  usual.text = of.name + (flag.empty() ? "" : ", " + flag);
  for (const OptimizerDescription::Value& slot : of.slots) {
    usual.initial_slots.push_back(slot.value);
  }
  std::vector<float> values;
  for (const OptimizerDescription::Value& one : of.hyperparameters) values.push_back(one.value);
  const char* const set = flag.c_str();
  graph_opt_make_optimizer(of.name.c_str(), values.data(), static_cast<int32_t>(values.size()),
                           &set, flag.empty() ? 0 : 1, &usual.optimizer);
  return usual;
}

}  // namespace

const std::vector<OptimizerDescription>& OptimizerDescriptions() {
  static const std::vector<OptimizerDescription>& all = *[] {
    auto* const described = new std::vector<OptimizerDescription>;
    DescribeAll(optimizers::AllSpecs(), described);
    return described;
  }();
  return all;
}

namespace {

std::vector<UsualOptimizer> UsualOptimizersThat(bool may_sum_rows) {
  std::vector<UsualOptimizer> all;
  for (const OptimizerDescription& of : OptimizerDescriptions()) {
    if (of.sums_row && !may_sum_rows) continue;
    all.push_back(UsualOf(of, ""));
    for (const OptimizerDescription::FlagDefault& flag : of.flags) {
      all.push_back(UsualOf(of, flag.name));
    }
  }
  return all;
}

}  // namespace

std::vector<UsualOptimizer> UsualOptimizers() { return UsualOptimizersThat(true); }

std::vector<UsualOptimizer> UsualOptimizersOfGpus() { return UsualOptimizersThat(false); }

}  // namespace graph_opt
