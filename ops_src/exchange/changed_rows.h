#ifndef GRAPH_OPT_EXCHANGE_CHANGED_ROWS_H_
#define GRAPH_OPT_EXCHANGE_CHANGED_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "exchange/received_requests.h"
#include "lookup/parallel.h"
#include "lookup/row_set.h"
#include "packed/row_request.h"
#include "rows/row_kernels.h"

namespace graph_opt {

// What an owner sends once ranks take a batch that was looked up ahead: of the rows that it sent
// for that batch, those that have changed since. For each rank:
//
//   request    a checksum of what the rank has asked for
//   and for each of the owner's shards:
//   changed    how many of the rows asked for follow
//   places     if some have changed but not all: a bit for each row asked for
//   rows       the new values, filled up to words
//
// The checksum is that of another batch if ranks do not run the same steps.
class ChangedRowsForRanks {
 public:
  // `changed` are the rows that have changed of each shard, and perhaps a few more.
  ChangedRowsForRanks(const std::vector<ServedShard>& shards, const ReceivedRequests& requests,
                      const std::vector<RowSet>& changed, RowType type, Parallel* parallel);

  // Fails, naming the rank, where a shard does not have a row, or is not asked for rows by number.
  absl::Status Find();

  // How many words each rank gets.
  std::vector<int64_t> WordsOfRanks() const;

  // Writes them, rank after rank.
  void Write(int64_t* message) const;

 private:
  struct Part {  // what one rank gets of one shard
    size_t rank;
    int shard;
    const RequestedRows* requested;
    std::vector<int64_t> places;  // among the rows asked for
    int64_t words = 0;
    absl::Status status;
  };

  int64_t RowBytes(int shard) const { return shards_[shard].dim * ByteSize(type_); }
  void FindPart(Part* part) const;
  void WritePart(const Part& part, int64_t* to) const;

  const std::vector<ServedShard>& shards_;
  const std::vector<RowSet>& changed_;
  const RowType type_;
  Parallel* const parallel_;
  const size_t num_ranks_;
  std::vector<uint64_t> checksums_;  // of what each rank has asked for
  std::vector<Part> parts_;          // in the order of the message
};

// New values of rows that were asked of a shard.
struct ReceivedChanges {
  int shard;
  std::vector<int64_t> places;  // among the rows asked for
  std::vector<const char*> values;
};

// What a rank was asked for, as it was sent.
struct RequestWords {
  const int64_t* words;
  int64_t size;
};

// Takes what all owners sent apart: `sizes[rank]` of the message's words are from each. Fails,
// naming the rank, where it is malformed, or is about another batch than that of `requests`.
absl::Status ReadChanges(const int64_t* message, int64_t size, const std::vector<int64_t>& sizes,
                         const std::vector<RequestWords>& requests, const PackedShards& shards,
                         RowType type, std::vector<ReceivedChanges>* changes);

}  // namespace graph_opt

#endif  // GRAPH_OPT_EXCHANGE_CHANGED_ROWS_H_
