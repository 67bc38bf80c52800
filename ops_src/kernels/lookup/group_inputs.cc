#include "kernels/lookup/group_inputs.h"

#include <limits>

#include "kernels/kernel_names.h"
#include "kernels/lookup/columns.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

const int64_t* Int64s(const Tensor& tensor) {
  return reinterpret_cast<const int64_t*>(tensor.flat<tensorflow::int64>().data());
}

Status LengthIs(const char* name, size_t length, size_t wanted, const char* unit) {
  if (length == wanted) return Status();
  return errors::InvalidArgument(name, " has ", length, " entries, need one for each of the ",
                                 wanted, " ", unit);
}

Status ReadCombiner(const std::string& name, Combiner* combiner) {
  if (name == "sum") {
    *combiner = Combiner::kSum;
  } else if (name == "mean") {
    *combiner = Combiner::kMean;
  } else if (name == "sqrtn") {
    *combiner = Combiner::kSqrtN;
  } else if (name == "mean_or_nan") {
    *combiner = Combiner::kMeanOrNan;
  } else if (name == "sqrtn_or_nan") {
    *combiner = Combiner::kSqrtNOrNan;
  } else {
    return errors::InvalidArgument("unknown combiner '", name,
                                   "'; need sum, mean, sqrtn, mean_or_nan or sqrtn_or_nan");
  }
  return Status();
}

Status ReadLayout(const std::string& name, Bags::Layout* layout) {
  if (name == "dense") {
    *layout = Bags::kDense;
  } else if (name == "ragged") {
    *layout = Bags::kRagged;
  } else if (name == "sparse") {
    *layout = Bags::kSparse;
  } else {
    return errors::InvalidArgument("unknown layout '", name, "'; need dense, ragged or sparse");
  }
  return Status();
}

}  // namespace

Status GroupAttrs::Read(OpKernelConstruction* ctx) {
  std::vector<std::string> combiner_names;
  std::vector<std::string> layout_names;
  std::vector<std::string> strategies;
  TF_RETURN_IF_ERROR(ctx->GetAttr("lookup_tables", &lookup_tables));
  TF_RETURN_IF_ERROR(ctx->GetAttr("table_shards", &table_shards));
  TF_RETURN_IF_ERROR(ctx->GetAttr("table_names", &table_names));
  TF_RETURN_IF_ERROR(ctx->GetAttr("combiners", &combiner_names));
  TF_RETURN_IF_ERROR(ctx->GetAttr("layouts", &layout_names));
  TF_RETURN_IF_ERROR(ctx->GetAttr("weighted", &weighted));
  TF_RETURN_IF_ERROR(ctx->GetAttr("default_ids", &default_ids));
  TF_RETURN_IF_ERROR(ctx->GetAttr("filled_ids", &filled_ids));
  TF_RETURN_IF_ERROR(ctx->GetAttr("partition_strategies", &strategies));
  TF_RETURN_IF_ERROR(ctx->GetAttr("safe", &safe));
  int num_lookup_inputs;
  int num_weights;
  int num_shard_inputs;
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_lookups", &num_lookup_inputs));
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_weights", &num_weights));
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_shards", &num_shard_inputs));
  const size_t lookups = num_lookup_inputs;
  TF_RETURN_IF_ERROR(LengthIs("lookup_tables", lookup_tables.size(), lookups, "lookups"));
  TF_RETURN_IF_ERROR(LengthIs("combiners", combiner_names.size(), lookups, "lookups"));
  TF_RETURN_IF_ERROR(LengthIs("layouts", layout_names.size(), lookups, "lookups"));
  TF_RETURN_IF_ERROR(LengthIs("weighted", weighted.size(), lookups, "lookups"));
  TF_RETURN_IF_ERROR(LengthIs("default_ids", default_ids.size(), lookups, "lookups"));
  if (!filled_ids.empty()) {
    TF_RETURN_IF_ERROR(LengthIs("filled_ids", filled_ids.size(), lookups, "lookups"));
  }
  TF_RETURN_IF_ERROR(LengthIs("table_names", table_names.size(), table_shards.size(), "tables"));
  if (!strategies.empty()) {
    TF_RETURN_IF_ERROR(
        LengthIs("partition_strategies", strategies.size(), table_shards.size(), "tables"));
  }
  int with_weights = 0;
  for (bool is_weighted : weighted) with_weights += is_weighted;
  if (with_weights != num_weights) {
    return errors::InvalidArgument("num_weights is ", num_weights, ", but ", with_weights,
                                   " lookups are weighted");
  }
  std::vector<bool> looked_up(table_shards.size(), false);
  for (int table : lookup_tables) {
    if (table < 0 || table >= num_tables()) {
      return errors::InvalidArgument("lookup_tables names table ", table, " of ", num_tables());
    }
    looked_up[table] = true;
  }
  first_shards.assign(1, 0);
  for (int table = 0; table < num_tables(); ++table) {
    if (!looked_up[table] || table_shards[table] < 1) {
      return errors::InvalidArgument("table ", table_names[table], " has ", table_shards[table],
                                     " shards and ", looked_up[table] ? "a" : "no", " lookup");
    }
    first_shards.push_back(first_shards.back() + table_shards[table]);
  }
  TF_RETURN_IF_ERROR(LengthIs("the list of shards", num_shard_inputs, num_shards(),
                              "shards that table_shards counts"));
  combiners.resize(lookups);
  layouts.resize(lookups);
  for (size_t i = 0; i < lookups; ++i) {
    TF_RETURN_IF_ERROR(ReadCombiner(combiner_names[i], &combiners[i]));
    if (GivesNan(combiners[i]) && (safe || !weighted[i] || default_ids[i] >= 0)) {
      return errors::InvalidArgument("the combiner of lookup ", i, " is ", combiner_names[i],
                                     ", which needs weights, no default id, and safe to be false");
    }
    TF_RETURN_IF_ERROR(ReadLayout(layout_names[i], &layouts[i]));
  }
  partitions.assign(table_shards.size(), Partition::kMod);
  key_owners.assign(table_shards.size(), KeyOwners::kNone);
  for (size_t t = 0; t < strategies.size(); ++t) {
    if (strategies[t] == "div") partitions[t] = Partition::kDiv;
    if (strategies[t] == "key") key_owners[t] = KeyOwners::kMod;
    if (strategies[t] == "key1000") key_owners[t] = KeyOwners::kMod1000;
  }
  return ReadColumns(ctx);
}

Status GroupAttrs::ReadColumns(OpKernelConstruction* ctx) {
  tensorflow::int64 width;
  TF_RETURN_IF_ERROR(ctx->GetAttr("columns", &columns));
  TF_RETURN_IF_ERROR(ctx->GetAttr("columns_width", &width));
  columns_width = width;
  if (ctx->HasAttr("pooled_dtypes")) {
    tensorflow::DataTypeVector dtypes;
    TF_RETURN_IF_ERROR(ctx->GetAttr("pooled_dtypes", &dtypes));
    TF_RETURN_IF_ERROR(LengthIs("pooled_dtypes", dtypes.size(), joined() ? 1 : num_lookups(),
                                joined() ? "tensors of columns" : "lookups"));
  }
  if (!joined()) return Status();
  TF_RETURN_IF_ERROR(LengthIs("columns", columns.size(), num_lookups(), "lookups"));
  return WidthsOfColumns(columns, columns_width, &widths);
}

Status GroupInputs::Read(OpKernelContext* ctx, const GroupAttrs& attrs) {
  OpInputList ids;
  OpInputList positions;
  OpInputList shapes;
  OpInputList weights;
  TF_RETURN_IF_ERROR(ctx->input_list("ids", &ids));
  TF_RETURN_IF_ERROR(ctx->input_list("positions", &positions));
  TF_RETURN_IF_ERROR(ctx->input_list("shapes", &shapes));
  TF_RETURN_IF_ERROR(ctx->input_list("weights", &weights));
  bags_.resize(attrs.num_lookups());
  outer_shapes_.resize(attrs.num_lookups());
  flat_rows_.resize(attrs.num_lookups());
  int next_weights = 0;
  const auto read = [&](int i) -> Status {
    const Tensor& id = ids[i];
    Bags& bags = bags_[i];
    bags.layout = attrs.layouts[i];
    bags.combiner = attrs.combiners[i];
    bags.default_id = attrs.default_ids[i];
    if (!attrs.filled_ids.empty()) bags.filled_id = attrs.filled_ids[i];
    bags.safe = attrs.safe;
    bags.wide_ids = id.dtype() == tensorflow::DT_INT64;
    bags.ids = id.tensor_data().data();
    bags.num_ids = id.NumElements();
    if (attrs.weighted[i]) {
      const Tensor& weight = weights[next_weights++];
      if (weight.NumElements() != bags.num_ids) {
        return errors::InvalidArgument("lookup ", i, " has ", bags.num_ids, " ids and ",
                                       weight.NumElements(), " weights; need one for each id");
      }
      bags.weights = weight.flat<float>().data();
    }
    if (bags.layout == Bags::kDense) {
      if (id.dims() != 1 && id.dims() != 2) {
        return errors::InvalidArgument("dense ids of lookup ", i, " have shape ",
                                       id.shape().DebugString(), "; need one or two dimensions");
      }
      bags.num_bags = id.dim_size(0);
      bags.width = id.dims() == 2 ? id.dim_size(1) : 1;
      outer_shapes_[i] = TensorShape({bags.num_bags});
      return Status();
    }
    if (id.dims() != 1) {
      return errors::InvalidArgument("ids of lookup ", i, " have shape ", id.shape().DebugString(),
                                     "; need a vector");
    }
    if (bags.layout == Bags::kSparse) {
      return ReadSparse(positions[i], shapes[i], i);
    }
    if (positions[i].dims() != 1 || positions[i].NumElements() < 1) {
      return errors::InvalidArgument("row splits of lookup ", i, " have shape ",
                                     positions[i].shape().DebugString(),
                                     "; need a vector of at least one");
    }
    bags.positions = Int64s(positions[i]);
    bags.num_bags = positions[i].NumElements() - 1;
    outer_shapes_[i] = TensorShape({bags.num_bags});
    return Status();
  };
  for (int i = 0; i < attrs.num_lookups(); ++i) {
    const Status status = read(i);
    if (!status.ok()) {
      return errors::InvalidArgument(MessageOf(status), " (table '",
                                     attrs.table_names[attrs.lookup_tables[i]], "')");
    }
  }
  return Status();
}

Status GroupInputs::ReadSparse(const Tensor& positions, const Tensor& shape, int lookup) {
  Bags* bags = &bags_[lookup];
  const bool is_matrix = positions.dims() == 2;
  if ((!is_matrix && positions.dims() != 1) || positions.dim_size(0) != bags->num_ids) {
    return errors::InvalidArgument("indices of lookup ", lookup, " have shape ",
                                   positions.shape().DebugString(), "; need one row for each of ",
                                   bags->num_ids, " ids");
  }
  bags->positions = Int64s(positions);
  bags->stride = is_matrix ? positions.dim_size(1) : 1;
  if (!is_matrix && shape.NumElements() == 0) {  // segment ids: as many rows as the last one says
    int64_t last = -1;
    if (bags->num_ids > 0) TF_RETURN_IF_ERROR(LastSegment(positions, &last));
    bags->num_bags = last + 1;
    if (bags->num_bags < 0) {
      return errors::InvalidArgument("segment ids of lookup ", lookup, " are not >= 0");
    }
    outer_shapes_[lookup] = TensorShape({bags->num_bags});
    return Status();
  }
  const int64_t rank = shape.NumElements();
  if (shape.dims() != 1 || rank < (is_matrix ? 2 : 1) || (is_matrix && rank != bags->stride)) {
    return errors::InvalidArgument("dense shape of lookup ", lookup, " has ", rank,
                                   " entries and its indices have shape ",
                                   positions.shape().DebugString(), "; need [K, rank], rank >= 2");
  }
  TensorShape outer;
  const int64_t* sizes = Int64s(shape);
  for (int64_t d = 0; d < rank - (is_matrix ? 1 : 0); ++d) {
    if (sizes[d] < 0) {
      return errors::InvalidArgument("dense shape of lookup ", lookup, " has the size ", sizes[d]);
    }
    TF_RETURN_IF_ERROR(AppendDimension(sizes[d], &outer));
  }
  bags->num_bags = outer.num_elements();
  if (bags->num_bags > std::numeric_limits<int32_t>::max()) {
    return errors::InvalidArgument("dense shape of lookup ", lookup, " has ", bags->num_bags,
                                   " rows; need fewer than 2^31");
  }
  outer_shapes_[lookup] = outer;
  if (is_matrix && rank > 2) return FlattenRows(positions, shape, lookup);
  return Status();
}

Status GroupInputs::LastSegment(const Tensor& segments, int64_t* last) {
  *last = Int64s(segments)[segments.NumElements() - 1];
  return Status();
}

Status GroupInputs::FlattenRows(const Tensor& positions, const Tensor& shape, int lookup) {
  Bags* const bags = &bags_[lookup];
  std::vector<int64_t>& rows = flat_rows_[lookup];
  rows.resize(bags->num_ids);
  const int64_t* sizes = Int64s(shape);
  const int64_t* indices = Int64s(positions);
  for (int64_t k = 0; k < bags->num_ids; ++k) {
    int64_t row = 0;
    for (int64_t d = 0; d + 1 < bags->stride; ++d) {
      const int64_t index = indices[k * bags->stride + d];
      if (index < 0 || index >= sizes[d]) {
        return errors::InvalidArgument("indices[", k, ", ", d, "] = ", index,
                                       " of a sparse tensor is outside its size ", sizes[d]);
      }
      row = row * sizes[d] + index;
    }
    rows[k] = row;
  }
  bags->positions = rows.data();
  bags->stride = 1;
  return Status();
}

Status RowTypeOf(DataType dtype, RowType* type) {
  if (dtype == tensorflow::DT_FLOAT) {
    *type = RowType::kFloat;
  } else if (dtype == tensorflow::DT_HALF) {
    *type = RowType::kHalf;
  } else if (dtype == tensorflow::DT_BFLOAT16) {
    *type = RowType::kBfloat16;
  } else {
    return errors::InvalidArgument("a table of ", tensorflow::DataTypeString(dtype),
                                   "; need float32, float16 or bfloat16");
  }
  return Status();
}

Status FaultStatus(const BagFault& fault, const GroupAttrs& attrs,
                   const std::vector<int64_t>& table_rows, const std::string& op) {
  if (fault.kind == BagFault::kNone) return Status();
  const int table = attrs.lookup_tables[fault.lookup];
  const std::string& name = attrs.table_names[table];
  if (fault.kind == BagFault::kIdOutOfRange) {
    return errors::InvalidArgument(op, ": id ", fault.id, " in row ", fault.bag, " of lookup ",
                                   fault.lookup, " is not in [0, ", table_rows[table],
                                   "), the rows of table '", name, "'");
  }
  if (fault.kind == BagFault::kTooMany) {
    return errors::InvalidArgument(op, ": too many ids for one step in table '", name, "'");
  }
  return errors::InvalidArgument(
      op, ": ids of lookup ", fault.lookup, " in table '", name,
      "' are not in the order of their rows, or outside the rows, at row ", fault.bag);
}

}  // namespace graph_opt
