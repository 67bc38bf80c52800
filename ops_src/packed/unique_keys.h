#ifndef GRAPH_OPT_PACKED_UNIQUE_KEYS_H_
#define GRAPH_OPT_PACKED_UNIQUE_KEYS_H_

#include <cstdint>
#include <vector>

#include "keys/key_numbers.h"
#include "keys/key_owners.h"
#include "lookup/bags.h"
#include "lookup/occurrences.h"
#include "lookup/parallel.h"
#include "packed/inverse_places.h"
#include "scratch/scratch_array.h"

namespace graph_opt {

// A table whose rows go by key.
struct KeyTable {
  KeyOwners owners = KeyOwners::kNone;  // kNone: it is another kind of table, and left alone
  int num_shards = 1;
};

// Keys of one shard, and how often each was named.
struct ShardKeys {
  int64_t* keys;
  int32_t* counts;  // or null
};

// Finds the keys that lookups name, each once and by the shard that has it:
//
//   Find()     ids -> keys of each shard       then NumKeys() is known
//   Write()    keys of each shard, and for each id the packed number of its key
//
// Packed numbers count the found keys of a table, shard after shard, as UniqueRows has them. A
// table's keys are divided by hash among threads, so that a key belongs to one of them.
class UniqueKeys {
 public:
  // Of the lookups' gradients nothing is read.
  UniqueKeys(const std::vector<KeyTable>& tables, const std::vector<PooledGradient>& lookups,
             const InversePlaces& places, Parallel* parallel);

  BagFault Find();

  int64_t NumKeys(int table, int shard) const { return num_keys_[table][shard]; }
  // The greatest number of times that one of them was named.
  int32_t MostCount(int table, int shard) const { return most_counts_[table][shard]; }

  // `keys[table][shard]` takes NumKeys(). Places of ids that are dropped are left alone.
  void Write(const std::vector<std::vector<ShardKeys>>& keys, int32_t* inverse);

 private:
  struct Named {
    int32_t place;  // in `inverse`
    int32_t number;
  };
  // The keys of a table with some hashes: what one thread does at a time.
  struct Part {
    int table = 0;
    int part = 0;
    int num_parts = 1;
    KeyNumbers keys;
    ScratchArray<int32_t> counts;
    int64_t counts_size = 0;
    std::vector<ScratchArray<Named>> named;
    int64_t named_in_last = 0;
    std::vector<int64_t> num_keys;   // of each shard
    std::vector<int64_t> first_key;  // of each shard, in parts before
    std::vector<int32_t> most_count;
  };

  void AddParts(int table, int64_t num_ids);
  BagFault Collect(const std::vector<PooledGradient>& lookups, Part* part) const;
  void Add(Part* part, int64_t key, uint64_t hash, int64_t place) const;
  void CountShards(Part* part) const;
  void WritePart(const Part& part, const std::vector<int64_t>& first_packed,
                 const std::vector<ShardKeys>& keys, int32_t* inverse) const;

  const std::vector<KeyTable>& tables_;
  const std::vector<PooledGradient>& lookups_;
  const InversePlaces& places_;
  Parallel* const parallel_;
  std::vector<Part> parts_;  // table after table
  std::vector<std::vector<int64_t>> num_keys_;
  std::vector<std::vector<int32_t>> most_counts_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_UNIQUE_KEYS_H_
