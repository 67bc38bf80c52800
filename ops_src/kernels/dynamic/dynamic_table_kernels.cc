#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/dynamic/dynamic_inputs.h"
#include "kernels/dynamic/dynamic_table_resource.h"
#include "kernels/dynamic/table_options.h"
#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::Var;

// Makes the table behind the handle, or finds the one that has these options.
class OptionsKernel : public OpKernel {
 public:
  explicit OptionsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("options", &json_));
    DynamicTableOptions options;
    OP_REQUIRES_OK(ctx, Named(ReadTableOptions(json_, "", &options)));
  }

 protected:
  Status Make(OpKernelContext* ctx, DynamicTableResource::Pointer* resource,
              std::shared_ptr<DynamicTable>* table) const {
    const auto& handle = tensorflow::HandleFromInput(ctx, 0);
    DynamicTableOptions options;
    TF_RETURN_IF_ERROR(ReadTableOptions(json_, handle.name(), &options));
    TF_RETURN_IF_ERROR(DynamicTableResource::FindOrMake(ctx, handle, resource));
    *table = (*resource)->TableWith(json_, options);
    return Status();
  }

  Status Named(const Status& status) const { return StatusOfOp(name(), status); }

 private:
  std::string json_;
};

// Makes a variable without rows behind the same handle, for ops of TensorFlow that ask any variable
// for its shape: those of gradients in conditionals do. One that a server still has, from when the
// script had no dynamic table, loses its rows.
Status MakeEmptyVariable(OpKernelContext* ctx, const tensorflow::ResourceHandle& handle,
                         int64_t dim) {
  tensorflow::core::RefCountPtr<Var> variable;
  TF_RETURN_IF_ERROR(
      tensorflow::LookupOrCreateResource<Var>(ctx, handle, &variable, [](Var** made) {
        *made = new Var(tensorflow::DT_FLOAT);
        return Status();
      }));
  const tensorflow::mutex_lock lock(*variable->mu());
  *variable->tensor() = Tensor(tensorflow::DT_FLOAT, TensorShape({0, dim}));
  variable->is_initialized = true;
  return Status();
}

class InitializeKernel : public OptionsKernel {
 public:
  using OptionsKernel::OptionsKernel;

  void Compute(OpKernelContext* ctx) override {
    DynamicTableResource::Pointer resource;
    std::shared_ptr<DynamicTable> table;
    OP_REQUIRES_OK(ctx, Named(Make(ctx, &resource, &table)));
    const Tensor& bank = ctx->input(1);
    OP_REQUIRES(
        ctx, bank.dims() == 2 && bank.dim_size(1) == table->dim(),
        errors::InvalidArgument(name(), ": the default rows of dynamic table '",
                                table->options().name, "' have shape ", bank.shape().DebugString(),
                                "; need [rows, ", table->dim(), "]"));
    OP_REQUIRES_OK(
        ctx, StatusOfOp(name(), table->Initialize(bank.flat<float>().data(), bank.dim_size(0))));
    const auto& handle = tensorflow::HandleFromInput(ctx, 0);
    OP_REQUIRES_OK(ctx, Named(MakeEmptyVariable(ctx, handle, table->dim())));
  }
};

class SlotInitializeKernel : public OptionsKernel {
 public:
  explicit SlotInitializeKernel(OpKernelConstruction* ctx) : OptionsKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("slot_name", &slot_name_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("initial", &initial_));
  }

  void Compute(OpKernelContext* ctx) override {
    DynamicTableResource::Pointer resource;
    std::shared_ptr<DynamicTable> table;
    OP_REQUIRES_OK(ctx, Named(Make(ctx, &resource, &table)));
    const auto& handle = tensorflow::HandleFromInput(ctx, 1);
    const bool is_new = table->SlotIndex(slot_name_) < 0;
    int slot = -1;
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), table->AddSlot(slot_name_, initial_, &slot)));
    if (!is_new) table->FillSlot(slot, initial_);
    // A server may still have a variable of this name, from when the table was none.
    ctx->resource_manager()->Delete<Var>(handle.container(), handle.name()).IgnoreError();
    OP_REQUIRES_OK(ctx, DynamicSlotResource::Make(ctx, handle, std::move(resource), slot_name_));
  }

 private:
  std::string slot_name_;
  float initial_ = 0;
};

class IsInitializedKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    Tensor* is_initialized = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape(), &is_initialized));
    const OpenDynamicTable open = FindDynamicTable(ctx, tensorflow::HandleFromInput(ctx, 0));
    is_initialized->scalar<bool>()() = open.table != nullptr;
  }
};

class DestroyKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const auto& handle = tensorflow::HandleFromInput(ctx, 0);
    auto* const resources = ctx->resource_manager();
    resources->Delete<DynamicTableResource>(handle.container(), handle.name()).IgnoreError();
    resources->Delete<DynamicSlotResource>(handle.container(), handle.name()).IgnoreError();
    resources->Delete<Var>(handle.container(), handle.name()).IgnoreError();
  }
};

class SetStepKernel : public OpKernel {
 public:
  explicit SetStepKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_tables_));
  }

  void Compute(OpKernelContext* ctx) override {
    int64_t step;
    OP_REQUIRES_OK(ctx, ReadNumber(ctx, num_tables_, "step has", &step));
    for (int i = 0; i < num_tables_; ++i) {
      std::shared_ptr<DynamicTable> table;
      OP_REQUIRES_OK(ctx, OpenTable(ctx, i, &table));
      table->set_step(step);
    }
  }

 private:
  int num_tables_ = 0;
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("DynamicTableInitialize"), InitializeKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableSlotInitialize"), SlotInitializeKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableIsInitialized"), IsInitializedKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableDestroy"), DestroyKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableSetStep"), SetStepKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
