#include <memory>

#include "dynamic/table_snapshot.h"
#include "kernels/dynamic/dynamic_keys.h"
#include "kernels/dynamic/dynamic_table_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class RowsSinceKernel : public tensorflow::OpKernel {
 public:
  explicit RowsSinceKernel(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("written", &written_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::shared_ptr<DynamicTable> table;
    OP_REQUIRES_OK(ctx, OpenTable(ctx, 0, &table));
    OP_REQUIRES(ctx, ctx->input(1).NumElements() == 1,
                errors::InvalidArgument(name(), ": time has shape ",
                                        ctx->input(1).shape().DebugString(), "; need a scalar"));
    OP_REQUIRES(ctx, table->notes_times(),
                errors::FailedPrecondition(name(), ": table '", table->options().name,
                                           "' does not note when its rows are read or written"));
    SnapshotPart part;
    part.keys = written_ ? SnapshotPart::kWritten : SnapshotPart::kTouched;
    part.time = *Int64sOf(ctx->input(1));
    const auto snapshot = table->Snapshot(part);
    const int64_t count = snapshot->size();
    tensorflow::Tensor* keys = nullptr;
    tensorflow::Tensor* values = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({count}), &keys));
    OP_REQUIRES_OK(
        ctx, ctx->allocate_output(1, tensorflow::TensorShape({count, table->dim()}), &values));
    TableSnapshot::Block block;
    block.keys = Int64sOf(keys);
    block.weights = values->flat<float>().data();
    snapshot->Read(0, count, block);
  }

 private:
  bool written_ = false;
};

REGISTER_KERNEL_BUILDER(Name("DynamicTableRowsSince").Device(tensorflow::DEVICE_CPU),
                        RowsSinceKernel);

}  // namespace
}  // namespace graph_opt
