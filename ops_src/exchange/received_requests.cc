#include "exchange/received_requests.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "exchange/sent_requests.h"

namespace graph_opt {
namespace {

// Calls read(begin, end) for the part of the message that each rank has sent.
template <typename Read>
absl::Status ForEachRank(const int64_t* message, int64_t size, const std::vector<int64_t>& sizes,
                         Read read) {
  int64_t begin = 0;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    if (sizes[rank] < 0 || sizes[rank] > size - begin) {
      return absl::InvalidArgumentError(
          absl::StrCat("the requests have ", size, " numbers, and splits says that rank ", rank,
                       " has sent ", sizes[rank], " from number ", begin, " on"));
    }
    const absl::Status status = read(message + begin, message + begin + sizes[rank]);
    if (!status.ok()) return OfRank(rank, status);
    begin += sizes[rank];
  }
  if (begin == size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the requests have ", size,
                                                 " numbers, and splits says that the ",
                                                 sizes.size(), " ranks have sent ", begin));
}

}  // namespace

absl::Status OfRank(size_t rank, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("from rank ", rank, ": ", std::string(status.message())));
}

absl::Status ReadHeaders(const int64_t* message, int64_t size, const std::vector<int64_t>& sizes,
                         std::vector<RankState>* states) {
  return ForEachRank(message, size, sizes, [&](const int64_t* begin, const int64_t* end) {
    states->emplace_back();
    return ReadHeader(&begin, end, &states->back());
  });
}

absl::Status ReadRequests(const int64_t* message, int64_t size, const std::vector<int64_t>& sizes,
                          const std::vector<ServedShard>& shards, ReceivedRequests* requests) {
  requests->states.clear();
  requests->ranks.clear();
  requests->owned.clear();
  return ForEachRank(message, size, sizes, [&](const int64_t* begin, const int64_t* end) {
    requests->states.emplace_back();
    requests->ranks.emplace_back();
    const absl::Status header = ReadHeader(&begin, end, &requests->states.back());
    if (!header.ok()) return header;
    if (requests->states.back().has_batch()) {
      DecodedRequest request;
      const absl::Status widened = request.Read(begin, end);
      if (!widened.ok()) return widened;
      requests->owned.push_back(std::move(request.owned));
      return ReadRequest(request.words, request.size, shards, &requests->ranks.back());
    }
    requests->ranks.back().assign(shards.size(), RequestedRows{begin, 0, {}, {}});
    return absl::OkStatus();
  });
}

std::vector<int64_t> ElementsOfRanks(const std::vector<ServedShard>& shards,
                                     const ReceivedRequests& requests) {
  std::vector<int64_t> elements;
  for (const std::vector<RequestedRows>& requested : requests.ranks) {
    elements.push_back(0);
    for (size_t i = 0; i < shards.size(); ++i) {
      elements.back() += requested[i].count * shards[i].dim;
    }
  }
  return elements;
}

absl::Status GatherForRanks(const std::vector<ServedShard>& shards,
                            const ReceivedRequests& requests, RowType type,
                            const RowKernels& kernels, Parallel* parallel, char* rows) {
  // All ranks at once, so that the threads have enough to do.
  std::vector<ServedShard> all_shards;
  std::vector<RequestedRows> all_requested;
  for (const std::vector<RequestedRows>& requested : requests.ranks) {
    all_shards.insert(all_shards.end(), shards.begin(), shards.end());
    all_requested.insert(all_requested.end(), requested.begin(), requested.end());
  }
  const absl::Status gathered =
      GatherRows(all_shards, all_requested, type, kernels, parallel, rows);
  if (gathered.ok()) return gathered;
  for (size_t rank = 0; rank < requests.ranks.size(); ++rank) {  // the error of one rank
    const absl::Status one =
        GatherRows(shards, requests.ranks[rank], type, kernels, parallel, rows);
    if (!one.ok()) return OfRank(rank, one);
  }
  return gathered;
}

}  // namespace graph_opt
