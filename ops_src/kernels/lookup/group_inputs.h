#ifndef GRAPH_OPT_KERNELS_LOOKUP_GROUP_INPUTS_H_
#define GRAPH_OPT_KERNELS_LOOKUP_GROUP_INPUTS_H_

#include <string>
#include <vector>

#include "keys/key_owners.h"
#include "lookup/bags.h"
#include "lookup/group_lookup.h"
#include "lookup/table_shards.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// The attributes that all ops of a group lookup share, checked.
struct GroupAttrs {
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx);

  int num_lookups() const { return static_cast<int>(lookup_tables.size()); }
  int num_tables() const { return static_cast<int>(table_shards.size()); }
  // Index of a table's first shard among the shards of all tables.
  int first_shard(int table) const { return first_shards[table]; }
  int num_shards() const { return first_shards.back(); }
  Partition partition(int table) const { return partitions[table]; }
  // Whether the pooled rows of all lookups are columns of one tensor.
  bool joined() const { return !columns.empty(); }
  // Index of the tensor that has a lookup's pooled rows, or their gradients.
  int pooled_of(int lookup) const { return joined() ? 0 : lookup; }

  std::vector<int> lookup_tables;
  std::vector<int> table_shards;
  std::vector<int> first_shards;  // one more than tables
  std::vector<std::string> table_names;
  std::vector<Combiner> combiners;
  std::vector<Bags::Layout> layouts;
  std::vector<bool> weighted;
  std::vector<tensorflow::int64> default_ids;
  std::vector<tensorflow::int64> filled_ids;  // empty: none
  std::vector<Partition> partitions;          // of each table
  std::vector<KeyOwners> key_owners;          // of each table
  bool safe = true;
  std::vector<tensorflow::int64> columns;  // where joined(): the first one of each lookup
  std::vector<int64_t> widths;             // and how many it has
  int64_t columns_width = 0;

 private:
  tensorflow::Status ReadColumns(tensorflow::OpKernelConstruction* ctx);
};

// The inputs `ids`, `positions`, `shapes` and `weights` of a kernel call, checked, as bags.
class GroupInputs {
 public:
  virtual ~GroupInputs() = default;

  tensorflow::Status Read(tensorflow::OpKernelContext* ctx, const GroupAttrs& attrs);

  const Bags& bags(int lookup) const { return bags_[lookup]; }
  // Shape of a lookup's result without its last dimension.
  const tensorflow::TensorShape& outer_shape(int lookup) const { return outer_shapes_[lookup]; }

 protected:
  // These read positions, rather than pass them on: for device memory that is done on the device.
  virtual tensorflow::Status LastSegment(const tensorflow::Tensor& segments, int64_t* last);
  virtual tensorflow::Status FlattenRows(const tensorflow::Tensor& positions,
                                         const tensorflow::Tensor& shape, int lookup);

 private:
  tensorflow::Status ReadSparse(const tensorflow::Tensor& positions,
                                const tensorflow::Tensor& shape, int lookup);

  std::vector<Bags> bags_;
  std::vector<tensorflow::TensorShape> outer_shapes_;
  std::vector<std::vector<int64_t>> flat_rows_;  // of sparse ids with more than two dimensions
};

tensorflow::Status RowTypeOf(tensorflow::DataType dtype, RowType* type);

// A fault as an error for users, with the op, the table, the lookup, the row and the id.
tensorflow::Status FaultStatus(const BagFault& fault, const GroupAttrs& attrs,
                               const std::vector<int64_t>& table_rows, const std::string& op);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_LOOKUP_GROUP_INPUTS_H_
