#ifndef GRAPH_OPT_PACKED_DEFERRED_REQUEST_H_
#define GRAPH_OPT_PACKED_DEFERRED_REQUEST_H_

#include <vector>

#include "deferred/deferred_rows.h"
#include "packed/row_request.h"

namespace graph_opt {

// Catches up the rows that a request asks for, each shard's of its own (ReadRequest), as far as
// their reader needs. Rows that a shard does not have are skipped.
void CatchUp(const std::vector<DeferredShard>& shards, const std::vector<RequestedRows>& requested,
             DeferredNeeds needs, const RowKernels& kernels, Parallel* parallel);

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_DEFERRED_REQUEST_H_
