#ifndef GRAPH_OPT_EXCHANGE_SENT_ROW_GRADIENTS_H_
#define GRAPH_OPT_EXCHANGE_SENT_ROW_GRADIENTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lookup/occurrences.h"
#include "packed/row_request.h"
#include "rows/row_kernels.h"

namespace graph_opt {

// How many elements each of `num_ranks` ranks sends, `shards` being on ranks. Fails where counts or
// widths are negative.
absl::Status ElementsSent(const PackedShards& shards, int num_ranks,
                          std::vector<int64_t>* elements);

// From the gradients of pooled rows those of the rows that ranks sent, in the order in which they
// sent them, or of the bags that owners pooled. The ids of lookups are packed numbers
// (PackedTables), but where the owner pools. Rows and bags of lookups that are not `counted` alone
// are marked (no_gradient.h). `names` are those of the tables, for errors.
absl::Status GradientsOfSentRows(const PackedShards& shards, int num_ranks,
                                 const std::vector<std::string>& names,
                                 const std::vector<PooledGradient>& lookups,
                                 const std::vector<bool>& counted, RowType type,
                                 const RowKernels& kernels, Parallel* parallel, char* gradients);

}  // namespace graph_opt

#endif  // GRAPH_OPT_EXCHANGE_SENT_ROW_GRADIENTS_H_
