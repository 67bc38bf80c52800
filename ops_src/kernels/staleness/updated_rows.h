#ifndef GRAPH_OPT_KERNELS_STALENESS_UPDATED_ROWS_H_
#define GRAPH_OPT_KERNELS_STALENESS_UPDATED_ROWS_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"

namespace graph_opt {

// The rows that the last updates of a table have named: references to the tensors with their ids,
// which nobody copies or reads until a step is sampled.
class UpdatedRows : public tensorflow::ResourceBase {
 public:
  typedef tensorflow::core::RefCountPtr<UpdatedRows> Pointer;

  struct Ids {
    tensorflow::Tensor ids;
    int shard;  // ids are rows of this shard; -1: ids of the table
  };
  using Update = std::vector<Ids>;

  // That of a table, in the default container; made if there is none.
  static tensorflow::Status Find(tensorflow::OpKernelContext* ctx, const std::string& table,
                                 Pointer* found);

  // The number of updates so far.
  int64_t Position() const;

  // Adds an update, and forgets all but the last `kept`.
  void Append(Update update, int64_t kept);

  // The updates after a position, as far as they are kept.
  std::vector<Update> Since(int64_t position) const;

  std::string DebugString() const override { return "the rows of the last updates of a table"; }

 private:
  mutable std::mutex mutex_;
  int64_t position_ = 0;
  std::deque<Update> last_;  // before position_
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_STALENESS_UPDATED_ROWS_H_
