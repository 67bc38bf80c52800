#include <numeric>
#include <vector>

#include "exchange/received_gradients.h"
#include "exchange/received_requests.h"
#include "kernels/apply/table_update.h"
#include "kernels/exchange/owner_kernel.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/variable_tables.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class ExchangeApplyKernel : public OwnerKernel<OpKernel> {
 public:
  explicit ExchangeApplyKernel(OpKernelConstruction* ctx) : OwnerKernel(ctx) {
    if (!ctx->status().ok()) return;
    for (int i = 0; i < num_shards(); ++i) {
      OP_REQUIRES(ctx, !IsByKey(i),
                  errors::InvalidArgument(name(), ": table '", table_name(i),
                                          "' goes by key; need tables that go by row"));
    }
    OP_REQUIRES_OK(ctx, update_.Read(ctx, num_shards()));
    first_shards_.resize(num_shards() + 1);
    std::iota(first_shards_.begin(), first_shards_.end(), 0);
  }

  void Compute(OpKernelContext* ctx) override {
    VariableTables variables;
    std::vector<UpdatedTable> tables;
    ReceivedRequests received;
    const Tensor* gradients = nullptr;
    float divisor = 1;
    OP_REQUIRES_OK(ctx, update_.Open(ctx, &variables));
    OP_REQUIRES_OK(ctx, ReadDivisor(ctx, &divisor));
    OP_REQUIRES_OK(ctx, ReadTables(&variables, divisor, &tables));
    const std::vector<ServedShard> shards = Served(variables);
    OP_REQUIRES_OK(ctx, ReadReceived(ctx, shards, &received));
    OP_REQUIRES_OK(ctx, ReadGradients(ctx, shards, received, &gradients));
    std::vector<GradientTable> summed;
    std::vector<PooledGradient> lookups;
    DeviceThreads threads(ctx, BytesOfGradients(shards, received, type()));
    ReceivedGradients rows(shards, received, gradients->tensor_data().data(), type(),
                           BestRowKernels(), &threads);
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), rows.Read(&summed, &lookups)));
    for (PooledGradient& lookup : lookups) lookup.table = served()[lookup.table];
    BagFault fault;
    OP_REQUIRES_OK(ctx, update_.Apply(ctx, first_shards_, lookups, &variables, &tables, &fault));
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), rows.StatusOf(fault)));
  }

 private:
  static Status ReadDivisor(OpKernelContext* ctx, float* divisor) {
    OpInputList given;
    TF_RETURN_IF_ERROR(ctx->input_list("divisor", &given));
    if (given.size() == 0) return Status();
    if (given.size() > 1 || given[0].dims() != 0) {
      return errors::InvalidArgument(ctx->op_kernel().name(), ": divisor has ", given.size(),
                                     " entries, the first of shape ",
                                     given[0].shape().DebugString(), "; need one scalar at most");
    }
    *divisor = given[0].scalar<float>()();
    return Status();
  }

  // One for each shard.
  Status ReadTables(VariableTables* variables, float divisor,
                    std::vector<UpdatedTable>* tables) const {
    for (int i = 0; i < num_shards(); ++i) {
      TF_RETURN_IF_ERROR(CheckShard(*variables, i));
      UpdatedTable table;
      table.shards.resize(1);
      TF_RETURN_IF_ERROR(
          update_.ReadShard(name(), variables, i, table_name(i), width(i), &table.shards.front()));
      table.table.shards = TableShards(Partition::kMod, {variables->memory(i).num_rows});
      table.table.dim = width(i);
      table.divisor = divisor;
      tables->push_back(table);
    }
    return Status();
  }

  std::vector<ServedShard> Served(const VariableTables& variables) const {
    std::vector<ServedShard> shards;
    for (int i : served()) {
      shards.push_back(
          ServedShard{table_name(i), nullptr, variables.memory(i).num_rows, width(i), 0, false});
    }
    return shards;
  }

  TableUpdate update_;
  std::vector<int> first_shards_;  // each is a table of its own
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("ExchangeApply"), ExchangeApplyKernel);
REGISTER_KERNEL_BUILDER(CPU("ResourceExchangeApply"), ExchangeApplyKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
