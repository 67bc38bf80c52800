#include "optimizers/idle_step.h"

#include <algorithm>

#include "optimizers/all_specs.h"

namespace graph_opt {
namespace {

// Takes what a spec tells.
class IdleDescriber {
 public:
  explicit IdleDescriber(IdleStep* step) : step_(step) {}

  void Decays(int slot, double factor) {
    step_->decays[slot] = factor;
    step_->changes = true;
  }
  void Keeps(double factor) {
    step_->kept = factor;
    step_->keeps = true;
    step_->changes = true;
  }
  void Mixes(double slot_from_slot, double slot_from_weights, double weights_from_slot,
             double weights_from_weights) {
    step_->mixing = {slot_from_slot, slot_from_weights, weights_from_slot, weights_from_weights};
    step_->mixes = true;
    step_->changes = true;
  }
  void Moves(double rate, int moment) {
    step_->rate = rate;
    step_->moment = moment;
    step_->changes = true;
  }
  void Moves(double rate, int moment, int root, double epsilon) {
    Moves(rate, moment);
    step_->root = root;
    step_->epsilon = epsilon;
  }

 private:
  IdleStep* const step_;
};

struct DescribeIdle {
  IdleStep* step;

  template <typename Spec>
  void operator()(const Spec& spec) const {
    step->num_slots = Spec::kSlots;
    IdleDescriber describer(step);
    spec.Idle(&describer);
  }
};

}  // namespace

Mixing Mixing::After(const Mixing& earlier) const {
  Mixing both;
  both.slot_from_slot =
      slot_from_slot * earlier.slot_from_slot + slot_from_weights * earlier.weights_from_slot;
  both.slot_from_weights =
      slot_from_slot * earlier.slot_from_weights + slot_from_weights * earlier.weights_from_weights;
  both.weights_from_slot =
      weights_from_slot * earlier.slot_from_slot + weights_from_weights * earlier.weights_from_slot;
  both.weights_from_weights = weights_from_slot * earlier.slot_from_weights +
                              weights_from_weights * earlier.weights_from_weights;
  return both;
}

bool IdleStep::HasRuleOf(const IdleStep& other) const {
  return num_slots == other.num_slots && moment == other.moment && root == other.root &&
         epsilon == other.epsilon && keeps == other.keeps && mixes == other.mixes &&
         changes == other.changes && std::equal(decays, decays + kMostSlots, other.decays);
}

IdleStep IdleStepOf(const Optimizer& optimizer) {
  IdleStep step;
  optimizers::WithSpec(optimizer, DescribeIdle{&step});
  return step;
}

}  // namespace graph_opt
