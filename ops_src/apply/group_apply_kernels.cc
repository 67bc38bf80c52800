#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "apply/group_apply.h"
#include "lookup/device_threads.h"
#include "lookup/group_inputs.h"
#include "lookup/pooled_rows.h"
#include "lookup/variable_tables.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
namespace errors = tensorflow::errors;

// How an optimizer's inputs are counted.
struct OptimizerInputs {
  const char* name;
  UpdateRule rule;
  int slots;
  int hyperparameters;
};

constexpr OptimizerInputs kOptimizers[] = {
    {"GradientDescent", UpdateRule::kGradientDescent, 0, 1},
    {"Momentum", UpdateRule::kMomentum, 1, 2},
    {"Adagrad", UpdateRule::kAdagrad, 1, 2},
    {"Ftrl", UpdateRule::kFtrl, 2, 5},
    {"Adam", UpdateRule::kAdam, 2, 6},
};

class GroupApplyKernel : public OpKernel {
 public:
  explicit GroupApplyKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attrs_.Read(ctx));
    OP_REQUIRES_OK(ctx, ReadOptimizer(ctx));
    bool use_locking;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("use_locking", &use_locking));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("update_slots", &update_slots_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("multiply_linear_by_lr", &multiply_linear_by_lr_));
    purpose_ = use_locking ? VariableTables::kUpdateExclusively : VariableTables::kUpdate;
  }

  void Compute(OpKernelContext* ctx) override {
    const int num_variables = attrs_.num_shards() * (1 + inputs_.slots);
    VariableTables variables;
    GroupInputs inputs;
    std::vector<PooledGradient> lookups;
    std::vector<int64_t> dims;
    std::vector<UpdatedTable> tables;
    std::vector<int64_t> table_rows;
    UpdateNumbers numbers;
    OP_REQUIRES_OK(ctx, variables.Open(ctx, 0, num_variables, purpose_));
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadGradients(ctx, attrs_, inputs, &lookups, &dims));
    OP_REQUIRES_OK(ctx, ReadTables(&variables, dims, &tables, &table_rows));
    OP_REQUIRES_OK(ctx, ReadNumbers(ctx, &numbers));
    DeviceThreads threads(ctx);
    const BagFault fault = GroupApply(rule_, numbers, tables, lookups, BestRowKernels(), &threads);
    OP_REQUIRES_OK(ctx, FaultStatus(fault, attrs_, table_rows, name()));
  }

 private:
  Status ReadOptimizer(OpKernelConstruction* ctx) {
    std::string optimizer;
    int num_slots;
    int num_hyperparameters;
    bool use_nesterov;
    TF_RETURN_IF_ERROR(ctx->GetAttr("optimizer", &optimizer));
    TF_RETURN_IF_ERROR(ctx->GetAttr("num_slots", &num_slots));
    TF_RETURN_IF_ERROR(ctx->GetAttr("num_hyperparameters", &num_hyperparameters));
    TF_RETURN_IF_ERROR(ctx->GetAttr("use_nesterov", &use_nesterov));
    for (const OptimizerInputs& known : kOptimizers) {
      if (optimizer == known.name) inputs_ = known;
    }
    if (num_slots != attrs_.num_shards() * inputs_.slots ||
        num_hyperparameters != inputs_.hyperparameters) {
      return errors::InvalidArgument(name(), ": ", optimizer, " has ", inputs_.slots,
                                     " slots for each of ", attrs_.num_shards(), " shards and ",
                                     inputs_.hyperparameters, " hyperparameters; given ", num_slots,
                                     " and ", num_hyperparameters);
    }
    rule_ = use_nesterov && inputs_.rule == UpdateRule::kMomentum ? UpdateRule::kNesterov
                                                                  : inputs_.rule;
    return Status();
  }

  Status ReadTables(VariableTables* variables, const std::vector<int64_t>& dims,
                    std::vector<UpdatedTable>* tables, std::vector<int64_t>* table_rows) {
    tables->resize(attrs_.num_tables());
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      UpdatedTable& table = (*tables)[t];
      std::vector<int64_t> rows;
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        const Tensor& tensor = (*variables)[s];
        if (tensor.dims() != 2 || tensor.dim_size(1) != dims[t] ||
            tensor.dtype() != tensorflow::DT_FLOAT) {
          return errors::InvalidArgument(name(), ": table '", attrs_.table_names[t],
                                         "' has a part of shape ", tensor.shape().DebugString(),
                                         " and type ", tensorflow::DataTypeString(tensor.dtype()),
                                         "; need [rows, ", dims[t], "] of float32");
        }
        UpdatedTable::Shard shard = {variables->floats(s), {nullptr, nullptr}};
        for (int slot = 0; slot < inputs_.slots; ++slot) {
          const int at = attrs_.num_shards() * (1 + slot) + s;
          if ((*variables)[at].shape() != tensor.shape() ||
              (*variables)[at].dtype() != tensorflow::DT_FLOAT) {
            return errors::InvalidArgument(
                name(), ": slot ", slot, " of table '", attrs_.table_names[t], "' has shape ",
                (*variables)[at].shape().DebugString(), ", the table ",
                tensor.shape().DebugString(), "; need the same, of float32");
          }
          shard.slots[slot] = variables->floats(at);
        }
        rows.push_back(tensor.dim_size(0));
        table.shards.push_back(shard);
      }
      table.table.shards = TableShards(attrs_.partition, std::move(rows));
      table.table.dim = dims[t];
      table_rows->push_back(table.table.shards.num_rows());
    }
    return Status();
  }

  Status ReadNumbers(OpKernelContext* ctx, UpdateNumbers* numbers) {
    OpInputList given;
    TF_RETURN_IF_ERROR(ctx->input_list("hyperparameters", &given));
    std::vector<float> values;
    for (const Tensor& number : given) {
      if (number.dims() != 0) {
        return errors::InvalidArgument(name(), ": a hyperparameter has shape ",
                                       number.shape().DebugString(), "; need a scalar");
      }
      values.push_back(number.scalar<float>()());
    }
    *numbers = UpdateNumbers();
    numbers->learning_rate = values[0];
    numbers->update_slots = update_slots_;
    numbers->multiply_linear_by_lr = multiply_linear_by_lr_;
    if (inputs_.rule == UpdateRule::kMomentum) {
      numbers->momentum = values[1];
    } else if (inputs_.rule == UpdateRule::kAdagrad) {
      numbers->epsilon = values[1];
    } else if (inputs_.rule == UpdateRule::kFtrl) {
      numbers->l1 = values[1];
      numbers->l2 = values[2];
      numbers->l2_shrinkage = values[3];
      numbers->learning_rate_power = values[4];
    } else if (inputs_.rule == UpdateRule::kAdam) {
      numbers->beta1 = values[1];
      numbers->beta2 = values[2];
      numbers->epsilon = values[3];
      numbers->learning_rate *= std::sqrt(1.0f - values[5]) / (1.0f - values[4]);
    }
    return Status();
  }

  GroupAttrs attrs_;
  OptimizerInputs inputs_ = kOptimizers[0];
  UpdateRule rule_ = UpdateRule::kGradientDescent;
  VariableTables::Purpose purpose_ = VariableTables::kUpdate;
  bool update_slots_ = true;
  bool multiply_linear_by_lr_ = false;
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("GroupEmbeddingApply"), GroupApplyKernel);
REGISTER_KERNEL_BUILDER(CPU("ResourceGroupEmbeddingApply"), GroupApplyKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
