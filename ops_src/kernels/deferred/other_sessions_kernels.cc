#include <string>
#include <utility>
#include <vector>

#include "deferred/deferred_lookup.h"
#include "kernels/deferred/other_sessions.h"
#include "kernels/deferred/shard_at_home.h"
#include "kernels/deferred/state_place.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "rows/row_kernels.h"
#include "scratch/scratch_pool.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/logging.h"

namespace graph_opt {
namespace {

// An initializer and a restored checkpoint write, too, but do not slow down training.
constexpr int kWritesOfTraining = 3;

class CatchUpVariablesKernel : public OpKernel {
 public:
  explicit CatchUpVariablesKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("written", &written_));
    for (const bool has_handle : {false, true}) {
      std::vector<std::string> entries;
      OP_REQUIRES_OK(ctx, ctx->GetAttr(has_handle ? "handles" : "references", &entries));
      for (const std::string& entry : entries) places_.emplace_back(entry, has_handle);
    }
  }

  void Compute(OpKernelContext* ctx) override {
    if (!RowState::any()) return;
    for (const StatePlace& place : places_) {
      const StatePlace::Pointer state = place.FindOfTable(ctx);
      if (state == nullptr) continue;
      if (written_) NoteWrite(place, state.get());
      OP_REQUIRES_OK(ctx, CatchUpAtHome(ctx, state.get()));
    }
  }

 private:
  static void NoteWrite(const StatePlace& place, RowState* state) {
    state->rows()->EndRest();
    if (state->rows()->is_settled() || state->CountWrite() != kWritesOfTraining) return;
    LOG(WARNING) << "graph_opt: a session defers the updates of tables, and another one that does "
                    "not writes to them (to the "
                 << place.name
                 << "). Results are right, but each step of the other catches up all rows, "
                    "which takes about as long as TensorFlow's own update. To avoid that, run all "
                    "sessions that train on this server with graph_opt, and with the same "
                    "group_embedding_options.adam";
  }

  std::vector<StatePlace> places_;
  bool written_ = false;
  ScratchUser scratch_;
};

class CatchUpVariableRowsKernel : public OpKernel {
 public:
  explicit CatchUpVariableRowsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::string variable;
    bool has_handle = false;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("variable", &variable));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("has_handle", &has_handle));
    place_ = StatePlace(variable, has_handle);
  }

  void Compute(OpKernelContext* ctx) override {
    if (!RowState::any()) return;
    const StatePlace::Pointer state = place_.FindOfTable(ctx);
    if (state == nullptr || state->rows()->is_settled()) return;
    ShardAtHome at_home;
    OP_REQUIRES_OK(ctx, at_home.Open(ctx, state.get()));
    DeferredTable table;
    table.shards = {at_home.shard()};
    table.partition = TableShards(Partition::kMod, {at_home.num_rows()});
    const Tensor& ids = ctx->input(0);
    DeferredLookup lookup;
    lookup.table = 0;
    lookup.bags.wide_ids = ids.dtype() == tensorflow::DT_INT64;
    lookup.bags.ids = ids.tensor_data().data();
    lookup.bags.num_ids = ids.NumElements();
    lookup.bags.default_id = -1;
    DeviceThreads threads(ctx);
    CatchUp({table}, {lookup}, BestRowKernels(), &threads);
  }

 private:
  StatePlace place_;
  ScratchUser scratch_;
};

REGISTER_KERNEL_BUILDER(Name(kCatchUpVariables).Device(tensorflow::DEVICE_CPU),
                        CatchUpVariablesKernel);
REGISTER_KERNEL_BUILDER(Name(kCatchUpVariableRows).Device(tensorflow::DEVICE_CPU),
                        CatchUpVariableRowsKernel);

}  // namespace
}  // namespace graph_opt
