#include "deferred/deferred_rows.h"
#include "kernels/apply/optimizer_inputs.h"
#include "kernels/deferred/deferred_step.h"
#include "kernels/deferred/row_states.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/variable_tables.h"
#include "scratch/scratch_pool.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class AverageKernel : public OpKernel {
 public:
  explicit AverageKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int num_shards;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_shards", &num_shards));
    OP_REQUIRES_OK(ctx, optimizer_.ReadSlots(ctx, num_shards));
    OP_REQUIRES(ctx, optimizer_.averaged(),
                errors::InvalidArgument(name(), ": averaged is false; there is no average"));
    OP_REQUIRES_OK(ctx, states_.Read(ctx, num_shards, RowStates::kUpdate));
    OP_REQUIRES(ctx, !states_.empty(),
                errors::InvalidArgument(name(), ": row_states is empty; need one for each shard"));
  }

  void Compute(OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, states_.CatchUpOthers(ctx, optimizer_.slots_of_shard()));
    VariableTables variables;
    OP_REQUIRES_OK(ctx, variables.Open(ctx, 0, optimizer_.num_variables(), optimizer_.purpose()));
    for (int i = 0; i < states_.size(); ++i) {
      const Tensor& table = variables[i];
      OP_REQUIRES(
          ctx, table.dims() == 2 && table.dtype() == tensorflow::DT_FLOAT,
          errors::InvalidArgument(name(), ": table ", i, " has shape ", table.shape().DebugString(),
                                  " and type ", tensorflow::DataTypeString(table.dtype()),
                                  "; need rows of float32"));
    }
    const Tensor& rate = ctx->input(ctx->num_inputs() - 1);
    OP_REQUIRES(ctx, rate.dims() == 0,
                errors::InvalidArgument(name(), ": the rate has shape ", rate.shape().DebugString(),
                                        "; need a scalar"));
    DeviceThreads threads(ctx);
    DeferredStep step;
    OP_REQUIRES_OK(ctx, step.Open(ctx, states_, optimizer_, &variables));
    StepAverages(step.shards(), rate.scalar<float>()(), ctx->step_id(), BestRowKernels(), &threads);
  }

 private:
  OptimizerInputs optimizer_;
  RowStates states_;
  ScratchUser scratch_;
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("GroupEmbeddingAverage"), AverageKernel);
REGISTER_KERNEL_BUILDER(CPU("ResourceGroupEmbeddingAverage"), AverageKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
