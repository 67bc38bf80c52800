#ifndef GRAPH_OPT_KERNELS_LOOKUP_LOOKED_UP_TABLES_H_
#define GRAPH_OPT_KERNELS_LOOKUP_LOOKED_UP_TABLES_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/lookup/group_inputs.h"
#include "kernels/lookup/variable_tables.h"
#include "lookup/group_lookup.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// What a kernel's last call found of its tables, for the next one: they hardly ever move. Any
// thread may call.
class KnownTables {
 public:
  struct Found {
    std::vector<TableMemory> memory;  // of each shard
    std::vector<Table> tables;
    // By table.
    std::vector<int64_t> rows;
    std::vector<int64_t> dims;
    std::vector<tensorflow::DataType> dtypes;
  };
  typedef std::shared_ptr<const Found> FoundPointer;

  // Null before the first call.
  FoundPointer last() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return last_;
  }
  void Keep(FoundPointer found) {
    const std::lock_guard<std::mutex> lock(mutex_);
    last_.swap(found);
  }

 private:
  mutable std::mutex mutex_;
  FoundPointer last_;
};

// The tables whose shards are the first inputs of an op that reads rows, locked while this exists.
class LookedUpTables {
 public:
  // `known` is the kernel's, if it has one.
  tensorflow::Status Open(tensorflow::OpKernelContext* ctx, const GroupAttrs& attrs,
                          KnownTables* known = nullptr);

  // Whether they are not where the kernel's last call found them.
  bool have_moved() const { return have_moved_; }
  void MoveToLargePages(MovingTables* moving) const { variables_.MoveToLargePages(moving); }

  const std::vector<Table>& tables() const { return found_->tables; }
  // By table.
  const std::vector<int64_t>& rows() const { return found_->rows; }
  const std::vector<int64_t>& dims() const { return found_->dims; }
  const std::vector<tensorflow::DataType>& dtypes() const { return found_->dtypes; }

 private:
  bool AreKnown(const KnownTables::Found& known, const GroupAttrs& attrs) const;
  tensorflow::Status Find(const GroupAttrs& attrs, KnownTables::Found* found) const;

  VariableTables variables_;
  KnownTables::FoundPointer found_;
  bool have_moved_ = true;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_LOOKUP_LOOKED_UP_TABLES_H_
