#include "exchange/explained_failures.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace graph_opt {
namespace {

constexpr int32_t kMaxCauseBytes = 1 << 14;

std::atomic<FindCause> find_cause{nullptr};

absl::Status CauseOf(const absl::Status& error, FindCause find) {
  const std::string text(error.message());
  std::vector<char> cause(kMaxCauseBytes);
  const int32_t code =
      find(static_cast<int32_t>(error.code()), text.c_str(), cause.data(), kMaxCauseBytes);
  return code == 0 ? error : absl::Status(static_cast<absl::StatusCode>(code), cause.data());
}

}  // namespace

void EndWithCause(const absl::Status& error, std::function<void(const absl::Status&)> end) {
  const FindCause find = find_cause.load();
  if (find == nullptr) return end(error);
  std::thread([error, end, find] { end(CauseOf(error, find)); }).detach();
}

}  // namespace graph_opt

extern "C" __attribute__((visibility("default"))) void graph_opt_find_causes(
    graph_opt::FindCause find) {
  graph_opt::find_cause.store(find);
}
