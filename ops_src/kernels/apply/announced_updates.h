#ifndef GRAPH_OPT_KERNELS_APPLY_ANNOUNCED_UPDATES_H_
#define GRAPH_OPT_KERNELS_APPLY_ANNOUNCED_UPDATES_H_

#include <vector>

#include "kernels/lookup/group_inputs.h"
#include "kernels/lookup/variable_tables.h"
#include "lookup/group_gradient.h"
#include "lookup/parallel.h"

namespace graph_opt {

// Tells the dynamic tables among the variables which of their rows an update is about to change.
void AnnounceUpdates(const VariableTables& variables, const GroupAttrs& attrs,
                     const std::vector<PooledGradient>& lookups, Parallel* parallel);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_APPLY_ANNOUNCED_UPDATES_H_
