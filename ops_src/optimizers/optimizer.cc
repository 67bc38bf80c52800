#include "optimizers/optimizer.h"

#include <math.h>

#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "optimizers/all_specs.h"
#include "optimizers/description.h"

#define GRAPH_OPT_EXPORT __attribute__((visibility("default")))

namespace graph_opt {
namespace {

using optimizers::Bound;
using optimizers::RowSum;
using optimizers::SlotCount;
using optimizers::SpecList;

// Lists as JSON. Names have no characters that JSON would escape.
std::string Quoted(const std::string& text) { return "\"" + text + "\""; }

template <typename List, typename Write>
std::string Listed(const List& list, const Write& write) {
  std::ostringstream text;
  const char* before = "";
  for (const auto& item : list) {
    text << before;
    write(item, &text);
    before = ", ";
  }
  return "[" + text.str() + "]";
}

std::string ListedValues(const std::vector<OptimizerDescription::Value>& values, const char* key) {
  return Listed(values, [key](const OptimizerDescription::Value& one, std::ostringstream* text) {
    *text << "{\"name\": " << Quoted(one.name) << ", " << Quoted(key) << ": " << one.value << "}";
  });
}

void Write(const OptimizerDescription& of, std::ostringstream* text) {
  const auto write_op = [](const std::string& drawn, std::ostringstream* to) {
    *to << Quoted(drawn);
  };
  const auto write_flag = [](const OptimizerDescription::FlagDefault& flag,
                             std::ostringstream* to) {
    *to << "{\"name\": " << Quoted(flag.name)
        << ", \"default\": " << (flag.is_set ? "true" : "false") << "}";
  };
  *text << "{\"name\": " << Quoted(of.name) << ", \"stock_ops\": " << Listed(of.stock_ops, write_op)
        << ", \"slots\": " << ListedValues(of.slots, "initial")
        << ", \"hyperparameters\": " << ListedValues(of.hyperparameters, "usual")
        << ", \"flags\": " << Listed(of.flags, write_flag)
        << ", \"moves_every_row\": " << (of.moves_every_row ? "true" : "false")
        << ", \"sums_row\": " << (of.sums_row ? "true" : "false") << "}";
}

// Gives a spec's members their values. What is wrong is left in the text.
class Given {
 public:
  Given(const float* values, int32_t num_values, std::vector<std::string> flags)
      : values_(values), num_values_(num_values), flags_(std::move(flags)) {}

  void Name(const char* name) { name_ = name; }
  void StockOp(const char*) {}
  void Slot(const char*, float) {}
  void Hyperparameter(const char* name, float* member, float usual, Bound bound = Bound::kNone) {
    *member = used_ < num_values_ ? values_[used_] : usual;
    if (beyond_.empty() && !IsWithin(*member, bound)) {
      beyond_ = std::string(name) + " is " + std::to_string(*member) + "; need " + TextOf(bound);
    }
    names_ += (used_ == 0 ? "" : ", ") + std::string(name);
    ++used_;
  }
  void Flag(const char* name, bool* member, bool) {
    *member = false;
    for (std::string& flag : flags_) {
      if (flag != name) continue;
      *member = true;
      flag.clear();
    }
  }
  void MovesEveryRow() {}
  void SumsRow() {}

  const std::string& name() const { return name_; }

  std::string Wrong() const {
    if (used_ != num_values_) {
      return name_ + " has " + std::to_string(used_) + " hyperparameters (" + names_ + "); given " +
             std::to_string(num_values_);
    }
    for (const std::string& flag : flags_) {
      if (!flag.empty()) return name_ + " has no flag '" + flag + "'";
    }
    return beyond_.empty() ? beyond_ : name_ + ": " + beyond_;
  }

 private:
  static bool IsWithin(float value, Bound bound) {
    return bound == Bound::kPositive      ? value > 0
           : bound == Bound::kNotNegative ? value >= 0
           : bound == Bound::kNotPositive ? value <= 0
                                          : true;
  }

  static const char* TextOf(Bound bound) {
    return bound == Bound::kPositive      ? "more than 0"
           : bound == Bound::kNotNegative ? "0 or more"
                                          : "0 or less";
  }

  const float* const values_;
  const int32_t num_values_;
  std::vector<std::string> flags_;
  std::string name_;
  std::string names_;
  std::string beyond_;
  int32_t used_ = 0;
};

// Arithmetic of the formulas in double precision.
struct Doubles {
  typedef double Vector;
  static constexpr bool kOneColumn = false;
  static double SquareRoot(double x) { return sqrt(x); }
  static double ReciprocalRoot(double x) { return 1 / sqrt(x); }
  static double Power(double x, float exponent) { return pow(x, static_cast<double>(exponent)); }
  static double Least(double a, double b) { return b < a ? b : a; }
  static double Greatest(double a, double b) { return a < b ? b : a; }
};

std::string Make(SpecList<>, int32_t, const std::string& name, const Given&, Optimizer*) {
  return "there is no optimizer '" + name + "'";
}

template <typename First, typename... Rest>
std::string Make(SpecList<First, Rest...>, int32_t number, const std::string& name,
                 const Given& given, Optimizer* optimizer) {
  static_assert(std::is_trivially_copyable<First>::value, "a spec is copied as bytes");
  First spec;
  Given own = given;
  spec.Describe(&own);
  if (own.name() != name) return Make(SpecList<Rest...>(), number + 1, name, given, optimizer);
  const std::string wrong = own.Wrong();
  if (!wrong.empty()) return wrong;
  spec.Prepare();
  *optimizer = Optimizer{number, {}};
  memcpy(optimizer->spec, static_cast<const void*>(&spec), sizeof(spec));
  return std::string();
}

struct UpdateInDouble {
  int64_t count;
  const double* gradients;
  double* weights;
  double* const* slots;

  template <typename Spec>
  void operator()(const Spec& given) const {
    constexpr int kSlots = Spec::kSlots;
    Spec spec = given;
    TakeRowSum(&spec, RowSum<Spec::kSumsRow>());
    for (int64_t i = 0; i < count; ++i) {
      double of_weight[kMostSlots] = {};
      ReadSlots(i, kSlots, of_weight);
      optimizers::UpdateColumns<Doubles>(spec, gradients[i], weights + i, of_weight,
                                         SlotCount<kSlots>());
      for (int slot = 0; slot < kSlots; ++slot) slots[slot][i] = of_weight[slot];
    }
  }

 private:
  void ReadSlots(int64_t i, int num_slots, double* of_weight) const {
    for (int slot = 0; slot < num_slots; ++slot) of_weight[slot] = slots[slot][i];
  }

  template <typename Spec>
  void TakeRowSum(Spec*, RowSum<false>) const {}

  template <typename Spec>
  void TakeRowSum(Spec* spec, RowSum<true>) const {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      double of_weight[kMostSlots] = {};
      ReadSlots(i, Spec::kSlots, of_weight);
      sum += optimizers::SummandOf<Doubles>(*spec, gradients[i], weights + i, of_weight,
                                            SlotCount<Spec::kSlots>());
    }
    spec->TakeRowSum(static_cast<float>(sum));
  }
};

}  // namespace
}  // namespace graph_opt

extern "C" {

GRAPH_OPT_EXPORT const char* graph_opt_optimizer_specs(void) {
  static const std::string& text =
      *new std::string(graph_opt::Listed(graph_opt::OptimizerDescriptions(), graph_opt::Write));
  return text.c_str();
}

GRAPH_OPT_EXPORT const char* graph_opt_make_optimizer(const char* name,
                                                      const float* hyperparameters,
                                                      int32_t num_hyperparameters,
                                                      const char* const* flags, int32_t num_flags,
                                                      GraphOptOptimizer* optimizer) {
  thread_local std::string wrong;
  const graph_opt::Given given(hyperparameters, num_hyperparameters,
                               std::vector<std::string>(flags, flags + num_flags));
  wrong = graph_opt::Make(graph_opt::optimizers::AllSpecs(), 0, name, given, optimizer);
  return wrong.empty() ? nullptr : wrong.c_str();
}

GRAPH_OPT_EXPORT int32_t graph_opt_num_slots(const GraphOptOptimizer* optimizer) {
  const auto& all = graph_opt::OptimizerDescriptions();
  const size_t number = static_cast<size_t>(optimizer->number);
  return number < all.size() ? static_cast<int32_t>(all[number].slots.size()) : -1;
}

GRAPH_OPT_EXPORT void graph_opt_update_exactly(const GraphOptOptimizer* optimizer, int64_t count,
                                               const double* gradients, double* weights,
                                               double* const* slots) {
  graph_opt::optimizers::WithSpec(*optimizer,
                                  graph_opt::UpdateInDouble{count, gradients, weights, slots});
}

}  // extern "C"
