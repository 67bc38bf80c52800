#ifndef GRAPH_OPT_KERNELS_APPLY_OPTIMIZER_INPUTS_H_
#define GRAPH_OPT_KERNELS_APPLY_OPTIMIZER_INPUTS_H_

#include <string>

#include "kernels/lookup/variable_tables.h"
#include "rows/row_kernels.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// The attributes and inputs of an update that are about its optimizer (optimizer_attributes.h).
class OptimizerInputs {
 public:
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx, int num_shards);

  // The input `hyperparameters` of a kernel call.
  tensorflow::Status ReadNumbers(tensorflow::OpKernelContext* ctx, UpdateNumbers* numbers) const;

  // The memory of a shard's slots; `variables` are the shards, then their slots. Each slot must be
  // like its shard. `op` and `table` are named in errors.
  tensorflow::Status SlotsOf(const std::string& op, VariableTables* variables, int shard,
                             const std::string& table, float** slots) const;

  int num_slots() const { return num_slots_; }  // of each shard
  UpdateRule rule() const { return rule_; }
  VariableTables::Purpose purpose() const { return purpose_; }

 private:
  int num_shards_ = 0;
  int num_slots_ = 0;
  UpdateRule rule_ = UpdateRule::kGradientDescent;
  VariableTables::Purpose purpose_ = VariableTables::kUpdate;
  bool update_slots_ = true;
  bool multiply_linear_by_lr_ = false;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_APPLY_OPTIMIZER_INPUTS_H_
