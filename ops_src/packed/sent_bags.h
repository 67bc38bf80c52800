#ifndef GRAPH_OPT_PACKED_SENT_BAGS_H_
#define GRAPH_OPT_PACKED_SENT_BAGS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "lookup/occurrences.h"

namespace graph_opt {

// The bags of a table as its server was asked to pool them. An update sends the same ones.
struct SentBags {
  const int64_t* words = nullptr;  // null: its server was asked for rows or by key
  int64_t num_words = 0;
};

// What was sent to one server.
struct SentRequest {
  const int64_t* words;
  int64_t size;
};

// Finds the bags of each table in the requests (row_request.h) that were made of these lookups.
// `first_shards` are the first shards of each table, and the end; `servers` those of each shard.
// Fails where a request can not be of the lookups.
absl::Status FindSentBags(const std::vector<SentRequest>& requests,
                          const std::vector<int>& first_shards, const std::vector<int>& servers,
                          const std::vector<PooledGradient>& lookups, std::vector<SentBags>* bags);

// Copies the bags of a table, for an update. `lookups` are those of the table: requests do not say
// which rows fill their empty bags.
void CopySentBags(const SentBags& bags, const std::vector<const PooledGradient*>& lookups,
                  int64_t* words);

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_SENT_BAGS_H_
