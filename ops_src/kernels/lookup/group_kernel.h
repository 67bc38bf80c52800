#ifndef GRAPH_OPT_KERNELS_LOOKUP_GROUP_KERNEL_H_
#define GRAPH_OPT_KERNELS_LOOKUP_GROUP_KERNEL_H_

#include "kernels/kernel_names.h"
#include "kernels/lookup/group_attributes.h"
#include "kernels/tensorflow_compat.h"
#include "scratch/scratch_pool.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// A kernel of a group of lookups on CPUs.
class GroupKernel : public OpKernel {
 public:
  explicit GroupKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), attrs_.Read(ctx)));
  }

 protected:
  GroupAttrs attrs_;

 private:
  ScratchUser scratch_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_LOOKUP_GROUP_KERNEL_H_
