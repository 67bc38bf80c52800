/* An optimizer and its hyperparameters, as kernels take them. Plain C.
 *
 * What an optimizer is stands in its spec, one file each in this folder (spec.h says how). Specs
 * are asked and optimizers made by name, so that whoever calls needs no list of them.
 */
#ifndef GRAPH_OPT_OPTIMIZERS_OPTIMIZER_H_
#define GRAPH_OPT_OPTIMIZERS_OPTIMIZER_H_

#include <stdint.h>

#define GRAPH_OPT_MOST_SLOTS 3

#ifdef __cplusplus
extern "C" {
#endif

/* Made by graph_opt_make_optimizer. */
typedef struct {
  int32_t number;    /* of its spec, in the order of all_specs.h */
  uint32_t spec[12]; /* the spec's members, prepared for kernels */
} GraphOptOptimizer;

/* All specs as JSON, in their order:
 *
 *   [{"name": "Momentum",
 *     "stock_ops": ["SparseApplyMomentum(table, momentums, ...)"],
 *     "slots": [{"name": "momentums", "initial": 0}],
 *     "hyperparameters": [{"name": "learning_rate", "usual": 0.125}, ...],
 *     "flags": [{"name": "use_nesterov", "default": false}],
 *     "moves_every_row": false, "sums_row": false}, ...] */
const char* graph_opt_optimizer_specs(void);

/* Makes an optimizer of its name, the values of its hyperparameters in the spec's order, and the
 * names of the flags that are set. Returns null, or what is wrong, which is free to be read until
 * the thread's next call. */
const char* graph_opt_make_optimizer(const char* name, const float* hyperparameters,
                                     int32_t num_hyperparameters, const char* const* flags,
                                     int32_t num_flags, GraphOptOptimizer* optimizer);

/* How many slots it has; -1 for what was not made by graph_opt_make_optimizer. */
int32_t graph_opt_num_slots(const GraphOptOptimizer* optimizer);

/* The formula in double precision: updates `count` weights and their slots by their gradients.
 * Those of an optimizer that sums rows are one row. Checks compare kernels with it. */
void graph_opt_update_exactly(const GraphOptOptimizer* optimizer, int64_t count,
                              const double* gradients, double* weights, double* const* slots);

#ifdef __cplusplus
}

namespace graph_opt {
constexpr int kMostSlots = GRAPH_OPT_MOST_SLOTS;
typedef GraphOptOptimizer Optimizer;
}  // namespace graph_opt
#endif

#endif /* GRAPH_OPT_OPTIMIZERS_OPTIMIZER_H_ */
