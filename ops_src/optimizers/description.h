#ifndef GRAPH_OPT_OPTIMIZERS_DESCRIPTION_H_
#define GRAPH_OPT_OPTIMIZERS_DESCRIPTION_H_

#include <string>
#include <vector>

#include "optimizers/optimizer.h"

namespace graph_opt {

// What a spec says of its optimizer (spec.h).
struct OptimizerDescription {
  struct Value {
    std::string name;
    float value;  // of a slot before training; the usual one of a hyperparameter
  };
  struct FlagDefault {
    std::string name;
    bool is_set;
  };

  std::string name;
  std::vector<std::string> stock_ops;
  std::vector<Value> slots;
  std::vector<Value> hyperparameters;
  std::vector<FlagDefault> flags;
  bool moves_every_row = false;
  bool sums_row = false;
};

// All, in the order of all_specs.h.
const std::vector<OptimizerDescription>& OptimizerDescriptions();

// For checks: an optimizer with its usual hyperparameters, and what it is, for people.
struct UsualOptimizer {
  std::string text;
  Optimizer optimizer;
  std::vector<float> initial_slots;
};

// Each optimizer without flags, and with each of its flags.
std::vector<UsualOptimizer> UsualOptimizers();

// Of these, those that GPUs have: formulas that take each column by itself.
std::vector<UsualOptimizer> UsualOptimizersOfGpus();

}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_DESCRIPTION_H_
