#ifndef GRAPH_OPT_PACKED_UNIQUE_ROWS_H_
#define GRAPH_OPT_PACKED_UNIQUE_ROWS_H_

#include <cstdint>
#include <vector>

#include "lookup/group_lookup.h"
#include "lookup/occurrences.h"
#include "packed/inverse_places.h"
#include "packed/unique_keys.h"
#include "scratch/scratch_array.h"

namespace graph_opt {

// Finds the rows that lookups name, each once, so that each is asked for and sent once.
//
//   Find()     ids -> rows of each shard           then NumRows() is known
//   Write()    rows of each shard, ascending, and for each id the packed number of its row
//
// The packed number of a row counts the found rows of its table, shard after shard. So packed rows
// are a table again, with the packed numbers as keys (Partition::kKeys).
class UniqueRows {
 public:
  // Of the lookups' gradients nothing is read. Tables that go by key (`keys`, one for each table)
  // are left alone.
  UniqueRows(const std::vector<GradientTable>& tables, const std::vector<KeyTable>& keys,
             const std::vector<PooledGradient>& lookups, const InversePlaces& places,
             Parallel* parallel);

  BagFault Find();

  int64_t NumRows(int table, int shard) const { return num_rows_[table][shard]; }

  // `rows[table][shard]` takes NumRows() rows. Places of ids that are dropped are left alone.
  void Write(const std::vector<std::vector<int64_t*>>& rows, int32_t* inverse);

 private:
  struct Sorted {  // what is found of a range
    ScratchArray<uint64_t> words;
    ScratchArray<uint64_t> scratch;
    DenseKeys keys;
    ScratchArray<int32_t> ranks;  // by key
  };
  struct Piece {  // the part of a range that lies in one shard
    int shard;
    size_t begin, end;  // among the range's words
    int64_t num_rows;
    int64_t first_row;  // rows of the shard in earlier pieces
  };
  struct Range {
    KeyRange keys;
    size_t count;    // of words
    bool is_sorted;  // else the words are in the order of the ids, and `keys` has their keys
    std::vector<Piece> pieces;
  };

  BagFault Collect(const std::vector<PooledGradient>& lookups, Range* range, Sorted* sorted) const;
  void Order(Range* range, Sorted* sorted) const;
  void CutAtShards(Range* range, const Sorted& sorted) const;
  void WriteSorted(const Range& range, const Sorted& sorted,
                   const std::vector<std::vector<int64_t>>& first_packed,
                   const std::vector<std::vector<int64_t*>>& rows, int32_t* inverse) const;
  void WriteRanked(const Range& range, Sorted* sorted, int64_t* rows, int32_t* inverse) const;

  const std::vector<GradientTable>& tables_;
  const std::vector<KeyTable>& by_key_;
  const std::vector<PooledGradient>& lookups_;
  const InversePlaces& places_;
  Parallel* const parallel_;
  const int place_bits_;  // of a word: place in `inverse`, below the key
  std::vector<Range> ranges_;
  std::vector<Sorted> sorted_;  // of each range
  std::vector<std::vector<int64_t>> num_rows_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_UNIQUE_ROWS_H_
