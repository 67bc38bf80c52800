#ifndef GRAPH_OPT_KERNELS_DYNAMIC_TABLE_KERNEL_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_TABLE_KERNEL_H_

#include <memory>

#include "kernels/dynamic/dynamic_table_resource.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// An op on one dynamic table, whose handle is its first input.
class TableKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) final {
    std::shared_ptr<DynamicTable> table;
    OP_REQUIRES_OK(ctx, OpenTable(ctx, 0, &table));
    OP_REQUIRES_OK(ctx, Run(ctx, table.get()));
  }

 private:
  virtual tensorflow::Status Run(tensorflow::OpKernelContext* ctx, DynamicTable* table) = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_TABLE_KERNEL_H_
