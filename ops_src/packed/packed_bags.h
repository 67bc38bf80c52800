#ifndef GRAPH_OPT_PACKED_PACKED_BAGS_H_
#define GRAPH_OPT_PACKED_PACKED_BAGS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "lookup/bags.h"
#include "scratch/scratch_array.h"

namespace graph_opt {

// The bags of one lookup on their way to the server of its table, in words of 8 bytes:
//
//   kBagHeaderWords      numbers of bags and ids, default and filled id, how the rest is written
//   ids in each bag      each in 1, 2 or 4 bytes, filled up to a word
//   ids, bag after bag   each in 1, 2 or 4 bytes, filled up
//   weights, if any      floats, filled up
//
// The table is in one shard, so that ids are its rows. Ids that are dropped are not among them.
constexpr int64_t kBagHeaderWords = 5;

// Packs the bags of one lookup.
class BagPacking {
 public:
  // Reads the bags of a table of `num_rows` rows, at most 2^31 - 1.
  BagFault Read(const Bags& bags, int64_t num_rows);

  int64_t num_words() const;

  // Returns the end of what it wrote.
  int64_t* Write(int64_t* words) const;

 private:
  BagFault ReadAnyOrder(const Bags& bags, int64_t num_rows);
  bool ReadPlain(const Bags& bags, int64_t num_rows);
  BagFault ReadInOrder(const Bags& bags, int64_t num_rows);

  Combiner combiner_ = Combiner::kMean;
  int64_t default_id_ = -1;
  int64_t filled_id_ = -1;
  bool weighted_ = false;
  bool has_empty_bag_ = false;
  int32_t most_in_bag_ = 0;
  int32_t greatest_id_ = 0;
  int64_t num_bags_ = 0;
  int64_t num_ids_ = 0;  // that are packed
  ScratchArray<int32_t> lengths_;
  ScratchArray<int64_t> ends_;  // of bags
  ScratchArray<int32_t> ids_;
  ScratchArray<float> weights_;
};

// Where the parts of packed bags are.
struct PackedBags {
  int64_t num_bags;
  int64_t num_ids;
  int64_t default_id;
  int64_t filled_id;
  Combiner combiner;
  int length_bytes;
  int id_bytes;
  const int64_t* lengths;
  const int64_t* ids;
  const int64_t* weights;  // null: none
};

// Finds the bags of one lookup at *words, and moves *words behind them. Fails where they are
// malformed or do not end before `end`.
absl::Status FindPackedBags(const int64_t** words, const int64_t* end, PackedBags* packed);

bool HasEmptyBag(const PackedBags& packed);

// The ids, num_ids of them.
void ReadIds(const PackedBags& packed, int32_t* ids);

// Bags as lookups take them.
struct UnpackedBags {
  Bags bags;
  ScratchArray<int64_t> positions;
  ScratchArray<int32_t> ids;
  ScratchArray<float> weights;
};

// Fails where the ids in bags are not as many as there are ids.
absl::Status Unpack(const PackedBags& packed, UnpackedBags* unpacked);

// A row that unpacked bags name and a table of `num_rows` rows does not have, or -1.
int64_t RowOutside(const UnpackedBags& unpacked, int64_t num_rows);

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_PACKED_BAGS_H_
