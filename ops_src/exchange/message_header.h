#ifndef GRAPH_OPT_EXCHANGE_MESSAGE_HEADER_H_
#define GRAPH_OPT_EXCHANGE_MESSAGE_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace graph_opt {

// What each rank tells each other one, with its requests, about its batch:
//
//   code    0; kInputEnded; or the code of the error that came in place of a batch
//   bytes   of the error's text
//   text    filled up to words; the request follows if there is a batch (sent_requests.h)
constexpr int64_t kMessageHeaderWords = 2;

// The rank has no more batches, and takes part without ids until no rank has any.
constexpr int64_t kInputEnded = -1;

// Of a longer text the rest is not sent.
constexpr int64_t kLongestText = 8192;

struct RankState {
  int64_t code = 0;
  std::string text;

  bool has_batch() const { return code == 0 || code == kInputEnded; }
};

// Appends a header to the message for a rank.
void AppendHeader(const RankState& state, std::vector<int64_t>* message);

// Reads a header at *message, and moves *message behind it. Fails where it is malformed.
absl::Status ReadHeader(const int64_t** message, const int64_t* end, RankState* state);

// What becomes of a step, the same on all ranks: if a rank has an error, that error, of several the
// end of input before a cancellation before others, and then the lowest rank's; OutOfRange if the
// input of all ranks has ended.
absl::Status AgreedStatus(const std::vector<RankState>& ranks);

}  // namespace graph_opt

#endif  // GRAPH_OPT_EXCHANGE_MESSAGE_HEADER_H_
