// An optimizer's rule for one number of a row: those of rows/update_rules.h, in the same order of
// operations.
#ifndef GRAPH_OPT_CUDA_UPDATE_RULES_H_
#define GRAPH_OPT_CUDA_UPDATE_RULES_H_

#include "cuda/device_code.h"
#include "cuda/group_embedding_cuda.h"

namespace graph_opt {
namespace gpu {

// How many slots a rule has, or -1 for a number that is no rule.
GRAPH_OPT_GPU_AND_HOST int SlotsOf(int32_t rule) {
  switch (rule) {
    case GRAPH_OPT_CUDA_GRADIENT_DESCENT:
      return 0;
    case GRAPH_OPT_CUDA_MOMENTUM:
    case GRAPH_OPT_CUDA_NESTEROV:
    case GRAPH_OPT_CUDA_ADAGRAD:
      return 1;
    case GRAPH_OPT_CUDA_FTRL:
    case GRAPH_OPT_CUDA_ADAM:
      return 2;
  }
  return -1;
}

GRAPH_OPT_GPU float Power(float x, float exponent) {
  return exponent == 0.5f ? sqrtf(x) : powf(x, exponent);
}

GRAPH_OPT_GPU void UpdateFtrl(const GraphOptCudaNumbers& n, float g, float* w, float* accumulator,
                              float* linear) {
  const float rate = n.learning_rate;
  const float shrunk = n.l2_shrinkage == 0 ? g : g + 2.0f * n.l2_shrinkage * *w;
  const float grown = *accumulator + g * g;
  const float new_power = Power(grown, -n.learning_rate_power);
  const float change = new_power - Power(*accumulator, -n.learning_rate_power);
  const float l2 = 2.0f * n.l2;
  float quadratic;
  float l1;
  if (n.multiply_linear_by_lr) {
    *linear += shrunk * rate - change * *w;
    quadratic = new_power + l2 * rate;
    l1 = n.l1 * rate;
  } else {
    *linear += shrunk - change / rate * *w;
    quadratic = new_power / rate + l2;
    l1 = n.l1;
  }
  *w = (Greatest(Least(*linear, l1), -l1) - *linear) / quadratic;
  *accumulator = grown;
}

// w is the weight, a and b the slots, g the gradient.
GRAPH_OPT_GPU void UpdateOne(const GraphOptCudaNumbers& n, float g, float* w, float* a, float* b) {
  const float rate = n.learning_rate;
  switch (n.rule) {
    case GRAPH_OPT_CUDA_GRADIENT_DESCENT:
      *w -= g * rate;
      return;
    case GRAPH_OPT_CUDA_MOMENTUM:
      *a = *a * n.momentum + g;
      *w -= rate * *a;
      return;
    case GRAPH_OPT_CUDA_NESTEROV:
      *a = *a * n.momentum + g;
      *w -= rate * g + rate * n.momentum * *a;
      return;
    case GRAPH_OPT_CUDA_ADAGRAD:
      if (n.update_slots) *a += g * g;
      *w -= rate * g / (sqrtf(*a) + n.epsilon);
      return;
    case GRAPH_OPT_CUDA_FTRL:
      return UpdateFtrl(n, g, w, a, b);
    case GRAPH_OPT_CUDA_ADAM:
      *a = *a * n.beta1 + g * (1.0f - n.beta1);
      *b = *b * n.beta2 + g * g * (1.0f - n.beta2);
      *w -= rate * *a / (sqrtf(*b) + n.epsilon);
      return;
  }
}

}  // namespace gpu
}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_UPDATE_RULES_H_
