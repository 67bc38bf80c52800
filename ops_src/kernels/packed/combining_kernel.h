#ifndef GRAPH_OPT_KERNELS_PACKED_COMBINING_KERNEL_H_
#define GRAPH_OPT_KERNELS_PACKED_COMBINING_KERNEL_H_

#include <functional>
#include <vector>

#include "kernels/packed/placed_group.h"
#include "kernels/refresh/refresh_counts.h"
#include "packed/new_rows.h"
#include "packed/row_request.h"

namespace graph_opt {

// An op on rows that were asked for and sent: it has `inverse` and `counts` of the request.
class CombiningKernel : public PlacedGroupKernel {
 public:
  // `server` is what a server is called in errors.
  CombiningKernel(tensorflow::OpKernelConstruction* ctx, const char* server);

 protected:
  tensorflow::DataType dtype() const { return dtype_; }
  RowType type() const { return type_; }

  // What was asked for.
  tensorflow::Status ReadShards(tensorflow::OpKernelContext* ctx, const GroupInputs& inputs,
                                PackedShards* shards) const;

  // Whether a table's server pooled.
  bool IsPooled(const PackedShards& shards, int table) const {
    return shards.counts[attrs_.first_shard(table)] == kPooledByServer;
  }

  // The bags of all lookups, with the packed numbers of their rows in place of ids. Those that
  // servers pooled are as they are.
  tensorflow::Status NumberRows(tensorflow::OpKernelContext* ctx, const GroupInputs& inputs,
                                const PackedShards& shards, std::vector<Bags>* bags) const;

  // Pools the rows that the servers sent; into inputs from `first_read` on, if there are any.
  tensorflow::Status Combine(tensorflow::OpKernelContext* ctx, const GroupInputs& inputs,
                             const PackedShards& shards, const std::vector<SentRows>& sent,
                             int first_read = -1) const;

  // Lets `write` write new rows over those that were sent before, and pools the bags again that
  // have one, in the inputs `read`, which were pooled then.
  tensorflow::Status Refresh(tensorflow::OpKernelContext* ctx, const GroupInputs& inputs,
                             const PackedShards& shards, const std::vector<SentRows>& sent,
                             const RefreshCounts& counts,
                             const std::function<void(NewRows*)>& write) const;

  // Allocates the outputs `pooled`, and leaves them as they are.
  tensorflow::Status AllocateOnly(tensorflow::OpKernelContext* ctx,
                                  const GroupInputs& inputs) const;

  // A fault in rows that were numbered.
  tensorflow::Status FaultOf(const BagFault& fault, const std::vector<Table>& tables) const;

 private:
  // Allocates the outputs as AllocatePooled() does, and numbers the rows of their bags.
  tensorflow::Status NumberedLookups(tensorflow::OpKernelContext* ctx, const GroupInputs& inputs,
                                     const PackedShards& shards, int first_read,
                                     std::vector<Lookup>* lookups) const;

  const char* const server_;
  std::vector<int64_t> widths_;
  tensorflow::DataType dtype_ = tensorflow::DT_FLOAT;
  RowType type_ = RowType::kFloat;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_PACKED_COMBINING_KERNEL_H_
