#ifndef GRAPH_OPT_KERNELS_LOOKUP_LOOKED_UP_TABLES_H_
#define GRAPH_OPT_KERNELS_LOOKUP_LOOKED_UP_TABLES_H_

#include <cstdint>
#include <vector>

#include "kernels/lookup/group_inputs.h"
#include "kernels/lookup/variable_tables.h"
#include "lookup/group_lookup.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// The tables whose shards are the first inputs of an op that reads rows, locked while this exists.
class LookedUpTables {
 public:
  tensorflow::Status Open(tensorflow::OpKernelContext* ctx, const GroupAttrs& attrs);

  void MoveToLargePages(MovingTables* moving) const { variables_.MoveToLargePages(moving); }

  const std::vector<Table>& tables() const { return tables_; }
  // By table.
  const std::vector<int64_t>& rows() const { return rows_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  const std::vector<tensorflow::DataType>& dtypes() const { return dtypes_; }

 private:
  VariableTables variables_;
  std::vector<Table> tables_;
  std::vector<int64_t> rows_;
  std::vector<int64_t> dims_;
  std::vector<tensorflow::DataType> dtypes_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_LOOKUP_LOOKED_UP_TABLES_H_
