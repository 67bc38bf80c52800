// Shared by the tests of exchanges: the message in which a rank asks another one for rows.
#ifndef GRAPH_OPT_TESTS_EXCHANGE_REQUESTS_TESTING_H_
#define GRAPH_OPT_TESTS_EXCHANGE_REQUESTS_TESTING_H_

#include <cstdint>
#include <vector>

#include "exchange/message_header.h"
#include "exchange/sent_requests.h"

namespace graph_opt {

// Appends what a rank with a batch sends to another one. Returns how many numbers that are.
inline int64_t AppendRequest(const std::vector<int64_t>& request, std::vector<int64_t>* message) {
  const size_t begin = message->size();
  AppendHeader(RankState(), message);
  const size_t end_of_header = message->size();
  const EncodedRequest sent(request.data(), static_cast<int64_t>(request.size()));
  message->resize(end_of_header + sent.num_words());
  sent.Write(message->data() + end_of_header);
  return static_cast<int64_t>(message->size() - begin);
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_TESTS_EXCHANGE_REQUESTS_TESTING_H_
