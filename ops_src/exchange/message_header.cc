#include "exchange/message_header.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace graph_opt {
namespace {

constexpr int64_t kWordBytes = sizeof(int64_t);
constexpr int64_t kHighestCode = static_cast<int64_t>(absl::StatusCode::kUnauthenticated);

int64_t WordsOf(int64_t bytes) { return (bytes + kWordBytes - 1) / kWordBytes; }

// After the first two, a rank sends no more messages, so whatever others met in this step must not
// make them wait for it.
int Precedence(int64_t code) {
  if (code == static_cast<int64_t>(absl::StatusCode::kOutOfRange)) return 2;
  return code == static_cast<int64_t>(absl::StatusCode::kCancelled) ? 1 : 0;
}

}  // namespace

void AppendHeader(const RankState& state, std::vector<int64_t>* message) {
  const int64_t bytes = std::min(static_cast<int64_t>(state.text.size()), kLongestText);
  message->push_back(state.code);
  message->push_back(bytes);
  if (bytes == 0) return;
  const size_t begin = message->size();
  message->resize(begin + WordsOf(bytes), 0);
  std::memcpy(message->data() + begin, state.text.data(), bytes);
}

absl::Status ReadHeader(const int64_t** message, const int64_t* end, RankState* state) {
  const int64_t left = end - *message - kMessageHeaderWords;
  const int64_t bytes = left < 0 ? -1 : (*message)[1];
  const bool has_text = bytes >= 0 && bytes <= kLongestText && WordsOf(bytes) <= left;
  if (!has_text || (*message)[0] < kInputEnded || (*message)[0] > kHighestCode) {
    return absl::InvalidArgumentError("the message has no header, or a malformed one");
  }
  state->code = (*message)[0];
  state->text.assign(reinterpret_cast<const char*>(*message + kMessageHeaderWords), bytes);
  *message += kMessageHeaderWords + WordsOf(bytes);
  return absl::OkStatus();
}

absl::Status AgreedStatus(const std::vector<RankState>& ranks) {
  const RankState* first = nullptr;
  bool all_ended = !ranks.empty();
  for (const RankState& rank : ranks) {
    if (rank.code != kInputEnded) all_ended = false;
    if (rank.has_batch()) continue;
    if (first == nullptr || Precedence(rank.code) > Precedence(first->code)) first = &rank;
  }
  if (first != nullptr) {
    return absl::Status(static_cast<absl::StatusCode>(first->code),
                        absl::StrCat("rank ", first - ranks.data(), ": ", first->text));
  }
  return all_ended ? absl::OutOfRangeError("the input of all ranks has ended") : absl::OkStatus();
}

}  // namespace graph_opt
