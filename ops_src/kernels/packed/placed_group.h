#ifndef GRAPH_OPT_KERNELS_PACKED_PLACED_GROUP_H_
#define GRAPH_OPT_KERNELS_PACKED_PLACED_GROUP_H_

#include <memory>
#include <vector>

#include "kernels/lookup/group_inputs.h"
#include "lookup/group_gradient.h"
#include "packed/packed_bags.h"
#include "packed/sent_bags.h"
#include "packed/server_pooling.h"
#include "packed/unique_keys.h"
#include "scratch/scratch_pool.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// An op of a group whose shards are on servers.
class PlacedGroupKernel : public tensorflow::OpKernel {
 public:
  explicit PlacedGroupKernel(tensorflow::OpKernelConstruction* ctx);

 protected:
  int num_servers() const { return num_servers_; }
  const std::vector<int>& servers() const { return servers_; }  // of each shard
  // The lookups of a table, ascending.
  const std::vector<int>& lookups_of(int table) const { return lookups_of_[table]; }

  // How the keys of each table are divided.
  const std::vector<KeyTable>& by_key() const { return by_key_; }
  bool IsByKey(int table) const { return by_key_[table].owners != KeyOwners::kNone; }

  // Reads `table_widths`.
  tensorflow::Status ReadWidths(tensorflow::OpKernelConstruction* ctx,
                                std::vector<int64_t>* widths) const;

  // The tables without their widths, if the op has `shard_rows`.
  std::vector<GradientTable> Tables(std::vector<int64_t>* table_rows) const;

  GroupAttrs attrs_;

 private:
  tensorflow::Status ReadPlacement(tensorflow::OpKernelConstruction* ctx);
  tensorflow::Status CheckLength(const char* attribute, size_t length, int wanted,
                                 const char* unit) const;

  int num_servers_ = 0;
  std::vector<int> servers_;
  std::vector<tensorflow::int64> shard_rows_;
  std::vector<std::vector<int>> lookups_of_;
  std::vector<KeyTable> by_key_;
};

// An op that sends rows of some tables and the bags of others (server_pooling.h).
class SendingKernel : public PlacedGroupKernel {
 public:
  explicit SendingKernel(tensorflow::OpKernelConstruction* ctx);

 protected:
  struct Parts {
    std::vector<TableTraffic> traffic;
    std::vector<bool> pools;              // of each table, whether its server does
    bool counts = false;                  // whether to count the rows of those, too
    std::vector<PooledGradient> by_rows;  // the lookups of the others
    std::vector<int> row_places;          // where they are among all

    // Adds the lookups of tables whose servers do not pool.
    void Add(const std::vector<PooledGradient>& lookups);
  };

  // Chooses which servers pool.
  Parts Part(const std::vector<GradientTable>& tables, const std::vector<PooledGradient>& lookups);
  // Servers pool the tables whose bags were sent.
  Parts Part(const std::vector<GradientTable>& tables, const std::vector<PooledGradient>& lookups,
             const std::vector<SentBags>& sent) const;

  // The first fault of two, `of_rows` being one of `by_rows`.
  static BagFault FirstOf(BagFault of_rows, const BagFault& of_bags, const Parts& parts);

  // Reads the bags that are sent; those of lookup i come i-th.
  BagFault ReadBags(const std::vector<GradientTable>& tables,
                    const std::vector<PooledGradient>& lookups, const Parts& parts,
                    Parallel* parallel, std::vector<BagPacking>* bags) const;

  // Words of the bags of a table.
  int64_t BagWords(int table, const std::vector<BagPacking>& bags) const;

  // Writes the bags of tables to words[table].
  void WriteBags(const Parts& parts, const std::vector<BagPacking>& bags,
                 const std::vector<int64_t*>& words, Parallel* parallel) const;

  // `Found` has NumRows(table, shard). `pooled` says for tables of which servers they are: those
  // that pool, or the others.
  template <typename Found>
  void Learn(const Parts& parts, const Found& found, bool pooled = false) {
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      if (parts.pools[t] != pooled) continue;
      int64_t rows = 0;
      for (int s = 0; s < attrs_.table_shards[t]; ++s) rows += found.NumRows(t, s);
      pooling_->Learn(t, parts.traffic[t], rows);
    }
  }

 private:
  std::vector<TableTraffic> Traffic(const std::vector<GradientTable>& tables,
                                    const std::vector<PooledGradient>& lookups) const;

  std::unique_ptr<ServerPooling> pooling_;
  ScratchUser scratch_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_PACKED_PLACED_GROUP_H_
