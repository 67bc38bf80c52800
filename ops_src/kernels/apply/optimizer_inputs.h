#ifndef GRAPH_OPT_KERNELS_APPLY_OPTIMIZER_INPUTS_H_
#define GRAPH_OPT_KERNELS_APPLY_OPTIMIZER_INPUTS_H_

#include <string>
#include <vector>

#include "kernels/lookup/variable_tables.h"
#include "optimizers/optimizer.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// The attributes and inputs of an update that are about its optimizer (optimizer_attributes.h).
class OptimizerInputs {
 public:
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx, int num_shards);

  // Only the attributes about slots, for ops that do not update.
  tensorflow::Status ReadSlots(tensorflow::OpKernelConstruction* ctx, int num_shards);

  // Opens the shards and slots, the first inputs, to update them. All are initialized but averages,
  // which no update needs.
  tensorflow::Status Open(tensorflow::OpKernelContext* ctx, VariableTables* variables) const;

  // With the input `hyperparameters` of a kernel call.
  tensorflow::Status ReadHyperparameters(tensorflow::OpKernelContext* ctx,
                                         Optimizer* optimizer) const;

  // The same where shards may have hyperparameters of their own: then also the optimizer of each
  // shard, else none.
  tensorflow::Status ReadHyperparameters(tensorflow::OpKernelContext* ctx, Optimizer* optimizer,
                                         std::vector<Optimizer>* of_shards) const;

  // An error if shards have hyperparameters of their own: with these no update can be deferred.
  tensorflow::Status RequireShared(const std::string& op) const;

  // The memory of a shard's slots; `variables` are the shards, then their slots. Each slot must be
  // like its shard. `op` and `table` are named in errors.
  tensorflow::Status SlotsOf(const std::string& op, VariableTables* variables, int shard,
                             const std::string& table, float** slots) const;

  // The memory of a shard's average, in the same way; null if none is kept, or it has no value yet.
  tensorflow::Status AverageOf(const std::string& op, VariableTables* variables, int shard,
                               float** average) const;

  // With usual hyperparameters.
  const Optimizer& usual() const { return usual_; }
  int num_slots() const { return num_slots_; }  // of each shard, without its average
  bool averaged() const { return averaged_; }
  bool sums_row() const { return sums_row_; }
  int num_own() const;  // hyperparameters of which each shard has its own
  int slots_of_shard() const { return num_slots_ + averaged_; }
  int num_variables() const { return num_shards_ * (1 + slots_of_shard()); }
  VariableTables::Purpose purpose() const { return purpose_; }

 private:
  tensorflow::Status SlotAt(const std::string& op, VariableTables* variables, int shard, int slot,
                            const std::string& table, float** memory) const;
  tensorflow::Status ReadOwn(tensorflow::OpKernelConstruction* ctx, int num_hyperparameters);
  std::vector<float> ValuesOf(const std::vector<float>& given, int shard) const;
  tensorflow::Status Make(const std::string& op, const std::vector<float>& values,
                          Optimizer* optimizer) const;

  std::string name_;
  std::vector<std::string> flags_;
  std::vector<bool> is_own_;  // by hyperparameter; empty for an op without such
  Optimizer usual_ = {};
  int num_shards_ = 0;
  int num_slots_ = 0;
  bool averaged_ = false;
  bool sums_row_ = false;
  VariableTables::Purpose purpose_ = VariableTables::kUpdate;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_APPLY_OPTIMIZER_INPUTS_H_
