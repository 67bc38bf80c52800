#include "kernels/apply/optimizer_inputs.h"

#include <cmath>
#include <string>
#include <vector>

#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
namespace errors = tensorflow::errors;

// How an optimizer's inputs are counted.
struct Optimizer {
  const char* name;
  UpdateRule rule;
  int slots;
  int hyperparameters;
};

constexpr Optimizer kOptimizers[] = {
    {"GradientDescent", UpdateRule::kGradientDescent, 0, 1},
    {"Momentum", UpdateRule::kMomentum, 1, 2},
    {"Adagrad", UpdateRule::kAdagrad, 1, 2},
    {"Ftrl", UpdateRule::kFtrl, 2, 5},
    {"Adam", UpdateRule::kAdam, 2, 6},
};

}  // namespace

Status OptimizerInputs::Read(OpKernelConstruction* ctx, int num_shards) {
  std::string name;
  int num_slots;
  int num_hyperparameters;
  bool use_nesterov;
  bool use_locking;
  TF_RETURN_IF_ERROR(ctx->GetAttr("optimizer", &name));
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_slots", &num_slots));
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_hyperparameters", &num_hyperparameters));
  TF_RETURN_IF_ERROR(ctx->GetAttr("use_nesterov", &use_nesterov));
  TF_RETURN_IF_ERROR(ctx->GetAttr("use_locking", &use_locking));
  TF_RETURN_IF_ERROR(ctx->GetAttr("update_slots", &update_slots_));
  TF_RETURN_IF_ERROR(ctx->GetAttr("multiply_linear_by_lr", &multiply_linear_by_lr_));
  Optimizer optimizer = kOptimizers[0];
  for (const Optimizer& known : kOptimizers) {
    if (name == known.name) optimizer = known;
  }
  if (num_slots != num_shards * optimizer.slots ||
      num_hyperparameters != optimizer.hyperparameters) {
    return errors::InvalidArgument(ctx->def().name(), ": ", name, " has ", optimizer.slots,
                                   " slots for each of ", num_shards, " shards and ",
                                   optimizer.hyperparameters, " hyperparameters; given ", num_slots,
                                   " and ", num_hyperparameters);
  }
  num_shards_ = num_shards;
  num_slots_ = optimizer.slots;
  rule_ = use_nesterov && optimizer.rule == UpdateRule::kMomentum ? UpdateRule::kNesterov
                                                                  : optimizer.rule;
  purpose_ = use_locking ? VariableTables::kUpdateExclusively : VariableTables::kUpdate;
  return Status();
}

Status OptimizerInputs::ReadNumbers(OpKernelContext* ctx, UpdateNumbers* numbers) const {
  OpInputList given;
  TF_RETURN_IF_ERROR(ctx->input_list("hyperparameters", &given));
  std::vector<float> values;
  for (const Tensor& number : given) {
    if (number.dims() != 0) {
      return errors::InvalidArgument(ctx->op_kernel().name(), ": a hyperparameter has shape ",
                                     number.shape().DebugString(), "; need a scalar");
    }
    values.push_back(number.scalar<float>()());
  }
  *numbers = UpdateNumbers();
  numbers->learning_rate = values[0];
  numbers->update_slots = update_slots_;
  numbers->multiply_linear_by_lr = multiply_linear_by_lr_;
  if (rule_ == UpdateRule::kMomentum || rule_ == UpdateRule::kNesterov) {
    numbers->momentum = values[1];
  } else if (rule_ == UpdateRule::kAdagrad) {
    numbers->epsilon = values[1];
  } else if (rule_ == UpdateRule::kFtrl) {
    numbers->l1 = values[1];
    numbers->l2 = values[2];
    numbers->l2_shrinkage = values[3];
    numbers->learning_rate_power = values[4];
  } else if (rule_ == UpdateRule::kAdam) {
    numbers->beta1 = values[1];
    numbers->beta2 = values[2];
    numbers->epsilon = values[3];
    numbers->learning_rate *= std::sqrt(1.0f - values[5]) / (1.0f - values[4]);
  }
  return Status();
}

Status OptimizerInputs::SlotsOf(const std::string& op, VariableTables* variables, int shard,
                                const std::string& table, float** slots) const {
  const Tensor& rows = (*variables)[shard];
  slots[0] = nullptr;
  slots[1] = nullptr;
  for (int slot = 0; slot < num_slots_; ++slot) {
    const int at = num_shards_ * (1 + slot) + shard;
    const Tensor& tensor = (*variables)[at];
    if (tensor.shape() != rows.shape() || tensor.dtype() != tensorflow::DT_FLOAT) {
      return errors::InvalidArgument(op, ": slot ", slot, " of table '", table, "' has shape ",
                                     tensor.shape().DebugString(), ", the table ",
                                     rows.shape().DebugString(), "; need the same, of float32");
    }
    slots[slot] = variables->floats(at);
  }
  return Status();
}

}  // namespace graph_opt
