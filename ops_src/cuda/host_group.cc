#include "cuda/host_group.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cuda/device_status.h"
#include "packed/row_update.h"
#include "packed/unique_ids.h"

namespace graph_opt {
namespace {

// Calls copy(place, row, count) for each run of consecutive rows.
template <typename Copy>
absl::Status ForEachRun(const int64_t* rows, int64_t count, const Copy& copy) {
  for (int64_t begin = 0; begin < count;) {
    int64_t end = begin + 1;
    while (end < count && rows[end] == rows[end - 1] + 1) ++end;
    GRAPH_OPT_RETURN_IF_ERROR(copy(begin, rows[begin], end - begin));
    begin = end;
  }
  return absl::OkStatus();
}

// The bag of a sparse id, or -1 if its positions are outside the shape.
int64_t BagOf(const GraphOptCudaLookup& lookup, const int64_t* positions) {
  int64_t bag = 0;
  for (int32_t d = 0; d < lookup.num_sizes; ++d) {
    if (positions[d] < 0 || positions[d] >= lookup.sizes[d]) return -1;
    bag = bag * lookup.sizes[d] + positions[d];
  }
  return bag;
}

int64_t NumPositions(const GraphOptCudaLookup& lookup) {
  if (lookup.layout == GRAPH_OPT_CUDA_DENSE) return 0;
  if (lookup.layout == GRAPH_OPT_CUDA_RAGGED) return lookup.num_bags + 1;
  return lookup.num_ids * lookup.stride;
}

// Rows and slots of a shard, as parts of what an update changes.
void* UpdatedPart(const GraphOptCudaShard& shard, int part) {
  return part == 0 ? shard.rows : shard.slots[part - 1];
}

}  // namespace

Bags BagsOf(const GraphOptCudaLookup& lookup) {
  Bags bags;
  bags.layout = static_cast<Bags::Layout>(lookup.layout);
  bags.wide_ids = lookup.wide_ids != 0;
  bags.ids = lookup.ids;
  bags.num_ids = lookup.num_ids;
  bags.positions = lookup.positions;
  bags.stride = lookup.stride;
  bags.width = lookup.width;
  bags.num_bags = lookup.num_bags;
  bags.weights = lookup.weights;
  bags.safe = lookup.safe != 0;
  bags.default_id = lookup.default_id;
  bags.filled_id = lookup.filled_id;
  bags.combiner = static_cast<Combiner>(lookup.combiner);
  return bags;
}

void FlattenPositions(const GraphOptCudaLookup& lookup, const int64_t* positions, int64_t* rows) {
  for (int64_t k = 0; k < lookup.num_ids; ++k) {
    rows[k] = BagOf(lookup, positions + k * lookup.stride);
  }
}

GradientTable GradientTableOf(const GraphOptCudaGroup& group, int table) {
  const GraphOptCudaTable& from = group.tables[table];
  std::vector<int64_t> rows;
  for (int32_t s = 0; s < from.num_shards; ++s) {
    rows.push_back(group.shards[from.first_shard + s].num_rows);
  }
  GradientTable to;
  to.shards = TableShards(static_cast<Partition>(from.partition), std::move(rows));
  to.dim = from.dim;
  to.type = static_cast<RowType>(from.type);
  return to;
}

HostGroup::HostGroup(const GraphOptCudaGroup& group, void* stream, Parallel* parallel)
    : group_(group), stream_(stream), parallel_(parallel) {
  for (int32_t t = 0; t < group.num_tables; ++t) tables_.push_back(GradientTableOf(group, t));
}

absl::Status HostGroup::Read() {
  lookups_ = std::vector<ReadLookup>(group_.num_lookups);
  for (int32_t i = 0; i < group_.num_lookups; ++i) {
    GRAPH_OPT_RETURN_IF_ERROR(ReadBags(group_.lookups[i], &lookups_[i]));
  }
  return absl::OkStatus();
}

absl::Status HostGroup::ReadBags(const GraphOptCudaLookup& from, ReadLookup* to) {
  const int64_t id_bytes = from.wide_ids ? sizeof(int64_t) : sizeof(int32_t);
  const int64_t num_positions = NumPositions(from);
  to->bags = BagsOf(from);
  to->ids.Reserve(std::max<int64_t>(from.num_ids, 1) * id_bytes);
  to->positions.Reserve(std::max<int64_t>(num_positions, 1));
  to->bags.ids = to->ids.data();
  to->bags.positions = to->positions.data();
  GRAPH_OPT_RETURN_IF_ERROR(DeviceStatus(graph_opt_cuda_download_rows(
      from.ids, id_bytes, id_bytes, from.num_ids, to->ids.data(), stream_)));
  GRAPH_OPT_RETURN_IF_ERROR(
      DeviceStatus(graph_opt_cuda_download_rows(from.positions, sizeof(int64_t), sizeof(int64_t),
                                                num_positions, to->positions.data(), stream_)));
  if (from.layout == GRAPH_OPT_CUDA_SPARSE && from.num_sizes > 1) {
    FlattenPositions(from, to->positions.data(), to->positions.data());
    to->bags.stride = 1;
  }
  if (from.weights == nullptr) return absl::OkStatus();
  to->weights.Reserve(std::max<int64_t>(from.num_ids, 1));
  to->bags.weights = to->weights.data();
  return DeviceStatus(graph_opt_cuda_download_rows(from.weights, sizeof(float), sizeof(float),
                                                   from.num_ids, to->weights.data(), stream_));
}

int64_t HostGroup::RowBytes(int table) const {
  return tables_[table].dim * ByteSize(tables_[table].type);
}

absl::Status HostGroup::ReadRows(const void* rows, int64_t row_bytes, const int64_t* which,
                                 int64_t count, char* to) {
  const char* const from = static_cast<const char*>(rows);
  return ForEachRun(which, count, [&](int64_t place, int64_t row, int64_t length) {
    return DeviceStatus(graph_opt_cuda_download_rows(from + row * row_bytes, row_bytes, row_bytes,
                                                     length, to + place * row_bytes, stream_));
  });
}

absl::Status HostGroup::WriteRows(const char* from, int64_t row_bytes, const int64_t* which,
                                  int64_t count, void* rows) {
  char* const to = static_cast<char*>(rows);
  return ForEachRun(which, count, [&](int64_t place, int64_t row, int64_t length) {
    return DeviceStatus(graph_opt_cuda_upload_rows(from + place * row_bytes, row_bytes, length,
                                                   to + row * row_bytes, row_bytes, stream_));
  });
}

// As for tables on servers: each row that occurs is fetched once, and ids become the numbers of the
// fetched rows.
absl::Status HostGroup::Lookup(BagFault* fault) {
  GRAPH_OPT_RETURN_IF_ERROR(Read());
  std::vector<PooledGradient> named(lookups_.size());
  for (size_t i = 0; i < lookups_.size(); ++i) {
    named[i].bags = lookups_[i].bags;
    named[i].bags.filled_id = -1;  // of gradients only
    named[i].table = group_.lookups[i].table;
  }
  const std::vector<KeyTable> none_by_key(tables_.size());
  UniqueIds unique(tables_, none_by_key, named, parallel_);
  *fault = unique.Find();
  if (fault->kind != BagFault::kNone) return absl::OkStatus();
  std::vector<ScratchArray<int64_t>> rows;  // of all shards
  std::vector<std::vector<int64_t*>> places(tables_.size());
  for (size_t t = 0; t < tables_.size(); ++t) {
    for (int s = 0; s < tables_[t].shards.num_shards(); ++s) {
      rows.emplace_back(std::max<int64_t>(unique.NumRows(static_cast<int>(t), s), 1));
      places[t].push_back(rows.back().data());
    }
  }
  ScratchArray<int32_t> inverse(unique.inverse_size());
  unique.Write(places, {}, inverse.data());
  std::vector<ScratchArray<char>> fetched(tables_.size());
  std::vector<Table> tables(tables_.size());
  for (size_t t = 0; t < tables_.size(); ++t) {
    const GraphOptCudaShard* const shards = group_.shards + group_.tables[t].first_shard;
    const int64_t row_bytes = RowBytes(static_cast<int>(t));
    int64_t total = 0;
    for (size_t s = 0; s < places[t].size(); ++s) {
      total += unique.NumRows(static_cast<int>(t), static_cast<int>(s));
    }
    fetched[t].Reserve(std::max<int64_t>(total * row_bytes, 1));
    char* to = fetched[t].data();
    for (size_t s = 0; s < places[t].size(); ++s) {
      const int64_t count = unique.NumRows(static_cast<int>(t), static_cast<int>(s));
      GRAPH_OPT_RETURN_IF_ERROR(ReadRows(shards[s].rows, row_bytes, places[t][s], count, to));
      to += count * row_bytes;
    }
    tables[t].shards = TableShards(Partition::kKeys, {total});
    tables[t].data.push_back(fetched[t].data());
    tables[t].dim = tables_[t].dim;
    tables[t].type = tables_[t].type;
  }
  const int32_t* numbers = inverse.data();
  const int32_t* defaults = numbers + unique.inverse_size() - static_cast<int64_t>(lookups_.size());
  std::vector<graph_opt::Lookup> lookups(lookups_.size());
  std::vector<ScratchArray<char>> pooled(lookups_.size());
  for (size_t i = 0; i < lookups_.size(); ++i) {
    const int table = named[i].table;
    pooled[i].Reserve(std::max<int64_t>(named[i].bags.num_bags * RowBytes(table), 1));
    lookups[i].bags = named[i].bags;
    lookups[i].bags.ids = numbers;
    lookups[i].bags.wide_ids = false;
    if (lookups[i].bags.default_id >= 0) lookups[i].bags.default_id = defaults[i];
    lookups[i].table = table;
    lookups[i].pooled = pooled[i].data();
    lookups[i].pooled_stride = tables_[table].dim;
    lookups[i].pooled_type = tables_[table].type;
    numbers += named[i].bags.num_ids;
  }
  *fault = GroupLookup(tables, lookups, BestRowKernels(), parallel_);
  if (fault->kind != BagFault::kNone) return absl::OkStatus();
  for (size_t i = 0; i < lookups_.size(); ++i) {
    const GraphOptCudaLookup& to = group_.lookups[i];
    GRAPH_OPT_RETURN_IF_ERROR(DeviceStatus(
        graph_opt_cuda_upload_rows(pooled[i].data(), RowBytes(to.table), to.num_bags, to.pooled,
                                   to.pooled_stride * ByteSize(tables_[to.table].type), stream_)));
  }
  return absl::OkStatus();
}

absl::Status HostGroup::ReadGradients() {
  for (size_t i = 0; i < lookups_.size(); ++i) {
    const GraphOptCudaLookup& from = group_.lookups[i];
    const int64_t row_bytes = RowBytes(from.table);
    lookups_[i].gradients.Reserve(std::max<int64_t>(from.num_bags * row_bytes, 1));
    GRAPH_OPT_RETURN_IF_ERROR(DeviceStatus(graph_opt_cuda_download_rows(
        from.pooled, from.pooled_stride * ByteSize(tables_[from.table].type), row_bytes,
        from.num_bags, lookups_[i].gradients.data(), stream_)));
  }
  return absl::OkStatus();
}

absl::Status HostGroup::Sort(BagFault* fault) {
  GRAPH_OPT_RETURN_IF_ERROR(Read());
  GRAPH_OPT_RETURN_IF_ERROR(ReadGradients());
  std::vector<PooledGradient> gradients(lookups_.size());
  for (size_t i = 0; i < lookups_.size(); ++i) {
    gradients[i].bags = lookups_[i].bags;
    gradients[i].table = group_.lookups[i].table;
    gradients[i].gradients = lookups_[i].gradients.data();
    gradients[i].stride = tables_[gradients[i].table].dim;
  }
  gradient_.reset(new GroupGradient(tables_, gradients, BestRowKernels(), parallel_));
  *fault = gradient_->Sort();
  return absl::OkStatus();
}

int64_t HostGroup::NumRows(int shard) const {
  int table = 0;
  while (shard >= group_.tables[table].first_shard + group_.tables[table].num_shards) ++table;
  return gradient_->NumRows(table, shard - group_.tables[table].first_shard);
}

std::vector<HostGroup::ShardSums> HostGroup::SumOnHost() {
  std::vector<ShardSums> all(group_.num_shards);
  std::vector<std::vector<GroupGradient::ShardSums>> to(tables_.size());
  for (int32_t t = 0; t < group_.num_tables; ++t) {
    const GraphOptCudaTable& table = group_.tables[t];
    for (int32_t s = table.first_shard; s < table.first_shard + table.num_shards; ++s) {
      const int64_t count = std::max<int64_t>(NumRows(s), 1);
      all[s].rows.Reserve(count);
      all[s].sums.Reserve(std::max<int64_t>(count * RowBytes(t), 1));
      to[t].push_back({all[s].rows.data(), all[s].sums.data()});
    }
  }
  gradient_->SumRows(to);
  return all;
}

absl::Status HostGroup::Sum() {
  const std::vector<ShardSums> all = SumOnHost();
  for (int32_t t = 0; t < group_.num_tables; ++t) {
    const GraphOptCudaTable& table = group_.tables[t];
    for (int32_t s = table.first_shard; s < table.first_shard + table.num_shards; ++s) {
      const GraphOptCudaShard& shard = group_.shards[s];
      GRAPH_OPT_RETURN_IF_ERROR(
          DeviceStatus(graph_opt_cuda_upload_rows(all[s].rows.data(), sizeof(int64_t), NumRows(s),
                                                  shard.indices, sizeof(int64_t), stream_)));
      GRAPH_OPT_RETURN_IF_ERROR(DeviceStatus(graph_opt_cuda_upload_rows(
          all[s].sums.data(), RowBytes(t), NumRows(s), shard.sums, RowBytes(t), stream_)));
    }
  }
  return absl::OkStatus();
}

absl::Status HostGroup::ReadUpdated(int table, int shard, const int64_t* rows, UpdatedCopy* copy) {
  const GraphOptCudaShard& from = group_.shards[shard];
  const int64_t count = NumRows(shard);
  for (int part = 0; part < kUpdatedParts; ++part) {
    const void* const values = UpdatedPart(from, part);
    if (values == nullptr) continue;
    copy->parts[part].Reserve(std::max<int64_t>(count * tables_[table].dim, 1));
    GRAPH_OPT_RETURN_IF_ERROR(ReadRows(values, RowBytes(table), rows, count,
                                       reinterpret_cast<char*>(copy->parts[part].data())));
  }
  copy->numbers.Reserve(std::max<int64_t>(count, 1));
  std::iota(copy->numbers.data(), copy->numbers.data() + count, int64_t{0});
  return absl::OkStatus();
}

absl::Status HostGroup::WriteUpdated(int table, int shard, const int64_t* rows, UpdatedCopy* copy) {
  for (int part = 0; part < kUpdatedParts; ++part) {
    void* const to = UpdatedPart(group_.shards[shard], part);
    if (to == nullptr) continue;
    const char* const from = reinterpret_cast<const char*>(copy->parts[part].data());
    GRAPH_OPT_RETURN_IF_ERROR(WriteRows(from, RowBytes(table), rows, NumRows(shard), to));
  }
  return absl::OkStatus();
}

// The rows that have a gradient form a small shard of their own during the update.
absl::Status HostGroup::Apply(const Optimizer& optimizer) {
  std::vector<ShardSums> all = SumOnHost();
  std::vector<UpdatedCopy> copies(all.size());
  std::vector<UpdatedShard> shards(all.size());
  RowUpdate update;
  update.blocks.resize(all.size());
  update.bags.resize(all.size());
  for (int32_t t = 0; t < group_.num_tables; ++t) {
    const GraphOptCudaTable& table = group_.tables[t];
    for (int32_t s = table.first_shard; s < table.first_shard + table.num_shards; ++s) {
      UpdatedCopy& copy = copies[s];
      GRAPH_OPT_RETURN_IF_ERROR(ReadUpdated(t, s, all[s].rows.data(), &copy));
      const int64_t count = NumRows(s);
      shards[s] = UpdatedShard{"", copy.parts[0].data(), {}, count, table.dim};
      for (int slot = 0; slot < kMostSlots; ++slot) {
        shards[s].slots[slot] = copy.parts[1 + slot].data();
      }
      update.blocks[s] =
          UpdateBlock{count, table.dim,           0,
                      count, copy.numbers.data(), reinterpret_cast<float*>(all[s].sums.data())};
    }
  }
  ApplyUpdate(optimizer, shards, update, BestRowKernels(), parallel_);
  for (int32_t t = 0; t < group_.num_tables; ++t) {
    const GraphOptCudaTable& table = group_.tables[t];
    for (int32_t s = table.first_shard; s < table.first_shard + table.num_shards; ++s) {
      GRAPH_OPT_RETURN_IF_ERROR(WriteUpdated(t, s, all[s].rows.data(), &copies[s]));
    }
  }
  return absl::OkStatus();
}

}  // namespace graph_opt
