#ifndef GRAPH_OPT_PACKED_UNIQUE_IDS_H_
#define GRAPH_OPT_PACKED_UNIQUE_IDS_H_

#include <cstdint>
#include <vector>

#include "packed/inverse_places.h"
#include "packed/unique_keys.h"
#include "packed/unique_rows.h"

namespace graph_opt {

// The rows and keys that the lookups of a group name, each once: UniqueRows and UniqueKeys.
class UniqueIds {
 public:
  // Of tables that go by key (`keys`, one for each table) the shards are not read.
  UniqueIds(const std::vector<GradientTable>& tables, const std::vector<KeyTable>& keys,
            const std::vector<PooledGradient>& lookups, Parallel* parallel)
      : by_key_(keys),
        places_(lookups),
        rows_(tables, keys, lookups, places_, parallel),
        keys_(keys, lookups, places_, parallel) {}

  BagFault Find() {
    ScratchPool::OfProcess()->BeginCall();
    const BagFault of_rows = rows_.Find();
    const BagFault of_keys = keys_.Find();
    return of_keys.Before(of_rows) ? of_keys : of_rows;
  }

  // Rows or keys.
  int64_t NumRows(int table, int shard) const {
    return by_key_[table].owners == KeyOwners::kNone ? rows_.NumRows(table, shard)
                                                     : keys_.NumKeys(table, shard);
  }
  // The greatest number of times that a key of a shard was named.
  int32_t MostCount(int table, int shard) const { return keys_.MostCount(table, shard); }

  int64_t inverse_size() const { return places_.size(); }

  // `rows[table][shard]` and `keys[table][shard]` take NumRows(), of the tables of their kind. The
  // number of an id that is dropped, and of a default row that no bag needs, is -1.
  void Write(const std::vector<std::vector<int64_t*>>& rows,
             const std::vector<std::vector<ShardKeys>>& keys, int32_t* inverse) {
    std::fill_n(inverse, inverse_size(), -1);
    rows_.Write(rows, inverse);
    keys_.Write(keys, inverse);
  }

 private:
  const std::vector<KeyTable>& by_key_;
  const InversePlaces places_;
  UniqueRows rows_;
  UniqueKeys keys_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_UNIQUE_IDS_H_
