#ifndef GRAPH_OPT_PACKED_ROW_REQUEST_H_
#define GRAPH_OPT_PACKED_ROW_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lookup/group_lookup.h"
#include "lookup/parallel.h"
#include "packed/key_request.h"
#include "packed/packed_bags.h"
#include "rows/row_kernels.h"

namespace graph_opt {

// What is asked of a server, and what it sends: one tensor each.
//
//   request   for each of the server's shards: 0, the number of rows, and the rows
//             or: the number of lookups, that of words, and the lookups' bags (packed_bags.h)
//             or: kByKey, the number of words, and keys (key_request.h)
//   rows      the rows asked for, or pooled by bag, one after another, shard by shard
constexpr int64_t kRequestHeaderWords = 2;  // of one shard

// A shard on its server.
struct ServedShard {
  std::string table;  // its name, for errors
  const void* data;   // [num_rows, dim]
  int64_t num_rows;
  int64_t dim;
  int64_t stride = 0;   // elements from row to row; 0: dim
  bool by_key = false;  // whether its rows are asked for by key
  bool either = false;  // it may be asked either way
};

// What is asked of one shard.
struct RequestedRows {
  const int64_t* rows;  // null: `bags`, or `keys` whose rows are not found yet
  int64_t count;        // rows to send
  std::vector<PackedBags> bags;
  RequestedKeys keys;
};

// Rows to read: one for each id where bags are pooled.
int64_t NumReadRows(const RequestedRows& requested);

// Takes a request of `size` numbers apart. Fails where it is malformed.
absl::Status ReadRequest(const int64_t* request, int64_t size,
                         const std::vector<ServedShard>& shards, std::vector<RequestedRows>* rows);

// Copies the rows asked for to `packed`, or pools them. Fails where a shard does not have them.
// Keys must have their rows by then.
absl::Status GatherRows(const std::vector<ServedShard>& shards,
                        const std::vector<RequestedRows>& requested, RowType type,
                        const RowKernels& kernels, Parallel* parallel, char* packed);

// What a server sent.
struct SentRows {
  const char* data;
  int64_t size;  // in elements
};

// Where the shards of a group's tables are, and how many of their rows were asked for.
struct PackedShards {
  std::vector<int> first_shards;  // of each table, and the end
  std::vector<int64_t> widths;    // of each table
  std::vector<int> servers;       // of each shard
  const int64_t* counts;          // of each shard; kPooledByServer, kNotAskedYet
  std::vector<int64_t> num_bags;  // of all lookups of each table
  const char* server = "server";  // what a server is called in errors
};
constexpr int64_t kPooledByServer = -1;
constexpr int64_t kNotAskedYet = -2;  // of all shards: the step that uses the batch asks for rows

// The rows that servers sent as tables whose ids are packed numbers (unique_rows.h), or the numbers
// of bags where the server pooled. Fails where servers sent fewer or more than was asked for.
absl::Status PackedTables(const PackedShards& shards, const std::vector<SentRows>& sent,
                          RowType type, std::vector<Table>* tables);

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_ROW_REQUEST_H_
