#include "kernels/packed/placed_group.h"

#include <limits>
#include <string>
#include <utility>

#include "kernels/kernel_names.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;

PlacedGroupKernel::PlacedGroupKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
  OP_REQUIRES_OK(ctx, attrs_.Read(ctx));
  OP_REQUIRES_OK(ctx, ReadPlacement(ctx));
  lookups_of_.resize(attrs_.num_tables());
  for (int i = 0; i < attrs_.num_lookups(); ++i) lookups_of_[attrs_.lookup_tables[i]].push_back(i);
  for (int t = 0; t < attrs_.num_tables(); ++t) {
    by_key_.push_back(KeyTable{attrs_.key_owners[t], attrs_.table_shards[t]});
  }
}

std::vector<GradientTable> PlacedGroupKernel::Tables(std::vector<int64_t>* table_rows) const {
  std::vector<GradientTable> tables(attrs_.num_tables());
  for (int t = 0; t < attrs_.num_tables(); ++t) {
    std::vector<int64_t> rows(shard_rows_.begin() + attrs_.first_shard(t),
                              shard_rows_.begin() + attrs_.first_shard(t + 1));
    tables[t].shards = TableShards(attrs_.partition(t), std::move(rows));
    table_rows->push_back(tables[t].shards.num_rows());
  }
  return tables;
}

Status PlacedGroupKernel::ReadPlacement(OpKernelConstruction* ctx) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("shard_servers", &servers_));
  TF_RETURN_IF_ERROR(ctx->GetAttr("num_servers", &num_servers_));
  TF_RETURN_IF_ERROR(CheckLength("shard_servers", servers_.size(), attrs_.num_shards(), "shards"));
  for (int server : servers_) {
    if (server < 0 || server >= num_servers_) {
      return errors::InvalidArgument(name(), ": shard_servers names server ", server, " of ",
                                     num_servers_);
    }
  }
  if (!ctx->HasAttr("shard_rows")) return Status();
  TF_RETURN_IF_ERROR(ctx->GetAttr("shard_rows", &shard_rows_));
  TF_RETURN_IF_ERROR(CheckLength("shard_rows", shard_rows_.size(), attrs_.num_shards(), "shards"));
  for (tensorflow::int64 rows : shard_rows_) {
    if (rows < 0) return errors::InvalidArgument(name(), ": shard_rows has ", rows);
  }
  return Status();
}

Status PlacedGroupKernel::ReadWidths(OpKernelConstruction* ctx,
                                     std::vector<int64_t>* widths) const {
  std::vector<tensorflow::int64> read;
  TF_RETURN_IF_ERROR(ctx->GetAttr("table_widths", &read));
  widths->assign(read.begin(), read.end());
  return CheckLength("table_widths", read.size(), attrs_.num_tables(), "tables");
}

Status PlacedGroupKernel::CheckLength(const char* attribute, size_t length, int wanted,
                                      const char* unit) const {
  if (length == static_cast<size_t>(wanted)) return Status();
  return errors::InvalidArgument(name(), ": ", attribute, " has ", length,
                                 " entries, need one for each of the ", wanted, " ", unit);
}

SendingKernel::SendingKernel(OpKernelConstruction* ctx) : PlacedGroupKernel(ctx) {
  std::string mode;
  OP_REQUIRES_OK(ctx, ctx->GetAttr("pool_on_server", &mode));
  pooling_.reset(new ServerPooling(mode == "always"     ? ServerPooling::Mode::kAlways
                                   : mode == "never"    ? ServerPooling::Mode::kNever
                                   : mode == "together" ? ServerPooling::Mode::kTogether
                                                        : ServerPooling::Mode::kAuto));
}

std::vector<TableTraffic> SendingKernel::Traffic(const std::vector<GradientTable>& tables,
                                                 const std::vector<PooledGradient>& lookups) const {
  std::vector<TableTraffic> all(tables.size());
  for (int t = 0; t < attrs_.num_tables(); ++t) {
    TableTraffic& traffic = all[t];
    const int64_t rows = tables[t].shards.num_rows();
    traffic.can_pool = tables[t].shards.num_shards() == 1 && !IsByKey(t) &&
                       rows <= std::numeric_limits<int32_t>::max();
    traffic.row_bytes = tables[t].dim * ByteSize(tables[t].type);
    traffic.bytes_per_id = rows <= 1 << 8 ? 1 : rows <= 1 << 16 ? 2 : 4;
    for (int i : lookups_of(t)) {
      traffic.num_ids += lookups[i].bags.num_ids;
      traffic.num_bags += lookups[i].bags.num_bags;
      if (attrs_.weighted[i]) traffic.num_weights += lookups[i].bags.num_ids;
    }
  }
  return all;
}

SendingKernel::Parts SendingKernel::Part(const std::vector<GradientTable>& tables,
                                         const std::vector<PooledGradient>& lookups) {
  Parts parts;
  parts.traffic = Traffic(tables, lookups);
  ServerPooling::Choice choice = pooling_->Choose(parts.traffic);
  parts.pools = std::move(choice.pools);
  parts.counts = choice.counts;
  parts.Add(lookups);
  return parts;
}

SendingKernel::Parts SendingKernel::Part(const std::vector<GradientTable>& tables,
                                         const std::vector<PooledGradient>& lookups,
                                         const std::vector<SentBags>& sent) const {
  Parts parts;
  parts.traffic = Traffic(tables, lookups);
  for (const SentBags& bags : sent) parts.pools.push_back(bags.words != nullptr);
  parts.Add(lookups);
  return parts;
}

void SendingKernel::Parts::Add(const std::vector<PooledGradient>& lookups) {
  for (size_t i = 0; i < lookups.size(); ++i) {
    if (pools[lookups[i].table]) continue;
    row_places.push_back(static_cast<int>(i));
    by_rows.push_back(lookups[i]);
  }
}

BagFault SendingKernel::FirstOf(BagFault of_rows, const BagFault& of_bags, const Parts& parts) {
  if (of_rows.kind == BagFault::kNone) return of_bags;
  of_rows.lookup = parts.row_places[of_rows.lookup];
  return of_bags.Before(of_rows) ? of_bags : of_rows;
}

BagFault SendingKernel::ReadBags(const std::vector<GradientTable>& tables,
                                 const std::vector<PooledGradient>& lookups, const Parts& parts,
                                 Parallel* parallel, std::vector<BagPacking>* bags) const {
  bags->resize(lookups.size());
  FirstFault first;
  parallel->Run(static_cast<int64_t>(lookups.size()), [&](int64_t i) {
    const int table = lookups[i].table;
    if (!parts.pools[table]) return;
    BagFault fault = (*bags)[i].Read(lookups[i].bags, tables[table].shards.num_rows());
    fault.lookup = i;
    if (fault.kind != BagFault::kNone) first.Tell(fault);
  });
  return first.fault();
}

int64_t SendingKernel::BagWords(int table, const std::vector<BagPacking>& bags) const {
  int64_t words = 0;
  for (int i : lookups_of(table)) words += bags[i].num_words();
  return words;
}

void SendingKernel::WriteBags(const Parts& parts, const std::vector<BagPacking>& bags,
                              const std::vector<int64_t*>& words, Parallel* parallel) const {
  parallel->Run(attrs_.num_tables(), [&](int64_t t) {
    if (!parts.pools[t]) return;
    int64_t* to = words[t];
    for (int i : lookups_of(static_cast<int>(t))) to = bags[i].Write(to);
  });
}

}  // namespace graph_opt
