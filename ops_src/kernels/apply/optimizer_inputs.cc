#include "kernels/apply/optimizer_inputs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/kernel_names.h"
#include "optimizers/description.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// An error where there is no such optimizer, of which the op's registration has the names.
Status Describe(const std::string& name, OptimizerDescription* description) {
  for (const OptimizerDescription& known : OptimizerDescriptions()) {
    if (known.name != name) continue;
    *description = known;
    return Status();
  }
  return errors::InvalidArgument("there is no optimizer '", name, "'");
}

}  // namespace

Status OptimizerInputs::Read(OpKernelConstruction* ctx, int num_shards) {
  int num_hyperparameters;
  bool use_locking;
  OptimizerDescription of;
  TF_RETURN_IF_ERROR(ReadSlots(ctx, num_shards));
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_hyperparameters", &num_hyperparameters));
  TF_RETURN_IF_ERROR(ctx->GetAttr("flags", &flags_));
  TF_RETURN_IF_ERROR(ctx->GetAttr("use_locking", &use_locking));
  TF_RETURN_IF_ERROR(Describe(name_, &of));
  purpose_ = use_locking ? VariableTables::kUpdateExclusively : VariableTables::kUpdate;
  // Whatever else is wrong with the attributes is so with any values.
  std::vector<float> values;
  for (const OptimizerDescription::Value& usual : of.hyperparameters) {
    values.push_back(usual.value);
  }
  TF_RETURN_IF_ERROR(ReadOwn(ctx, static_cast<int>(values.size())));
  // Of those that shards have of their own, all but one come beside the others.
  values.resize(std::max<int64_t>(num_hyperparameters - num_own() * (num_shards_ - 1), 0));
  return Make(ctx->def().name(), values, &usual_);
}

Status OptimizerInputs::ReadOwn(OpKernelConstruction* ctx, int num_hyperparameters) {
  std::vector<int32_t> own;
  TF_RETURN_IF_ERROR(ctx->GetAttr("own_hyperparameters", &own));
  is_own_.assign(num_hyperparameters, false);
  for (const int32_t place : own) {
    if (place < 0 || place >= num_hyperparameters || is_own_[place]) {
      return errors::InvalidArgument(ctx->def().name(), ": own_hyperparameters has ", place,
                                     "; need places of ", name_, "'s ", num_hyperparameters,
                                     " hyperparameters, each once");
    }
    is_own_[place] = true;
  }
  return Status();
}

Status OptimizerInputs::ReadSlots(OpKernelConstruction* ctx, int num_shards) {
  int num_slots;
  OptimizerDescription of;
  TF_RETURN_IF_ERROR(ctx->GetAttr("optimizer", &name_));
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_slots", &num_slots));
  TF_RETURN_IF_ERROR(ctx->GetAttr("averaged", &averaged_));
  TF_RETURN_IF_ERROR(Describe(name_, &of));
  num_shards_ = num_shards;
  num_slots_ = static_cast<int>(of.slots.size());
  sums_row_ = of.sums_row;
  if (num_slots == num_variables() - num_shards) return Status();
  return errors::InvalidArgument(ctx->def().name(), ": ", name_, " has ", num_slots_, " slots",
                                 averaged_ ? " and an average" : "", " for each of ", num_shards,
                                 " shards; given ", num_slots);
}

Status OptimizerInputs::Open(OpKernelContext* ctx, VariableTables* variables) const {
  const int num_needed = num_shards_ * (1 + num_slots_);
  if (!averaged_) return variables->Open(ctx, 0, num_needed, purpose_);
  const std::vector<bool> is_updated(num_variables(), true);
  TF_RETURN_IF_ERROR(variables->OpenThoseInitialized(ctx, is_updated, purpose_));
  return variables->RequireInitialized(ctx, 0, num_needed);
}

Status OptimizerInputs::Make(const std::string& op, const std::vector<float>& values,
                             Optimizer* optimizer) const {
  std::vector<const char*> flags;
  for (const std::string& flag : flags_) flags.push_back(flag.c_str());
  const char* const wrong =
      graph_opt_make_optimizer(name_.c_str(), values.data(), static_cast<int32_t>(values.size()),
                               flags.data(), static_cast<int32_t>(flags.size()), optimizer);
  return wrong == nullptr ? Status() : errors::InvalidArgument(op, ": ", wrong);
}

Status OptimizerInputs::ReadHyperparameters(OpKernelContext* ctx, Optimizer* optimizer) const {
  std::vector<Optimizer> of_shards;
  return ReadHyperparameters(ctx, optimizer, &of_shards);
}

Status OptimizerInputs::ReadHyperparameters(OpKernelContext* ctx, Optimizer* optimizer,
                                            std::vector<Optimizer>* of_shards) const {
  OpInputList given;
  TF_RETURN_IF_ERROR(ctx->input_list("hyperparameters", &given));
  std::vector<float> values;
  for (const Tensor& value : given) {
    if (value.dims() != 0) {
      return errors::InvalidArgument(ctx->op_kernel().name(), ": a hyperparameter has shape ",
                                     value.shape().DebugString(), "; need a scalar");
    }
    values.push_back(value.scalar<float>()());
  }
  of_shards->resize(num_own() == 0 ? 0 : num_shards_);
  for (int shard = 0; shard < static_cast<int>(of_shards->size()); ++shard) {
    TF_RETURN_IF_ERROR(
        Make(ctx->op_kernel().name(), ValuesOf(values, shard), &(*of_shards)[shard]));
  }
  return Make(ctx->op_kernel().name(), ValuesOf(values, 0), optimizer);
}

std::vector<float> OptimizerInputs::ValuesOf(const std::vector<float>& given, int shard) const {
  if (num_own() == 0) return given;
  std::vector<float> values;
  size_t at = 0;
  for (const bool is_own : is_own_) {
    values.push_back(given[is_own ? at + shard : at]);
    at += is_own ? num_shards_ : 1;
  }
  return values;
}

int OptimizerInputs::num_own() const {
  return static_cast<int>(std::count(is_own_.begin(), is_own_.end(), true));
}

Status OptimizerInputs::RequireShared(const std::string& op) const {
  if (num_own() == 0) return Status();
  return errors::InvalidArgument(op, ": an update with own_hyperparameters cannot be deferred; ",
                                 "leave row_states empty");
}

Status OptimizerInputs::SlotsOf(const std::string& op, VariableTables* variables, int shard,
                                const std::string& table, float** slots) const {
  std::fill(slots, slots + kMostSlots, nullptr);
  for (int slot = 0; slot < num_slots_; ++slot) {
    TF_RETURN_IF_ERROR(SlotAt(op, variables, shard, slot, table, &slots[slot]));
  }
  return Status();
}

Status OptimizerInputs::AverageOf(const std::string& op, VariableTables* variables, int shard,
                                  float** average) const {
  *average = nullptr;
  const int at = num_shards_ * (1 + num_slots_) + shard;
  if (!averaged_ || !variables->is_initialized(at)) return Status();
  return SlotAt(op, variables, shard, num_slots_, "", average);
}

Status OptimizerInputs::SlotAt(const std::string& op, VariableTables* variables, int shard,
                               int slot, const std::string& table, float** memory) const {
  const Tensor& rows = (*variables)[shard];
  const int at = num_shards_ * (1 + slot) + shard;
  const Tensor& tensor = (*variables)[at];
  const DynamicTable* const dynamic = variables->dynamic_table(shard);
  if (dynamic != nullptr || variables->dynamic_table(at) != nullptr) {
    if (dynamic != variables->dynamic_table(at) || variables->dynamic_slot(at) < 0) {
      return errors::InvalidArgument(op, ": slot ", slot, " of table '", table,
                                     "' is not one of this table; need a slot of the dynamic "
                                     "table, or both not dynamic");
    }
    *memory = reinterpret_cast<float*>(variables->memory(at).data);
    return Status();
  }
  if (tensor.shape() != rows.shape() || tensor.dtype() != tensorflow::DT_FLOAT) {
    return errors::InvalidArgument(op, ": slot ", slot, " of table '", table, "' has shape ",
                                   tensor.shape().DebugString(), ", the table ",
                                   rows.shape().DebugString(), "; need the same, of float32");
  }
  *memory = variables->floats(at);
  return Status();
}

}  // namespace graph_opt
