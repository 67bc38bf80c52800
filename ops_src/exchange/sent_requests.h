#ifndef GRAPH_OPT_EXCHANGE_SENT_REQUESTS_H_
#define GRAPH_OPT_EXCHANGE_SENT_REQUESTS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"

namespace graph_opt {

// A request (packed/row_request.h) as it travels between ranks: how many 4-byte numbers follow,
// padded to words; or 0 and the 8-byte words, if one of them does not fit: a key, the weights of
// bags, or a row of a shard with more than 2^31.
class EncodedRequest {
 public:
  EncodedRequest(const int64_t* words, int64_t size);

  int64_t num_words() const;
  void Write(int64_t* to) const;

 private:
  const int64_t* const words_;
  const int64_t size_;
  const bool is_narrow_;
};

// The words of a request that was received.
struct DecodedRequest {
  // Fails where it is malformed.
  absl::Status Read(const int64_t* begin, const int64_t* end);

  const int64_t* words = nullptr;
  int64_t size = 0;
  std::unique_ptr<int64_t[]> owned;  // null where the words have come as they are
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_EXCHANGE_SENT_REQUESTS_H_
