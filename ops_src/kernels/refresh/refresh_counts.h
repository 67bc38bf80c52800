#ifndef GRAPH_OPT_KERNELS_REFRESH_REFRESH_COUNTS_H_
#define GRAPH_OPT_KERNELS_REFRESH_REFRESH_COUNTS_H_

#include <string>
#include <vector>

#include "kernels/lookup/group_inputs.h"
#include "lookup/refresh_bags.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// What ops that refresh rows tell of it: in their last output, `ids_changed`, of a step, and
// of all steps in the counts by the name of the attribute `refresh_counts`, in the resource manager
// of their device.
class RefreshCounts {
 public:
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx);

  // Tells of a step. `ahead`: for each table, whether its bags were pooled ahead; if none were,
  // `lookups` is not read.
  tensorflow::Status Tell(tensorflow::OpKernelContext* ctx, const GroupAttrs& attrs,
                          const std::vector<bool>& ahead,
                          const std::vector<RefreshedLookup>& lookups) const;

 private:
  std::string name_;  // empty: only the output is written
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_REFRESH_REFRESH_COUNTS_H_
