#include "kernels/lookup/looked_up_tables.h"

#include <string>
#include <utility>

#include "kernels/kernel_names.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// Each part of a table must be a matrix, or dynamic; those of one table are equally wide.
Status CheckPart(const VariableTables& tensors, const GroupAttrs& attrs, int table, int shard) {
  const int first = attrs.first_shard(table);
  const Tensor& tensor = tensors[shard];
  const bool is_matrix = tensors.dynamic_table(shard) != nullptr || tensor.dims() == 2;
  if (is_matrix && tensors.memory(shard).dim == tensors.memory(first).dim &&
      tensor.dtype() == tensors[first].dtype()) {
    return Status();
  }
  return errors::InvalidArgument("table '", attrs.table_names[table], "' has a part of shape ",
                                 tensor.shape().DebugString(), " and type ",
                                 tensorflow::DataTypeString(tensor.dtype()),
                                 "; need [rows, width], all parts alike");
}

// Tables of int8 have a scale in front of each row.
Status TypeOfRows(const Tensor& tensor, const std::string& name, Table* table) {
  if (tensor.dtype() != tensorflow::DT_INT8) return RowTypeOf(tensor.dtype(), &table->type);
  table->type = RowType::kScaledBytes;
  table->dim -= kScaleBytes;
  if (table->dim > 0) return Status();
  return errors::InvalidArgument("table '", name, "' of int8 has shape ",
                                 tensor.shape().DebugString(),
                                 "; need [rows, 4 + width], each row with its scale in front");
}

}  // namespace

Status LookedUpTables::Open(OpKernelContext* ctx, const GroupAttrs& attrs, KnownTables* known) {
  TF_RETURN_IF_ERROR(variables_.Open(ctx, 0, attrs.num_shards(), VariableTables::kRead));
  if (known != nullptr) {
    found_ = known->last();
    have_moved_ = found_ == nullptr || !AreKnown(*found_, attrs);
    if (!have_moved_) return Status();
  }
  const auto found = std::make_shared<KnownTables::Found>();
  TF_RETURN_IF_ERROR(Find(attrs, found.get()));
  found_ = found;
  if (known != nullptr) known->Keep(found_);
  return Status();
}

bool LookedUpTables::AreKnown(const KnownTables::Found& known, const GroupAttrs& attrs) const {
  for (int t = 0; t < attrs.num_tables(); ++t) {
    for (int shard = attrs.first_shard(t); shard < attrs.first_shard(t + 1); ++shard) {
      const bool has_rows = variables_.dynamic_table(shard) != nullptr ||
                            variables_[shard].dims() == 2;  // else Find says what is wrong
      if (!has_rows || known.dtypes[t] != variables_[shard].dtype()) return false;
      const TableMemory memory = variables_.memory(shard);
      const TableMemory& before = known.memory[shard];
      if (memory.data != before.data || memory.num_rows != before.num_rows ||
          memory.dim != before.dim || memory.stride != before.stride) {
        return false;
      }
    }
  }
  return true;
}

Status LookedUpTables::Find(const GroupAttrs& attrs, KnownTables::Found* found) const {
  found->tables.resize(attrs.num_tables());
  for (int t = 0; t < attrs.num_tables(); ++t) {
    Table& table = found->tables[t];
    const int first = attrs.first_shard(t);
    std::vector<int64_t> rows;
    for (int shard = first; shard < attrs.first_shard(t + 1); ++shard) {
      TF_RETURN_IF_ERROR(CheckPart(variables_, attrs, t, shard));
      const TableMemory memory = variables_.memory(shard);
      found->memory.push_back(memory);
      rows.push_back(memory.num_rows);
      table.data.push_back(memory.data);
      table.strides.push_back(memory.stride);
      table.dim = memory.dim;
    }
    TF_RETURN_IF_ERROR(TypeOfRows(variables_[first], attrs.table_names[t], &table));
    table.shards = TableShards(attrs.partition(t), std::move(rows));
    found->rows.push_back(table.shards.num_rows());
    found->dims.push_back(table.dim);
    found->dtypes.push_back(variables_[first].dtype());
  }
  return Status();
}

}  // namespace graph_opt
