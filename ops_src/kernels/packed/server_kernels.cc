#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/apply/optimizer_inputs.h"
#include "kernels/deferred/deferred_step.h"
#include "kernels/deferred/row_states.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/group_inputs.h"
#include "kernels/lookup/variable_tables.h"
#include "kernels/packed/found_keys.h"
#include "kernels/packed/served_shards.h"
#include "kernels/packed/served_shards_kernel.h"
#include "kernels/tensorflow_compat.h"
#include "packed/row_request.h"
#include "packed/row_update.h"
#include "pages/moving_tables.h"
#include "scratch/scratch_array.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

constexpr int64_t kReadMeanwhile = 8;  // bytes of rows, while one of an update is taken apart

Status CheckVector(const std::string& op, const char* input, const Tensor& tensor) {
  if (tensor.dims() == 1) return Status();
  return errors::InvalidArgument(op, ": ", input, " has shape ", tensor.shape().DebugString(),
                                 "; need a vector");
}

class GroupGatherKernel : public ServedShardsKernel<OpKernel> {
 public:
  explicit GroupGatherKernel(OpKernelConstruction* ctx) : ServedShardsKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(ctx, RowTypeOf(dtype_, &type_));
  }

  void Compute(OpKernelContext* ctx) override {
    VariableTables tensors;
    OP_REQUIRES_OK(ctx, tensors.Open(ctx, 0, num_shards(), VariableTables::kRead));
    ServedShards served;
    for (int i = 0; i < num_shards(); ++i) {
      OP_REQUIRES_OK(ctx, CheckShard(tensors, i, dtype_));
      served.Add(tensors, i, table_name(i));
    }
    const std::vector<ServedShard>& shards = served.shards();
    const Tensor& request = ctx->input(num_shards());
    OP_REQUIRES_OK(ctx, CheckVector(name(), "request", request));
    std::vector<std::vector<RequestedRows>> requests(1);
    std::vector<RequestedRows>& requested = requests[0];
    OP_REQUIRES_OK(ctx,
                   StatusOfOp(name(), ReadRequest(reinterpret_cast<const int64_t*>(
                                                      request.flat<tensorflow::int64>().data()),
                                                  request.NumElements(), shards, &requested)));
    DeviceThreads threads(ctx, served.BytesOf(tensors, requests));
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), served.FindRows(tensors, &requests, &threads)));
    int64_t size = 0;
    for (int i = 0; i < num_shards(); ++i) size += requested[i].count * shards[i].dim;
    Tensor* rows = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({size}), &rows));
    OP_REQUIRES_OK(
        ctx, StatusOfOp(name(), GatherRows(shards, requested, type_, BestRowKernels(), &threads,
                                           const_cast<char*>(rows->tensor_data().data()))));
  }

 private:
  DataType dtype_ = tensorflow::DT_FLOAT;
  RowType type_ = RowType::kFloat;
};

class GroupApplyPackedKernel : public ServedShardsKernel<OpKernel> {
 public:
  explicit GroupApplyPackedKernel(OpKernelConstruction* ctx) : ServedShardsKernel(ctx) {
    OP_REQUIRES_OK(ctx, optimizer_.Read(ctx, num_shards()));
    OP_REQUIRES(ctx, num_outputs() <= 1,
                errors::InvalidArgument(name(), ": num_answers is ", num_outputs(),
                                        "; an update has one answer or none"));
    OP_REQUIRES_OK(ctx, states_.Read(ctx, num_shards(), RowStates::kUpdate));
    if (states_.empty()) return;
    OP_REQUIRES_OK(ctx, optimizer_.RequireShared(name()));
    OP_REQUIRES_OK(ctx, CheckDeferred(name(), optimizer_.usual(), optimizer_.averaged()));
  }

  void Compute(OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, states_.CatchUpOthers(ctx, optimizer_.slots_of_shard()));
    VariableTables variables;
    OP_REQUIRES_OK(ctx, optimizer_.Open(ctx, &variables));
    variables.MoveToLargePages(&moving_);
    std::vector<UpdatedShard> shards(num_shards());
    for (int i = 0; i < num_shards(); ++i) {
      OP_REQUIRES_OK(ctx, CheckShard(variables, i, tensorflow::DT_FLOAT));
      const TableMemory memory = variables.memory(i);
      shards[i].table = table_name(i);
      shards[i].by_key = variables.dynamic_table(i) != nullptr;
      shards[i].rows = reinterpret_cast<float*>(memory.data);
      shards[i].num_rows = memory.num_rows;
      shards[i].dim = memory.dim;
      shards[i].stride = memory.stride / static_cast<int64_t>(sizeof(float));
      shards[i].first_row = memory.first_row;
      OP_REQUIRES(ctx, !shards[i].by_key || states_.empty(),
                  errors::InvalidArgument(name(), ": table '", table_name(i),
                                          "' is dynamic; updates of such tables are not deferred"));
      OP_REQUIRES_OK(ctx,
                     optimizer_.SlotsOf(name(), &variables, i, table_name(i), shards[i].slots));
    }
    Optimizer optimizer;
    std::vector<Optimizer> of_shards;
    OP_REQUIRES_OK(ctx, optimizer_.ReadHyperparameters(ctx, &optimizer, &of_shards));
    for (size_t i = 0; i < of_shards.size(); ++i) shards[i].optimizer = &of_shards[i];
    const Tensor& update = ctx->input(ctx->num_inputs() - 1);
    OP_REQUIRES_OK(ctx, CheckVector(name(), "update", update));
    ScratchArray<char> aligned;
    char* const bytes = AlignedBytes(update, &aligned);
    DeviceThreads all(ctx);  // a deferred step may begin with a pass over its tables
    DeferredStep step;
    OP_REQUIRES_OK(ctx, step.Open(ctx, states_, optimizer_, &variables));
    for (int i = 0; i < num_shards(); ++i) shards[i].deferred = step.rows(i);
    RowUpdate rows;
    DeviceThreads readers(ctx, kReadMeanwhile * update.NumElements());
    OP_REQUIRES_OK(
        ctx, StatusOfOp(name(), ReadUpdate(bytes, update.NumElements(), shards, &readers, &rows)));
    int64_t costs = BytesOf(rows);
    for (int i = 0; i < num_shards(); ++i) {
      if (!shards[i].by_key) continue;
      costs += variables.dynamic_table(i)->BytesToFind(rows.blocks[i].count);
    }
    DeviceThreads threads(ctx, costs);
    FoundKeys found;
    for (int i = 0; i < num_shards(); ++i) {
      if (!shards[i].by_key) continue;
      OP_REQUIRES_OK(ctx, StatusOfOp(name(), found.Find(variables.dynamic_table(i), &rows.blocks[i],
                                                        &threads)));
    }
    OP_REQUIRES_OK(ctx, step.Begin(ctx, optimizer, &all));
    ApplyUpdate(optimizer, shards, rows, BestRowKernels(), &threads);
    if (num_outputs() > 0) OP_REQUIRES_OK(ctx, Answer(ctx, shards, rows));
  }

 private:
  // Sends rows as they are after the update. Of two updates at the same time, the answer with the
  // greater number has the rows after both.
  static Status Answer(OpKernelContext* ctx, const std::vector<UpdatedShard>& shards,
                       const RowUpdate& update) {
    static std::atomic<int64_t> answers{0};
    const int64_t number = ++answers;
    const int64_t size = AnswerSize(update);
    Tensor* answer = nullptr;
    const int64_t bytes = kAnswerHeaderBytes + size * static_cast<int64_t>(sizeof(float));
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({bytes}), &answer));
    char* const at = const_cast<char*>(answer->tensor_data().data());
    std::memcpy(at, &number, sizeof(number));
    WriteAnswer(shards, update, reinterpret_cast<float*>(at + kAnswerHeaderBytes));
    return Status();
  }

  // The tensor's bytes, aligned for int64: a slice of a tensor may begin anywhere.
  static char* AlignedBytes(const Tensor& tensor, ScratchArray<char>* copy) {
    char* const bytes = const_cast<char*>(tensor.tensor_data().data());
    if (reinterpret_cast<uintptr_t>(bytes) % alignof(int64_t) == 0) return bytes;
    copy->Reserve(tensor.NumElements());
    std::memcpy(copy->data(), bytes, tensor.NumElements());
    return copy->data();
  }

  OptimizerInputs optimizer_;
  RowStates states_;
  MovingTables moving_;
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("GroupEmbeddingGather"), GroupGatherKernel);
REGISTER_KERNEL_BUILDER(CPU("ResourceGroupEmbeddingGather"), GroupGatherKernel);
REGISTER_KERNEL_BUILDER(CPU("GroupEmbeddingApplyPacked"), GroupApplyPackedKernel);
REGISTER_KERNEL_BUILDER(CPU("ResourceGroupEmbeddingApplyPacked"), GroupApplyPackedKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
