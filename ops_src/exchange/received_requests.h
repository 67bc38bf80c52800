#ifndef GRAPH_OPT_EXCHANGE_RECEIVED_REQUESTS_H_
#define GRAPH_OPT_EXCHANGE_RECEIVED_REQUESTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "exchange/message_header.h"
#include "lookup/parallel.h"
#include "packed/row_request.h"
#include "rows/row_kernels.h"

namespace graph_opt {

// In an exchange, each rank serves its shards to all ranks. What they ask for comes as one message,
// of each rank a header (message_header.h) and a request (sent_requests.h), and what they get is
// one message, too.
struct ReceivedRequests {
  std::vector<RankState> states;                  // of each rank
  std::vector<std::vector<RequestedRows>> ranks;  // of each rank: of each shard
  std::vector<std::unique_ptr<int64_t[]>> owned;  // words that have come as narrower numbers
};

// The headers of all ranks: `sizes[rank]` of the message's numbers are from each. Fails, naming the
// rank, where one is malformed.
absl::Status ReadHeaders(const int64_t* message, int64_t size, const std::vector<int64_t>& sizes,
                         std::vector<RankState>* states);

// Takes the message apart: `sizes[rank]` of its numbers are from each rank. Fails, naming the rank,
// where a request is malformed. A rank without a batch asks for nothing.
absl::Status ReadRequests(const int64_t* message, int64_t size, const std::vector<int64_t>& sizes,
                          const std::vector<ServedShard>& shards, ReceivedRequests* requests);

// How many elements each rank gets.
std::vector<int64_t> ElementsOfRanks(const std::vector<ServedShard>& shards,
                                     const ReceivedRequests& requests);

// Writes the rows that each rank gets, rank after rank. Fails, naming the rank, where a shard does
// not have a row.
absl::Status GatherForRanks(const std::vector<ServedShard>& shards,
                            const ReceivedRequests& requests, RowType type,
                            const RowKernels& kernels, Parallel* parallel, char* rows);

// A status about the request of a rank.
absl::Status OfRank(size_t rank, const absl::Status& status);

}  // namespace graph_opt

#endif  // GRAPH_OPT_EXCHANGE_RECEIVED_REQUESTS_H_
