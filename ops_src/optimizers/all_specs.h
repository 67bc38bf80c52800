// All optimizers. New ones are added at the end: their places are the numbers of optimizers.
#ifndef GRAPH_OPT_OPTIMIZERS_ALL_SPECS_H_
#define GRAPH_OPT_OPTIMIZERS_ALL_SPECS_H_

#include <string.h>

#include "optimizers/adadelta.h"
#include "optimizers/adagrad.h"
#include "optimizers/adagrad_decay.h"
#include "optimizers/adam.h"
#include "optimizers/adam_w.h"
#include "optimizers/adamax.h"
#include "optimizers/ftrl.h"
#include "optimizers/gradient_descent.h"
#include "optimizers/momentum.h"
#include "optimizers/optimizer.h"
#include "optimizers/proximal.h"
#include "optimizers/rms_prop.h"

namespace graph_opt {
namespace optimizers {

template <typename... Specs>
struct SpecList {};

typedef SpecList<GradientDescent, Momentum, Adagrad, Ftrl, Adam, RMSProp, CenteredRMSProp, Adadelta,
                 ProximalAdagrad, ProximalGradientDescent, KerasMomentum, Adamax, DenseMomentum,
                 DenseKerasMomentum, GradientDescentL2, AdamW, KerasRMSProp, DenseMomentumL2,
                 DenseKerasMomentumL2, AMSGrad, AdagradDecay, LazyAdamW, GroupLassoFtrl,
                 KerasCenteredRMSProp, DecayingAdam>
    AllSpecs;

template <typename Call>
bool WithSpecAt(int32_t, const Optimizer&, SpecList<>, Call&&) {
  return false;
}

template <typename Call, typename First, typename... Rest>
bool WithSpecAt(int32_t number, const Optimizer& optimizer, SpecList<First, Rest...>, Call&& call) {
  static_assert(sizeof(First) <= sizeof(optimizer.spec), "Optimizer::spec is too small");
  static_assert(First::kSlots <= kMostSlots, "GRAPH_OPT_MOST_SLOTS is too small");
  if (number != 0) return WithSpecAt(number - 1, optimizer, SpecList<Rest...>(), call);
  First spec;
  memcpy(static_cast<void*>(&spec), optimizer.spec, sizeof(spec));
  call(spec);
  return true;
}

// Calls call(spec) with the optimizer's spec, its members set; false where there is none. `Call`
// must be a type of the caller's own, so that each caller has this compiled for itself.
template <typename Call>
bool WithSpec(const Optimizer& optimizer, Call&& call) {
  return WithSpecAt(optimizer.number, optimizer, AllSpecs(), call);
}

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_ALL_SPECS_H_
