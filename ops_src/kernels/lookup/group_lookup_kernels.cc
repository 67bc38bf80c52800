#include <string>
#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/group_inputs.h"
#include "kernels/lookup/group_kernel.h"
#include "kernels/lookup/looked_up_tables.h"
#include "kernels/lookup/pooled_rows.h"
#include "kernels/refresh/ahead_tables.h"
#include "kernels/tensorflow_compat.h"
#include "kernels/threads/stage_kernel.h"
#include "lookup/group_lookup.h"
#include "pages/moving_tables.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

// The node that an input comes from. TensorFlow's sessions put `_arg_NODE_0_3` in the place of a
// node that is fed.
std::string NodeOf(const std::string& input) {
  const std::string fed = "_arg_";
  std::string node = input.substr(0, input.find(':'));
  if (node.compare(0, fed.size(), fed) != 0) return node;
  for (int number = 0; number < 2; ++number) node.resize(node.find_last_of('_'));
  return node.size() > fed.size() ? node.substr(fed.size()) : input;
}

class GroupLookupKernel : public GroupKernel {
 public:
  explicit GroupLookupKernel(OpKernelConstruction* ctx) : GroupKernel(ctx) {
    OP_REQUIRES_OK(ctx, ahead_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, Run(ctx)); }

  Status Run(OpKernelContext* ctx) {
    LookedUpTables tables;
    GroupInputs inputs;
    TF_RETURN_IF_ERROR(tables.Open(ctx, attrs_, &known_));
    if (tables.have_moved()) tables.MoveToLargePages(&moving_);
    TF_RETURN_IF_ERROR(inputs.Read(ctx, attrs_));
    std::vector<Lookup> lookups;
    TF_RETURN_IF_ERROR(
        AllocatePooled(ctx, attrs_, inputs, tables.dims(), tables.dtypes(), &lookups));
    if (!ahead_.empty()) TF_RETURN_IF_ERROR(LeaveOut(ctx, &lookups));
    DeviceThreads threads(ctx, BytesOf(RowsOf(tables.tables(), lookups)));
    const BagFault fault = GroupLookup(tables.tables(), lookups, BestRowKernels(), &threads);
    const Status status = FaultStatus(fault, attrs_, tables.rows(), name());
    if (status.ok()) return status;
    const std::string& ids = requested_input(attrs_.num_shards() + static_cast<int>(fault.lookup));
    return tensorflow::errors::InvalidArgument(MessageOf(status), "; the ids come from '",
                                               NodeOf(ids), "'");
  }

 private:
  // Leaves the bags of tables to the step that takes this batch.
  Status LeaveOut(OpKernelContext* ctx, std::vector<Lookup>* lookups) const {
    std::vector<bool> ahead;
    TF_RETURN_IF_ERROR(ahead_.Chosen(ctx, &ahead));
    for (Lookup& lookup : *lookups) {
      if (!ahead.empty() && !ahead[lookup.table]) lookup.bags = Bags();
    }
    return Status();
  }

  AheadTables ahead_;
  KnownTables known_;
  MovingTables moving_;
};

GRAPH_OPT_REGISTER_STAGE_KERNEL("GroupEmbeddingLookup", GroupLookupKernel);
GRAPH_OPT_REGISTER_STAGE_KERNEL("ResourceGroupEmbeddingLookup", GroupLookupKernel);

}  // namespace
}  // namespace graph_opt
