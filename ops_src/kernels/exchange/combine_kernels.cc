#include <vector>

#include "exchange/sent_row_gradients.h"
#include "kernels/exchange/receiver_kernel.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/tensorflow_compat.h"
#include "lookup/group_gradient.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class ExchangeCombineKernel : public ReceiverKernel {
 public:
  using ReceiverKernel::ReceiverKernel;

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    PackedShards shards;
    std::vector<SentRows> sent;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadShards(ctx, inputs, &shards));
    OP_REQUIRES_OK(ctx, ReadSent(ctx, ctx->input(0), &sent));
    OP_REQUIRES_OK(ctx, Combine(ctx, inputs, shards, sent));
  }
};

class ExchangeCombineGradKernel : public ReceiverKernel {
 public:
  explicit ExchangeCombineGradKernel(OpKernelConstruction* ctx) : ReceiverKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("has_gradient", &has_gradient_));
    const size_t lookups = attrs_.num_lookups();
    if (has_gradient_.empty()) has_gradient_.assign(lookups, true);
    OP_REQUIRES(
        ctx, has_gradient_.size() == lookups,
        errors::InvalidArgument(name(), ": has_gradient has ", has_gradient_.size(),
                                " entries, need one for each of the ", lookups, " lookups"));
  }

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    PackedShards shards;
    std::vector<PooledGradient> lookups;
    std::vector<int64_t> elements;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadShards(ctx, inputs, &shards));
    OP_REQUIRES_OK(ctx, ReadNumbered(ctx, inputs, shards, &lookups));
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), ElementsSent(shards, num_servers(), &elements)));
    int64_t size = 0;
    for (int64_t count : elements) size += count;
    Tensor* gradients = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({size}), &gradients));
    int64_t costs = 0;
    for (const PooledGradient& lookup : lookups) {
      costs +=
          BytesOfGradients(lookup.bags.num_ids, RowBytesOf(type(), shards.widths[lookup.table]));
    }
    DeviceThreads threads(ctx, costs);
    OP_REQUIRES_OK(
        ctx, StatusOfOp(name(),
                        GradientsOfSentRows(shards, num_servers(), attrs_.table_names, lookups,
                                            has_gradient_, type(), BestRowKernels(), &threads,
                                            const_cast<char*>(gradients->tensor_data().data()))));
  }

 private:
  std::vector<bool> has_gradient_;
};

class ExchangeCombineWeightsGradKernel : public ReceiverKernel {
 public:
  using ReceiverKernel::ReceiverKernel;

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    PackedShards shards;
    std::vector<SentRows> sent;
    std::vector<PooledGradient> pooled;
    std::vector<Table> tables;
    OpInputList weights;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadShards(ctx, inputs, &shards));
    OP_REQUIRES_OK(ctx, ReadSent(ctx, ctx->input(0), &sent));
    OP_REQUIRES_OK(ctx, ReadNumbered(ctx, inputs, shards, &pooled));
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), PackedTables(shards, sent, type(), &tables)));
    OP_REQUIRES_OK(ctx, ctx->input_list("weights", &weights));
    std::vector<WeightGradient> lookups;
    std::vector<int> places;  // among all lookups
    for (int i = 0; i < attrs_.num_lookups(); ++i) {
      if (!attrs_.weighted[i]) continue;
      const int table = attrs_.lookup_tables[i];
      OP_REQUIRES(ctx, !IsPooled(shards, table),
                  errors::InvalidArgument(
                      name(), ": the owner of table '", attrs_.table_names[table],
                      "' has pooled weighted bags, so that their weights have no gradient; need "
                      "pool_on_server 'never'"));
      const int output = static_cast<int>(lookups.size());
      Tensor* gradient = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(output, weights[output].shape(), &gradient));
      WeightGradient lookup;
      lookup.bags = pooled[i].bags;
      lookup.bags.filled_id = -1;  // no weight was given for it
      lookup.table = table;
      lookup.gradients = pooled[i].gradients;
      lookup.stride = pooled[i].stride;
      lookup.weight_gradients = gradient->flat<float>().data();
      lookups.push_back(lookup);
      places.push_back(i);
    }
    DeviceThreads threads(ctx, BytesOf(RowsOf(tables, lookups)));
    BagFault fault = GroupWeightGradient(tables, lookups, &threads);
    if (fault.kind == BagFault::kNone) return;
    fault.lookup = places[fault.lookup];
    ctx->SetStatus(FaultOf(fault, tables));
  }
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("ExchangeCombine"), ExchangeCombineKernel);
REGISTER_KERNEL_BUILDER(CPU("ExchangeCombineGrad"), ExchangeCombineGradKernel);
REGISTER_KERNEL_BUILDER(CPU("ExchangeCombineWeightsGrad"), ExchangeCombineWeightsGradKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
