#ifndef GRAPH_OPT_KERNELS_PACKED_SERVED_REQUESTS_H_
#define GRAPH_OPT_KERNELS_PACKED_SERVED_REQUESTS_H_

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "packed/row_request.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// The shards that are kept up to date: those with a name.
inline std::shared_ptr<const std::vector<std::string>> FollowedShards(
    const std::vector<std::string>& shards) {
  auto followed = std::make_shared<std::vector<std::string>>();
  for (const std::string& shard : shards) {
    if (!shard.empty()) followed->push_back(shard);
  }
  return followed;
}

// By what the batches of a lookup are known on a worker. Other sessions there may have a lookup of
// that name, of other tables.
inline std::string KeyOfLookup(const std::string& lookup, const std::vector<std::string>& shards) {
  std::string key = lookup;
  for (const std::string& shard : shards) key += "\n" + shard;
  return key;
}

// Puts requests that ask for nothing into the first outputs: one for each server, by the servers of
// the shards.
inline tensorflow::Status SetEmptyRequests(tensorflow::OpKernelContext* ctx, int num_servers,
                                           const std::vector<int>& servers) {
  for (int i = 0; i < num_servers; ++i) {
    const auto shards = std::count(servers.begin(), servers.end(), i);
    const tensorflow::TensorShape shape({shards * kRequestHeaderWords});
    tensorflow::Tensor* request = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, shape, &request));
    request->flat<tensorflow::int64>().setZero();
  }
  return tensorflow::Status();
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_PACKED_SERVED_REQUESTS_H_
